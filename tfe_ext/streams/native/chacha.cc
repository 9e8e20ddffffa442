// ChaCha20 key stream (RFC 8439, sections 2.3 and 2.4) as one TensorFlow operation: the same words
// as tfe_ext/chacha.py, which is the reference. Built by tfe_ext/native/__init__.py.

#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

constexpr int kWords = 16;
constexpr int64_t kMostBlocks = int64_t{1} << 27;

// Blocks are computed side by side, one in each lane of a vector of whatever width there is.
constexpr int kLanes = 8;
typedef uint32_t Lanes __attribute__((vector_size(kLanes * sizeof(uint32_t))));

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define PEA_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef PEA_FOR_EACH_PROCESSOR
#define PEA_FOR_EACH_PROCESSOR
#endif

#define PEA_ROTATE(x, bits) (((x) << (bits)) | ((x) >> (32 - (bits))))
#define PEA_QUARTER_ROUND(a, b, c, d)                             \
  s[a] += s[b]; s[d] ^= s[a]; s[d] = PEA_ROTATE(s[d], 16);        \
  s[c] += s[d]; s[b] ^= s[c]; s[b] = PEA_ROTATE(s[b], 12);        \
  s[a] += s[b]; s[d] ^= s[a]; s[d] = PEA_ROTATE(s[d], 8);         \
  s[c] += s[d]; s[b] ^= s[c]; s[b] = PEA_ROTATE(s[b], 7)

// Writes the kLanes blocks that begin with the one of the counter in `start`.
PEA_FOR_EACH_PROCESSOR
void Blocks(const uint32_t* start, uint32_t* out) {
  Lanes first[kWords], s[kWords];
  for (int i = 0; i < kWords; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) first[i][lane] = start[i] + (i == 12 ? lane : 0);
    s[i] = first[i];
  }
  for (int round = 0; round < 10; ++round) {
    PEA_QUARTER_ROUND(0, 4, 8, 12);
    PEA_QUARTER_ROUND(1, 5, 9, 13);
    PEA_QUARTER_ROUND(2, 6, 10, 14);
    PEA_QUARTER_ROUND(3, 7, 11, 15);
    PEA_QUARTER_ROUND(0, 5, 10, 15);
    PEA_QUARTER_ROUND(1, 6, 11, 12);
    PEA_QUARTER_ROUND(2, 7, 8, 13);
    PEA_QUARTER_ROUND(3, 4, 9, 14);
  }
  uint32_t words[kWords][kLanes];
  for (int i = 0; i < kWords; ++i) {
    const Lanes sum = s[i] + first[i];
    std::memcpy(words[i], &sum, sizeof(sum));
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < kWords; ++i) out[lane * kWords + i] = words[i][lane];
  }
}

class PeaChaCha20Op : public tensorflow::OpKernel {
 public:
  using tensorflow::OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& key = context->input(0);
    const tensorflow::Tensor& nonce = context->input(1);
    OP_REQUIRES(context, key.NumElements() == 8 && nonce.NumElements() == 3,
                tensorflow::errors::InvalidArgument("key needs 8 words, nonce 3"));
    OP_REQUIRES(context, context->input(2).NumElements() == 1,
                tensorflow::errors::InvalidArgument("blocks must be one number"));
    const int64_t blocks = context->input(2).flat<int32_t>()(0);
    OP_REQUIRES(context, blocks >= 0 && blocks <= kMostBlocks,
                tensorflow::errors::InvalidArgument("blocks is out of range"));
    tensorflow::Tensor* words = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, tensorflow::TensorShape({blocks * kWords}), &words));
    uint32_t start[kWords] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    std::memcpy(start + 4, key.flat<uint32_t>().data(), 8 * sizeof(uint32_t));
    std::memcpy(start + 13, nonce.flat<uint32_t>().data(), 3 * sizeof(uint32_t));
    uint32_t* out = words->flat<uint32_t>().data();
    int64_t block = 0;
    for (; block + kLanes <= blocks; block += kLanes) {
      start[12] = static_cast<uint32_t>(block);
      Blocks(start, out + block * kWords);
    }
    if (block < blocks) {
      uint32_t rest[kLanes * kWords];
      start[12] = static_cast<uint32_t>(block);
      Blocks(start, rest);
      std::memcpy(out + block * kWords, rest, (blocks - block) * kWords * sizeof(uint32_t));
    }
  }
};

REGISTER_OP("PeaChaCha20")
    .Input("key: uint32")
    .Input("nonce: uint32")
    .Input("blocks: int32")
    .Output("words: uint32")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      return absl::OkStatus();
    });

REGISTER_KERNEL_BUILDER(Name("PeaChaCha20").Device(tensorflow::DEVICE_CPU), PeaChaCha20Op);

}  // namespace
