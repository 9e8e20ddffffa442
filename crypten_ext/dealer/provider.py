"""CrypTen's tuples and ours, from whoever answers requests for them: above all a dealer."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from crypten_ext.dealer.client import current
from crypten_ext.dealer.recipes import STANDING, requested
from crypten_ext.dealer.requests import Request
from crypten_ext.ring.exchange import meanwhile
from crypten_ext.ring.factors import LayerMasks
from crypten_ext.ring.hosts_tuples import CHOSEN, ChosenFirstParty
from extensions.errors import ArgumentError
from extensions.ring.tuples import Correlation, Dealt, TruncationPair

import crypten
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor
from crypten.mpc.provider.provider import TupleProvider

Shape = Sequence[int]


class AskingProvider(TupleProvider):
    """A provider that asks for each tuple by its kind and public parameters."""

    @abstractmethod
    def ask(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple: masks, then the words that follow."""

    @abstractmethod
    def begin_step(self) -> None:
        """A step of a loop begins, at every party; the next ones are likely to ask for the same."""

    def generate_additive_triple(
        self, size0: Shape, size1: Shape, op: str, device: Any = None, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Returns uniform a and b, and c = op(a, b)."""
        options = tuple(sorted(kwargs.items()))
        return _arithmetic(self._deal(device, "additive", op, size0, size1, args, options))

    def deal_triple(self, op: str, x: Shape, y: Shape) -> list[torch.Tensor]:
        """Returns this party's shares of uniform a and b of these shapes, and of op(a, b)."""
        return self._deal(None, "additive", op, x, y, (), ())

    def square(self, size: Shape, device: Any = None) -> tuple[Any, ...]:
        """Returns uniform r, and its square."""
        return _arithmetic(self._deal(device, "square", size))

    def generate_binary_triple(
        self, size0: Shape, size1: Shape, device: Any = None
    ) -> tuple[Any, ...]:
        """Returns uniform words a and b, and c = a & b."""
        shares = self._deal(device, "binary", size0, size1)
        return tuple(BinarySharedTensor.from_shares(share) for share in shares)

    def wrap_rng(self, size: Shape, device: Any = None) -> tuple[Any, ...]:
        """Returns uniform r, and how often the parties' shares of it wrap around when added."""
        return _arithmetic(self._deal(device, "wraps", size))

    def B2A_rng(self, size: Shape, device: Any = None) -> tuple[Any, Any]:
        """Returns random bits, shared additively and bitwise."""
        bits, values = self._deal(device, "bits", size)
        (arithmetic,) = _arithmetic([values])
        return arithmetic, BinarySharedTensor.from_shares(bits)

    owners_know = True

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns fresh masks for the two products of a layer."""
        return LayerMasks(*self._deal(None, "layer", list(rows), inputs, outputs))

    rows_stay = False

    @property
    @abstractmethod
    def number(self) -> int:
        """That of the tuple that is asked for next, equal at every party."""

    def stand(self, rows: Sequence[int], own: torch.Tensor) -> tuple[int, torch.Tensor | None]:
        """Returns the number of a fresh mask of all parties' rows, and this party's block of it."""
        number = self.number
        (mask,) = self._deal(None, STANDING, number, rows, own.shape[1])
        return number, mask

    def deal_standing(
        self, number: int, rows: Sequence[int], inputs: int, outputs: int, *, is_left: bool
    ) -> list[torch.Tensor]:
        """Returns shares of a fresh mask and of its product with that of standing rows."""
        return self._deal(None, "standing product", number, rows, inputs, outputs, is_left)

    def deal_joint(self, kind: str, *parameters: object) -> list[torch.Tensor]:
        """Returns this party's shares of fresh words of `extensions.ring.joint`."""
        return self._deal(None, kind, *parameters)

    def deal(self, wanted: Sequence[tuple[Correlation, torch.Tensor]]) -> list[Dealt]:
        """Returns fresh correlations, each to hide one value; truncation pairs go together."""
        alike = all(isinstance(correlation, TruncationPair) for correlation, _ in wanted)
        if len(wanted) > 1 and not alike:
            return [dealt for one in wanted for dealt in self.deal([one])]
        count, request = len(wanted), requested(tuple((c, v.shape) for c, v in wanted))
        shares = self.ask(request)
        return [Dealt(*pair) for pair in zip(shares[:count], shares[count:], strict=True)]

    def _deal(self, device: Any, kind: str, *parameters: Any) -> list[torch.Tensor]:
        if device is not None and torch.device(device).type != "cpu":
            raise ArgumentError("device", str(device), "the CPU", "Call .cpu() first.")
        return self.ask(Request.of(kind, *parameters))


class DealerProvider(AskingProvider):
    """Tuples of CrypTen's kinds and of ours (`extensions.ring.tuples.TupleSource`).

    Guarantees:
        Each party's shares are uniform to all others together, except the dealer; the dealer sees
        shapes, never a value.

    Cost:
        No round among the parties. The dealer sends one word for each element that depends on
        others (a product, a wrap count, a shifted mask), an equal part to each party.
    """

    NAME = "DEALER"

    def ask(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple."""
        client = current()
        share = client.deal(request)
        meanwhile(client.draw_ahead)
        return share

    @property
    def number(self) -> int:
        """That of the tuple that is asked for next."""
        return current().number

    def begin_step(self) -> None:
        """A step of a loop begins, at every party."""
        current().begin_step()

    def deal_noise(self, scale: float, shapes: Sequence[Shape]) -> list[torch.Tensor]:
        """Returns this party's shares of discrete Gaussians that only the dealer knows.

        `scale` is their standard deviation in ring units, at least
        `extensions.protocols.noise.LEAST_SCALE`, the same at every party.

        Guarantees:
            To all parties but one together they are uniform words. What is dealt again is the same
            noise; a tuple of another number, scale or shape has noise of its own.

        Cost:
            No round; 8 bytes a value, dealt to one of the parties. About 0.3 microseconds of the
            dealer's core each.

        Raises PartyLostError if another party asked for other noise, or its scale cannot be drawn.
        """
        return self.ask(Request.of("noise", float(scale).hex(), [list(shape) for shape in shapes]))


def _arithmetic(shares: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    return tuple(ArithmeticSharedTensor.from_shares(share, precision=0) for share in shares)


def install() -> None:
    """``crypten.cfg.mpc.provider`` = "DEALER" or "INSECURE_TFP" chooses who deals from here on."""
    add(DealerProvider())
    _providers()[CHOSEN] = ChosenFirstParty()


def remove() -> None:
    """CrypTen no longer knows these names."""
    drop(DealerProvider.NAME)
    drop(CHOSEN)


def add(provider: AskingProvider) -> None:
    """CrypTen knows this provider by its name from here on."""
    _providers()[provider.NAME] = provider


def drop(name: str) -> None:
    """CrypTen no longer knows the provider of this name."""
    _providers().pop(name, None)


def begin_step() -> None:
    """A step of a loop begins, at every party; with CrypTen's own providers nothing happens.

    If a step was just completed, the next ones are expected to need the same tuples. The dealer
    sends their corrections ahead of need, so that no party waits for it; parties that make their
    own make a step's at once. A step that needs others gets them as it goes. `crypten_ext.optim`
    calls this in ``zero_grad``.
    """
    provider = crypten.mpc.get_default_provider()
    if isinstance(provider, AskingProvider):
        provider.begin_step()


def _providers() -> dict[str, Any]:
    providers: dict[str, Any] = vars(crypten.mpc)["__SUPPORTED_PROVIDERS"]
    return providers
