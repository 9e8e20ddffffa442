"""Shares of W o x modulo 2^64: one party has x, the other W, and neither learns the other's.

The product of Cheetah (Huang et al., USENIX Security 2022), which Algorithms 1 and 2 of Pencil (Liu
et al., NDSS 2024) are made of, with messages modulo 2^64 itself: x is encrypted as
x Q / 2^64, rounded, in BFV's ring of degree 8192 modulo Q of 200 bits. W is written in limbs if
its noise would not fit otherwise, x then encrypted once for each; whole words mostly fit.

Guarantees:
    Semi-honest security. Whoever has W sees ciphertexts (ring-LWE, 128 bits). Whoever has x sees
    its share, W o x - s for a fresh uniform s, and per coefficient an error that is 2^-40 from one
    that he could draw himself, over all coefficients of a run (`two_party.lattice.flooding`); the
    answer's random half has that of a fresh encryption of zero under his public key added, without
    which it would be W times known polynomials. Coefficients that are no output are not sent.
    A party that deviates can spoil the result; malformed messages are refused. Blocks of W that are
    all zeros take less time: public sparsity.

Cost:
    One round of two messages, whose lengths follow from the plan (`Cut.request_bytes`,
    `Cut.answer_bytes`); the public key of 451 kB once.
"""

import os
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from extensions.errors import ArgumentError, CiphertextError, InsecureError
from extensions.ring.fixed_point import Integers
from extensions.two_party.lattice import residues, wire
from extensions.two_party.lattice.flooding import USUAL, Flooding, flood
from extensions.two_party.lattice.packing import (
    Places,
    image_polynomials,
    kernel_polynomials,
    output_places,
)
from extensions.two_party.lattice.plan import PUBLIC_KEY_BYTES, SEED_BYTES, Convolution
from extensions.two_party.lattice.residues import Stream, Words
from extensions.two_party.lattice.scheme import DEGREE, PORTION, decrypted_words, default_scheme

if TYPE_CHECKING:
    import seal


class KeyOwner:
    """The party that has x and the secret key, fresh from the operating system."""

    def __init__(self) -> None:
        self._scheme = default_scheme()
        secret, self._public, transforms = self._scheme.keys()
        self._decryptor = self._scheme.decryptor(secret)
        self._secret = self._scheme.plaintext(transforms)
        self._stream = Stream()

    def public_key(self) -> bytes:
        """Returns what the other party needs once, 450,592 bytes."""
        scheme = self._scheme
        words = scheme.public_residues(self._public)
        return wire.head("public key", None, scheme) + wire.pack(words, scheme.key_primes)

    def encrypt(self, plan: Convolution, x: Integers) -> bytes:
        """Returns the request for W o x; ArgumentError if x has another shape than the plan's."""
        _check_shape("x", x, plan.input_shape)
        scheme, primes = self._scheme, self._scheme.primes
        messages = image_polynomials(plan, x).reshape(-1, DEGREE)
        seed = os.urandom(SEED_BYTES)
        halves = Stream(seed)
        total = np.empty((len(messages), len(primes), DEGREE), dtype=np.uint64)
        for start in range(0, len(messages), PORTION):
            part = messages[start : start + PORTION]
            errors = residues.centred_binomial(self._stream, len(part), DEGREE)
            plain = residues.scaled(part, primes)
            plain = residues.add(plain, residues.of_small(errors, primes), primes)
            half = scheme.times(halves.residues(len(part), primes, DEGREE), self._secret)
            hidden = residues.add(scheme.transform(plain), residues.negate(half, primes), primes)
            total[start : start + PORTION] = hidden
        return wire.head("request", plan, scheme) + seed + wire.pack(total, primes)

    def decrypt(self, plan: Convolution, answer: bytes) -> Integers:
        """Returns this party's share of W o x, of the plan's output shape.

        Raises CiphertextError if the answer is for another product, or malformed.
        """
        scheme, primes = self._scheme, self._scheme.answer_primes
        expected = wire.head("answer", plan, scheme)
        size = plan.cut.answer_bytes(plan)
        left = wire.body("answer", answer, expected, size)
        share = np.empty(plan.output_shape, dtype=np.int64)
        for images, outputs in _answers(plan):
            places = output_places(plan, images, outputs)
            shape = len(primes), DEGREE + places.size
            cut = wire.size(shape[1], primes)
            held = wire.unpack("answer", left[:cut], shape, primes)
            if not held[:, :DEGREE].any():
                raise CiphertextError("the answer is not encrypted: its random half is zero.")
            pair = np.zeros((2, len(primes), DEGREE), dtype=np.uint64)
            pair[1], pair[0][:, places.ravel()] = held[:, :DEGREE], held[:, DEGREE:]
            words = self._words(pair)[places]
            share[_block(plan, images, outputs)] = words.view(np.int64)
            left = left[cut:]
        return share

    def _words(self, pair: Words) -> Words:
        """Returns what a ciphertext of answer primes holds modulo 2^64.

        SEAL decrypts modulo 2^59: thirty-two times the ciphertext gives the last 59 bits, and what
        is left without these the first five.
        """
        scheme, primes = self._scheme, self._scheme.answer_primes
        whole = scheme.pack(pair, transformed=False)
        low = decrypted_words(self._decryptor.decrypt(scheme.thirty_two_fold(whole)))
        rest = residues.add(pair[0], residues.negate(residues.scaled(low, primes), primes), primes)
        upper = self._decryptor.decrypt(scheme.pack(np.stack([rest, pair[1]]), transformed=False))
        rounded = (decrypted_words(upper) + np.uint64(1 << 53)) >> np.uint64(54)
        return low | rounded << np.uint64(59)


class Multiplier:
    """The party that has W, under the public key of the other party's `KeyOwner`.

    Every product's plan must have the run's flooding. Raises CiphertextError if the key is none of
    these parameters.
    """

    def __init__(self, public_key: bytes, flooding: Flooding = USUAL) -> None:
        self._scheme = scheme = default_scheme()
        shape = (2, len(scheme.key_primes), DEGREE)
        expected = wire.head("public key", None, scheme)
        left = wire.body("public key", public_key, expected, PUBLIC_KEY_BYTES)
        words = wire.unpack("public key", left, shape, scheme.key_primes)
        self._encryptor = scheme.encryptor(words)
        self._flooding = flooding
        self._left = self._flooding.coefficients
        self._stream = Stream()

    def multiply(
        self, plan: Convolution, weights: Integers, request: bytes
    ) -> tuple[bytes, Integers]:
        """Returns the answer, and this party's share s of W o x.

        Raises:
            ArgumentError: W has another shape than the plan's, or an entry of more bits; the plan's
                flooding is not the run's.
            CiphertextError: the request is for another product, or malformed.
            InsecureError: the run would reveal more coefficients than its flooding is sized for.
        """
        self._check(plan, weights)
        inputs = self._inputs(plan, request)
        self._left -= plan.revealed
        share = self._stream.words(*plan.output_shape).view(np.int64)
        answer = [wire.head("answer", plan, self._scheme)]
        for images, outputs in _answers(plan):
            if images == 0:
                kernels = kernel_polynomials(plan, weights, outputs).reshape(-1, DEGREE)
                factors = self._scheme.factors(kernels)
            places = output_places(plan, images, outputs).ravel()
            mask = share[_block(plan, images, outputs)].ravel().view(np.uint64)
            total = self._sum(inputs[images], factors)
            hidden = self._hidden(plan, total, places, mask)
            answer.append(wire.pack(hidden, self._scheme.answer_primes))
        return b"".join(answer), share

    def _check(self, plan: Convolution, weights: Integers) -> None:
        _check_shape("weights", weights, plan.weight_shape)
        ends = int(weights.min()), int(weights.max())
        if any((end ^ (end >> 63)).bit_length() >= plan.weight_bits for end in ends):
            # The values themselves are secret.
            allowed = "enough for all entries of W"
            raise ArgumentError("weight_bits", plan.weight_bits, allowed, code="range")
        if plan.flooding != self._flooding:
            raise ArgumentError("flooding", plan.flooding, f"that of the run, {self._flooding}")
        if plan.revealed > self._left:
            raise InsecureError(
                f"this product reveals {plan.revealed} coefficients, but the run's noise hides "
                f"{self._flooding.coefficients} and only {self._left} of them are left. Begin "
                "another run, or give a larger Flooding(coefficients=...)."
            )

    def _inputs(self, plan: Convolution, request: bytes) -> "list[list[seal.Ciphertext]]":
        """Returns the ciphertexts of a request, a list for each block of images."""
        scheme, primes = self._scheme, self._scheme.primes
        size = plan.cut.request_bytes(plan)
        left = wire.body("request", request, wire.head("request", plan, scheme), size)
        images, channels, _ = plan.cut.blocks(plan)
        each = channels * plan.cut.limbs
        shape = (images * each, len(primes), DEGREE)
        totals = wire.unpack("request", left[SEED_BYTES:], shape, primes)
        halves = Stream(bytes(left[:SEED_BYTES]))
        held = [
            scheme.pack(np.stack([total, halves.residues(1, primes, DEGREE)[0]]), transformed=True)
            for total in totals
        ]
        return [held[start : start + each] for start in range(0, len(held), each)]

    def _sum(self, inputs: "list[seal.Ciphertext]", factors: "list[seal.Plaintext]") -> Words:
        """Returns the sum of the products, with a fresh encryption of zero, in residues."""
        evaluator = self._scheme.evaluator
        total = None
        for one, factor in zip(inputs, factors, strict=True):
            if factor.is_zero():  # SEAL refuses a product that would be no ciphertext
                continue
            term = evaluator.multiply_plain(one, factor)
            total = term if total is None else evaluator.add(total, term)
        zero = self._encryptor.encrypt_zero()
        if total is not None:
            evaluator.transform_from_ntt_inplace(total)
            evaluator.add_inplace(zero, total)
        return self._scheme.unpack(zero)

    def _hidden(self, plan: Convolution, total: Words, places: Places, mask: Words) -> Words:
        """Returns what is sent of one ciphertext: its random half, then its outputs."""
        scheme, primes = self._scheme, self._scheme.primes
        noise = flood(self._stream, mask.size, plan.cut.flood_bits, primes)
        noise = residues.add(noise, residues.negate(residues.scaled(mask, primes), primes), primes)
        pair = total.copy()
        pair[0][:, places] = residues.add(pair[0][:, places], noise, primes)
        smaller = scheme.divided(pair)
        return np.concatenate([smaller[1], smaller[0][:, places]], axis=-1)


def _answers(plan: Convolution) -> Iterator[tuple[int, int]]:
    """Yields (block of images, block of kernels) of the ciphertexts of an answer, in its order."""
    images, _, outputs = plan.cut.blocks(plan)
    for kernels, image in product(range(outputs), range(images)):
        yield image, kernels


def _block(plan: Convolution, images: int, outputs: int) -> tuple[slice, slice]:
    batch, kernels = plan.cut.batch, plan.cut.outputs
    return (
        slice(images * batch, (images + 1) * batch),
        slice(outputs * kernels, (outputs + 1) * kernels),
    )


def _check_shape(name: str, given: Integers, shape: tuple[int, ...]) -> None:
    if given.shape != shape or given.dtype != np.int64:
        allowed = f"int64 of shape {shape}"
        raise ArgumentError(name, f"{given.dtype} {given.shape}", allowed, code="shape")
