"""CrypTen as a ring: additive shares in torch.int64, one collective a round."""

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import cycle
from typing import Any, cast

import numpy as np
import torch
from omegaconf import OmegaConf

from crypten_ext.ring import exchange, tuples
from crypten_ext.ring.exchange import is_leader
from crypten_ext.ring.factors import Factor, Operand, Product, share_of
from crypten_ext.ring.joint import JointSource
from crypten_ext.ring.matmul import matmul
from crypten_ext.ring.tuples import NoiseDealer
from extensions.errors import ArgumentError, InsecureError
from extensions.ring.fixed_point import Integers, check_frac_bits, wrap
from extensions.ring.fused import Fused
from extensions.ring.interface import NoiseSource, Rows
from extensions.ring.tuples import Correlation, Dealt
from extensions.ring.words import Places, Word

import crypten
from crypten import communicator
from crypten.mpc import MPCTensor

_WIDE = 1 << 12
"""Elements from which on rows one by one take less time than all of them at once."""


class CrypTenRing(Fused):
    """`extensions.ring.interface.Ring` over the parties of the running CrypTen process group.

    A share is this party's torch.int64 tensor; bits are XOR-shared torch.int64 words. Who deals is
    whom CrypTen is configured with when a ring needs a tuple for the first time.

    Raises InsecureError as `check_configuration`.
    """

    def __init__(self, frac_bits: int) -> None:
        check_configuration()
        self.frac_bits = check_frac_bits(frac_bits)

    @cached_property
    def _source(self) -> tuples.Source:
        return tuples.source()

    @cached_property
    def _joint(self) -> JointSource | None:
        source = self._source
        return source if isinstance(source, JointSource) else None

    @cached_property
    def _leads(self) -> bool:
        return is_leader()

    @property
    def parties(self) -> int:
        return int(communicator.get().get_world_size())

    @property
    def rank(self) -> int:
        return int(communicator.get().get_rank())

    def add_public(self, x: torch.Tensor, value: Word | Integers | int) -> torch.Tensor:
        return x + self.constant(value) if self._leads else x

    def xor_public(self, word: torch.Tensor, value: Word | int) -> torch.Tensor:
        return word ^ value if self._leads else word

    def constant(self, integers: Word | Integers | int) -> Any:
        return wrap(integers) if isinstance(integers, int) else torch.as_tensor(integers)

    def linear(self, x: torch.Tensor, rows: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        weights = [[wrap(entry) for entry in row] for row in rows]
        if x[0].numel() < _WIDE:
            matrix = torch.tensor(weights, dtype=torch.int64)
            combined = matmul(matrix, x.reshape(len(x), -1))
            return list(combined.reshape(len(rows), *x.shape[1:]))
        sums = [x[0] * own[0] for own in weights]
        for i in range(1, len(x)):
            for combination, own in zip(sums, weights, strict=True):
                combination.add_(x[i], alpha=own[i])
        return sums

    def stack(self, shares: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(shares))

    def concatenate(self, words: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat(list(words))

    def pick(self, words: torch.Tensor, places: Places) -> torch.Tensor:
        if isinstance(places, slice):
            return words[places]
        return words.index_select(0, _index(places))

    def and_xor(
        self,
        words: torch.Tensor,
        left: Places,
        public: torch.Tensor,
        right: Places,
        added: Places | None,
    ) -> torch.Tensor:
        if public[0].numel() < _WIDE:
            return cast(torch.Tensor, super().and_xor(words, left, public, right, added))
        lefts, rights = _rows(words, left), _rows(public, right)
        shape = np.broadcast_shapes(lefts[0].shape, rights[0].shape)
        result = torch.empty((len(lefts), *shape), dtype=torch.int64)
        products = result.unbind()
        for product, one, other in zip(products, lefts, cycle(rights), strict=False):
            torch.bitwise_and(one, other, out=product)
        if added is not None:
            for product, one in zip(products, _rows(words, added), strict=True):
                product ^= one
        return result

    def gather(self, x: Operand, places: Integers) -> torch.Tensor:
        padded = torch.nn.functional.pad(share_of(x), (0, 1))
        index = torch.from_numpy(places % padded.shape[1]).reshape(-1)
        return padded.index_select(1, index).reshape(-1, *places.shape)

    def factor(self, x: Operand) -> Factor:
        return x if isinstance(x, Factor) else Factor(x)

    def unfold(self, x: Operand, places: Integers) -> Factor:
        return Factor(self.gather(x, places).reshape(-1, places.shape[1]))

    def mul(self, pairs: Sequence[tuple[Operand, Operand]]) -> list[torch.Tensor]:
        return self._open([self._triple("mul", *map(share_of, pair)) for pair in pairs])

    def matmul(self, pairs: Sequence[tuple[Operand, Operand]]) -> list[torch.Tensor]:
        return self._open([self._matmul(x, y) for x, y in pairs])

    def _matmul(self, x: Operand, y: Operand) -> Product:
        product = None
        if isinstance(x, Factor) and not isinstance(y, Factor):
            product = x.times(y, self._source)
        elif isinstance(y, Factor) and not isinstance(x, Factor):
            product = y.after(x)
        return product or self._triple("matmul", share_of(x), share_of(y))

    def _triple(self, op: str, x: torch.Tensor, y: torch.Tensor) -> Product:
        """X y = c + d b + a e + d e for dealt c = a b, and opened d = x - a and e = y - b."""
        compute = torch.mul if op == "mul" else matmul
        a, b, c = self._source.deal_triple(op, x.shape, y.shape)

        def finish(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            d, e = opened
            own = compute(d, b + e) if self._leads else compute(d, b)
            result: torch.Tensor = c + own + compute(a, e)
            return result

        return Product([x - a, y - b], finish)

    def _open(self, products: Sequence[Product]) -> list[torch.Tensor]:
        opened = iter(self.open_sum([hidden for each in products for hidden in each.hidden]))
        return [each.finish([next(opened) for _ in each.hidden]) for each in products]

    def open_sum(self, shares: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the values; 8 bytes an element."""
        return exchange.open_sum(shares)

    def open_xor(self, words: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the words; 8 bytes an element."""
        return exchange.open_xor(words)

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        return self._source.deal(wanted)

    def deal_joint(
        self, hidden: Sequence[torch.Tensor | None], kind: str, *parameters: object
    ) -> list[torch.Tensor] | None:
        return None if self._joint is None else self._joint.deal_joint(kind, *parameters)

    def square_rows(
        self, rows: Sequence[Operand], shift: int, beside: Sequence[Operand] = ()
    ) -> tuple[Rows, list[torch.Tensor]]:
        return super().square_rows([*map(share_of, rows)], shift, [*map(share_of, beside)])

    def add_noise(
        self, x: Sequence[torch.Tensor], scale: Sequence[float], source: NoiseSource
    ) -> list[torch.Tensor]:
        return [
            value + torch.from_numpy(source.gaussian(self.rank, s, tuple(value.shape)))
            for value, s in zip(x, scale, strict=True)
        ]

    def add_dealt_noise(
        self, x: Sequence[torch.Tensor], scale: float, source: NoiseSource
    ) -> list[torch.Tensor]:
        if not isinstance(self._source, NoiseDealer):
            raise ArgumentError(
                "dealer_noise",
                True,
                "with a provider other than the dealer",
                "Or set crypten.cfg.mpc.provider to 'DEALER'.",
                code="conflict",
            )
        dealt = self._source.deal_noise(scale, [value.shape for value in x])
        return [value + own for value, own in zip(x, dealt, strict=True)]


def _rows(words: torch.Tensor, places: Places) -> Sequence[torch.Tensor]:
    each = words.unbind()
    return each[places] if isinstance(places, slice) else [each[place] for place in places]


@cache
def _index(places: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor(places)


def check_configuration() -> None:
    """Raises InsecureError where CrypTen's configuration would leak or skip a check."""
    protocol = OmegaConf.select(crypten.cfg.config, "mpc.protocol", default="beaver")
    if protocol != "beaver":
        raise InsecureError(
            f"crypten.cfg.mpc.protocol = {protocol!r}, but CrypTen's replicated protocol reshares "
            "products without a mask, so parties learn plaintexts. Set it to 'beaver'."
        )
    if OmegaConf.select(crypten.cfg.config, "mpc.active_security", default=False):
        raise InsecureError(
            "crypten.cfg.mpc.active_security = True, but PEA's protocols are secure against "
            "semi-honest parties only and do not verify triples. Set it to False to accept that."
        )


def ring_of(tensor: MPCTensor) -> CrypTenRing:
    """Returns the ring whose fractional bits are those of an encrypted tensor (`bits_of`)."""
    return CrypTenRing(bits_of(tensor))


def bits_of(tensor: MPCTensor) -> int:
    """Returns the fractional bits of an encrypted tensor.

    Raises ArgumentError unless it is an arithmetically shared fixed-point tensor on the CPU.
    """
    if not isinstance(tensor, MPCTensor) or held_by(tensor, "ptype") != crypten.mpc.arithmetic:
        raise ArgumentError(
            "tensor",
            type(tensor).__name__,
            "an arithmetically shared CrypTensor",
            "Encrypt it with crypten.cryptensor(...), or call .to(crypten.mpc.arithmetic).",
            code="type",
        )
    inside = held_by(tensor)
    if inside.share.device.type != "cpu":
        raise ArgumentError("tensor", str(tensor.device), "on the CPU", "Call .cpu() first.")
    scale = int(inside.encoder.scale)
    if scale == 1:
        raise ArgumentError(
            "tensor", "an integer encoding (scale 1)", "fixed-point", "Encode it with a precision."
        )
    return scale.bit_length() - 1


def held_by(tensor: MPCTensor, name: str = "_tensor") -> Any:
    """Returns an encrypted tensor's attribute; by default what holds share and encoder.

    CrypTen's own attributes look at its configuration each time, which takes 50 microseconds.
    """
    return object.__getattribute__(tensor, name)


def check_same_bits(name: str, tensor: MPCTensor, frac_bits: int) -> None:
    """Raises ArgumentError unless an encrypted tensor has so many fractional bits."""
    if (bits := bits_of(tensor)) != frac_bits:
        raise ArgumentError(
            name,
            f"with {bits} fractional bits",
            f"encoded with {frac_bits} fractional bits",
            "Encrypt model and data under the same crypten.cfg.encoder.precision_bits.",
        )


def as_tensor(ring: CrypTenRing, share: torch.Tensor) -> MPCTensor:
    """Returns an encrypted tensor that holds this party's share."""
    return cast(Any, MPCTensor.from_shares(share, precision=ring.frac_bits))
