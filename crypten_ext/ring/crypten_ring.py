"""CrypTen as a ring: additive shares in torch.int64, one collective a round."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from omegaconf import OmegaConf

from crypten_ext.ring import circuits, tuples
from crypten_ext.ring.opening import is_leader, open_sum, open_xor
from extensions.errors import ArgumentError, InsecureError
from extensions.ring.fixed_point import RING_BITS, Integers, check_frac_bits, wrap
from extensions.ring.interface import NoiseSource

import crypten
from crypten import communicator
from crypten.mpc import MPCTensor

OFFSET_BITS = 62


class CrypTenRing:
    """`extensions.ring.interface.Ring` over the parties of the running CrypTen process group.

    A share is this party's torch.int64 tensor; bits are XOR-shared torch.int64 words.

    Raises:
        InsecureError: CrypTen is configured for a protocol that leaks, or for checks that ours
            would bypass.
    """

    def __init__(self, frac_bits: int) -> None:
        check_configuration()
        self.frac_bits = check_frac_bits(frac_bits)

    @property
    def parties(self) -> int:
        return int(communicator.get().get_world_size())

    @property
    def rank(self) -> int:
        return int(communicator.get().get_rank())

    def add_public(self, x: torch.Tensor, value: Integers | int) -> torch.Tensor:
        public = wrap(value) if isinstance(value, int) else torch.from_numpy(np.asarray(value))
        return x + public if is_leader() else x

    def linear(self, x: torch.Tensor, rows: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        matrix = torch.tensor([[wrap(entry) for entry in row] for row in rows], dtype=torch.int64)
        combined = matrix @ x.reshape(len(x), -1)
        return list(combined.reshape(len(rows), *x.shape[1:]))

    def stack(self, shares: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(shares))

    def mul(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        return self._beaver("mul", pairs)

    def matmul(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> list[torch.Tensor]:
        return self._beaver("matmul", pairs)

    def _beaver(
        self, op: str, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]
    ) -> list[torch.Tensor]:
        provider = crypten.mpc.get_default_provider()
        compute = getattr(torch, op)
        triples = [
            tuple(
                t.share
                for t in provider.generate_additive_triple(
                    x.size(), y.size(), op, device=torch.device("cpu")
                )
            )
            for x, y in pairs
        ]
        hidden = [
            masked
            for (x, y), (a, b, _) in zip(pairs, triples, strict=True)
            for masked in (x - a, y - b)
        ]
        opened = open_sum(hidden)
        results = []
        for (a, b, c), d, e in zip(triples, opened[::2], opened[1::2], strict=True):
            own = compute(d, b + e) if is_leader() else compute(d, b)
            results.append(c + own + compute(a, e))
        return results

    def truncate(self, items: Sequence[tuple[torch.Tensor, int]]) -> list[torch.Tensor]:
        """Returns z / 2^m by the dealt mask r: z + 2^62 + r is opened, its wrap corrected locally.

        Guarantees:
            For |z| < 2^62 the result is floor(z / 2^m) or one more, with the expected value z /
            2^m; there is no failure probability. The opened word is uniform.

        Cost:
            One round, 8 bytes an element.

        Source:
            Dalskov, Escudero and Keller 2020.
        """
        for _, shift in items:
            if not 0 <= shift < RING_BITS - 1:
                raise ArgumentError("shift", shift, f"in 0..{RING_BITS - 2}")
        shifts = [shift for _, shift in items]
        pairs = tuples.truncation_pairs([z.shape for z, _ in items], shifts)
        opened = open_sum(
            [
                self.add_public(z, 1 << OFFSET_BITS) + pair.mask
                for (z, _), pair in zip(items, pairs, strict=True)
            ]
        )
        return [
            self._shift_opened(c, pair, m) for c, pair, m in zip(opened, pairs, shifts, strict=True)
        ]

    def _shift_opened(self, c: torch.Tensor, pair: tuples.TruncationPair, m: int) -> torch.Tensor:
        top = (c < 0).long()
        weight = wrap(1 << (RING_BITS - 1 - m))
        result = (1 - 2 * top) * pair.top * weight - pair.shifted
        if is_leader():
            low = c & (2 ** (RING_BITS - 1) - 1)
            result = result + (low >> m) + top * weight - (1 << (OFFSET_BITS - m))
        return result

    def bit_decompose(self, x: torch.Tensor) -> torch.Tensor:
        return circuits.differences(x, [0])[0]

    def less_than(self, x: torch.Tensor, thresholds: Sequence[int]) -> torch.Tensor:
        words = circuits.differences(x, [wrap(t) for t in thresholds])
        return (words >> (RING_BITS - 1)) & 1

    def suffix_or(self, bits: torch.Tensor) -> torch.Tensor:
        return circuits.suffix_or(bits)

    def bits_to_arithmetic(self, bits: torch.Tensor, positions: Sequence[int]) -> torch.Tensor:
        """Returns the bits at `positions` as integers; one round, one word opened for all."""
        kept = wrap(sum(1 << position for position in set(positions)))
        word, dealt = tuples.bit_words(bits.shape, positions)
        (opened,) = open_xor([(bits ^ word) & kept])
        public = torch.stack([(opened >> position) & 1 for position in positions])
        result = (1 - 2 * public) * dealt
        return result + public if is_leader() else result

    def add_noise(
        self, x: Sequence[torch.Tensor], scale: Sequence[float], source: NoiseSource
    ) -> list[torch.Tensor]:
        return [
            value + torch.from_numpy(source.gaussian(self.rank, s, tuple(value.shape)))
            for value, s in zip(x, scale, strict=True)
        ]


def check_configuration() -> None:
    """Raises InsecureError where CrypTen's configuration would leak or skip a check."""
    protocol = OmegaConf.select(crypten.cfg.config, "mpc.protocol", default="beaver")
    if protocol != "beaver":
        raise InsecureError(
            f"crypten.cfg.mpc.protocol = {protocol!r}: CrypTen's replicated protocol reshares "
            "products without masking them, so that parties learn plaintexts. Set it to 'beaver'."
        )
    if OmegaConf.select(crypten.cfg.config, "mpc.active_security", default=False):
        raise InsecureError(
            "crypten.cfg.mpc.active_security = True: our protocols are secure against semi-honest "
            "parties only and verify no triples. Set it to False to accept that."
        )


def ring_of(tensor: MPCTensor) -> CrypTenRing:
    """Returns the ring whose fractional bits are those of an encrypted tensor.

    Raises:
        ArgumentError: the tensor is not an arithmetically shared fixed-point tensor on the CPU.
    """
    if not isinstance(tensor, MPCTensor) or tensor.ptype != crypten.mpc.arithmetic:
        raise ArgumentError(
            "tensor",
            type(tensor).__name__,
            "an arithmetically shared CrypTensor",
            "Encrypt it with crypten.cryptensor(...), or call .to(crypten.mpc.arithmetic).",
        )
    if tensor.device.type != "cpu":
        raise ArgumentError("tensor", str(tensor.device), "on the CPU", "Call .cpu() first.")
    scale = int(tensor.encoder.scale)
    if scale == 1:
        raise ArgumentError(
            "tensor", "an integer encoding (scale 1)", "fixed-point", "Encode it with a precision."
        )
    return CrypTenRing(scale.bit_length() - 1)


def as_tensor(ring: CrypTenRing, share: torch.Tensor) -> MPCTensor:
    """Returns an encrypted tensor that holds this party's share."""
    return cast(Any, MPCTensor.from_shares(share, precision=ring.frac_bits))
