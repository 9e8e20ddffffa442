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

inline uint32_t Rotate(uint32_t x, int bits) { return (x << bits) | (x >> (32 - bits)); }

inline void QuarterRound(uint32_t* s, int a, int b, int c, int d) {
  s[a] += s[b]; s[d] = Rotate(s[d] ^ s[a], 16);
  s[c] += s[d]; s[b] = Rotate(s[b] ^ s[c], 12);
  s[a] += s[b]; s[d] = Rotate(s[d] ^ s[a], 8);
  s[c] += s[d]; s[b] = Rotate(s[b] ^ s[c], 7);
}

void Block(const uint32_t* start, uint32_t* out) {
  uint32_t s[kWords];
  std::memcpy(s, start, sizeof(s));
  for (int round = 0; round < 10; ++round) {
    QuarterRound(s, 0, 4, 8, 12);
    QuarterRound(s, 1, 5, 9, 13);
    QuarterRound(s, 2, 6, 10, 14);
    QuarterRound(s, 3, 7, 11, 15);
    QuarterRound(s, 0, 5, 10, 15);
    QuarterRound(s, 1, 6, 11, 12);
    QuarterRound(s, 2, 7, 8, 13);
    QuarterRound(s, 3, 4, 9, 14);
  }
  for (int i = 0; i < kWords; ++i) out[i] = s[i] + start[i];
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
    for (int64_t block = 0; block < blocks; ++block) {
      start[12] = static_cast<uint32_t>(block);
      Block(start, out + block * kWords);
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
