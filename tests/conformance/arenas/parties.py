"""What the CrypTen parties of the conformance suite do; every function runs in all of them."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import crypten_ext
from crypten_ext import dealer
from crypten_ext.processes import meter as wires
from crypten_ext.processes.worker import Context
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import open_sum
from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.recipes import RECIPES

import crypten
from crypten import communicator
from crypten.mpc.primitives import ArithmeticSharedTensor

WORD_BYTES = 16
"""CrypTen counts a word that is summed over the parties as sent and received."""


@contextmanager
def precision(frac_bits: int) -> Iterator[None]:
    """Inside the block encrypted tensors have that many fractional bits, and traffic is counted.

    Party 0 deals.
    """
    dealer.install()
    settings = {
        "encoder.precision_bits": frac_bits,
        "communicator.verbose": True,
        "mpc.provider": "INSECURE_TFP",
    }
    with crypten.cfg.temp_override(settings):
        yield


class Meter:
    """Counts the rounds and words since it was made."""

    def __init__(self) -> None:
        communicator.get().reset_communication_stats()

    def read(self) -> tuple[int, float]:
        """Returns rounds and words; requests to a third party are counted, and no whole words."""
        stats = communicator.get().get_communication_stats()
        return stats["rounds"], stats["bytes"] / WORD_BYTES


def share(value: Integers | tuple[int, ...]) -> torch.Tensor:
    """Returns this party's share of party 0's integers; the others know their shape alone."""
    shape = value.shape if isinstance(value, np.ndarray) else value
    zero: torch.Tensor = ArithmeticSharedTensor.PRZS(torch.Size(shape)).share
    return zero + torch.from_numpy(value) if isinstance(value, np.ndarray) else zero


def reveal(shares: Sequence[torch.Tensor]) -> list[Integers]:
    return [opened.numpy() for opened in open_sum(shares)]


def evaluate(
    context: Context,
    recipe: str,
    inputs: Sequence[Integers | tuple[int, ...]],
    frac_bits: int,
    options: dict[str, Any],
) -> tuple[list[Integers], tuple[int, float]]:
    """Returns the opened results and the cost of the recipe alone."""
    with precision(frac_bits):
        ring, shares = CrypTenRing(frac_bits), [share(value) for value in inputs]
        meter = Meter()
        results = RECIPES[recipe](ring, *shares, **options)
        cost = meter.read()
        return reveal(results), cost


@contextmanager
def methods() -> Iterator[None]:
    """Inside the block encrypted tensors have our methods."""
    crypten_ext.enable()
    try:
        yield
    finally:
        crypten_ext.disable()


def encrypt(value: Integers, frac_bits: int, *, requires_grad: bool = False) -> Any:
    """Returns party 0's ring integers as CrypTen encrypts real numbers; the others pass zeros."""
    own = value if communicator.get().get_rank() == 0 else np.zeros_like(value)
    reals = torch.from_numpy(np.ldexp(own.astype(np.float64), -frac_bits))
    return crypten.cryptensor(reals, src=0, requires_grad=requires_grad)


def call_method(
    context: Context,
    x: Integers,
    frac_bits: int,
    method: str,
    options: dict[str, Any],
    upstream: Integers | None = None,
) -> dict[str, Any]:
    """Calls a method of an encrypted tensor, and backward with an encrypted upstream gradient."""
    with precision(frac_bits), methods():
        tensor = encrypt(x, frac_bits, requires_grad=True)
        meter = Meter()
        y = getattr(tensor, method)(**options)
        answer: dict[str, Any] = {"cost": meter.read(), "differentiable": y.requires_grad}
        if upstream is not None:
            given, meter = encrypt(upstream, frac_bits), Meter()
            y.backward(given)
            answer["backward_cost"] = meter.read()
            (answer["gradient"],) = reveal([tensor.grad.share])
        (answer["result"],) = reveal([y.share])
        answer["plain_text"] = y.get_plain_text().numpy()
        return answer


class Recorder(SystemSource):
    """The system's source, remembering what this party drew."""

    def __init__(self) -> None:
        self.drawn: list[Integers] = []

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        self.drawn.append(super().gaussian(party, scale, shape))
        return self.drawn[-1]


def draw_noise(
    context: Context, frac_bits: int, shape: tuple[int, ...], sigma: float, **options: Any
) -> dict[str, Any]:
    """Draws encrypted noise with the default source, and again with one that remembers."""
    with precision(frac_bits):
        meter, recorder = Meter(), Recorder()
        first = crypten_ext.gaussian_noise(shape, sigma, **options)
        cost = meter.read()
        second = crypten_ext.gaussian_noise(shape, sigma, source=recorder, **options)
        opened = reveal([first.share, second.share])
        return {"opened": opened, "own": recorder.drawn[0], "cost": cost}


def draw_noise_seeded(context: Context, sigma: float, times: int) -> list[Integers]:
    """Opens noise drawn after every generator that a script can reach was seeded alike."""
    drawn = []
    try:
        for _ in range(times):
            torch.manual_seed(0)
            np.random.seed(0)
            random.seed(0)
            with crypten.cfg.temp_override({"debug.debug_mode": True}):
                crypten.manual_seed(0, 0, 0)
            drawn += reveal([crypten_ext.gaussian_noise((64,), sigma).share])
    finally:
        torch.seed()
        np.random.seed()
        random.seed()
        crypten._setup_prng()
    return drawn


def wire(
    context: Context,
    recipe: str,
    shapes: Sequence[tuple[int, ...]],
    frac_bits: int,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Returns what a recipe took of this party by the product's count, and each opening's bytes.

    What it received is told once all have sent everything, what it sent before.
    """
    with precision(frac_bits), methods():
        ring, shares = CrypTenRing(frac_bits), [share(shape) for shape in shapes]
        world, meter = communicator.get(), wires.Meter()
        with openings() as sizes:
            RECIPES[recipe](ring, *shares, **options)
        (before,) = meter.read().carried
        world.barrier()
        (after,) = meter.read().carried
        return {"sent": before.sent, "all": tuple(after), "openings": sizes}


@contextmanager
def openings() -> Iterator[list[int]]:
    """Yields a list that gets the bytes of each opening of the block."""
    host: Any = communicator.get()
    sizes, opened = [], host.all_reduce

    def all_reduce(given: Any, *arguments: Any, **named: Any) -> Any:
        tensors = given if isinstance(given, list) else [given]
        sizes.append(sum(tensor.numel() * tensor.element_size() for tensor in tensors))
        return opened(given, *arguments, **named)

    host.all_reduce = all_reduce
    try:
        yield sizes
    finally:
        del host.all_reduce


def count_correct(
    context: Context, logits: Integers, targets: Integers, frac_bits: int
) -> tuple[int, tuple[int, float]]:
    """Returns what `crypten_ext.count_correct` opens, and its cost."""
    with precision(frac_bits):
        tensors = [encrypt(value, frac_bits) for value in (logits, targets)]
        meter = Meter()
        return crypten_ext.count_correct(*tensors), meter.read()


@precision(16)
def count_wrong_truncations(
    context: Context, count: int, bits: int, shift: int, seed: int, chunk: int, ours: bool
) -> dict[str, int]:
    """Truncates random integers of 2^(bits-1) .. 2^bits in magnitude, and counts wrong results.

    Ours is wrong if it is no neighbour of the quotient; CrypTen's own if it is off by more than
    one unit a party, the rounding of every share.
    """
    ring, generator = CrypTenRing(16), np.random.default_rng(seed)
    wrong, largest, total = 0, 0, 0
    for start in range(0, count, chunk):
        size = min(chunk, count - start)
        z = generator.integers(1 << (bits - 1), 1 << bits, size) * generator.choice([-1, 1], size)
        shares = share(z if context.rank == 0 else z.shape)
        if ours:
            (opened,) = reveal(ring.truncate([(shares, shift)]))
            allowed = (0, 1)
        else:
            tensor = ArithmeticSharedTensor.from_shares(shares, precision=0)
            opened = tensor.div_(1 << shift).reveal().numpy()
            allowed = (-context.world_size, context.world_size)
        error = opened - (z >> shift)
        bad = (error < allowed[0]) | (error > allowed[1])
        wrong += int(bad.sum())
        largest = max(largest, int(np.abs(error).max()))
        total += sum(np.abs(z).tolist())
    return {"wrong": wrong, "largest": largest, "sum_of_magnitudes": total}


def evaluate_dealt_elsewhere(context: Context, **arguments: Any) -> Any:
    """Runs a recipe as with a provider that deals random bits and standard triples alone."""
    provider = type(crypten.mpc.get_default_provider())
    name, provider.NAME = provider.NAME, "another"
    try:
        return evaluate(context, **arguments)
    finally:
        provider.NAME = name
