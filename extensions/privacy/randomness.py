"""Where noise and sampling come from: each party's operating system, unless a test says not."""

import math
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.privacy.discrete import discrete_gaussian
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.rules import Whole


def uniform(shape: tuple[int, ...]) -> Integers:
    """Returns independent words, uniform modulo 2^64, from the operating system."""
    words: Integers = np.frombuffer(os.urandom(8 * math.prod(shape)), dtype=np.int64)
    return words.reshape(shape)


class SystemSource:
    """Draws from the operating system; use this source for real data.

    `torch.manual_seed`, `numpy.random.seed` and their like have no influence on it.

    Examples:
        >>> from extensions.privacy.randomness import SystemSource
        >>> source = SystemSource()
        >>> [name for name in dir(source) if name[0] != "_"]
        ['bernoulli', 'gaussian']
    """

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        return discrete_gaussian(scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        draws = uniform((size,)).view(np.uint64)
        if probability >= 1.0:
            return np.ones(size, dtype=np.bool_)
        return draws < np.uint64(int(probability * 2.0**64))


class DrawnAhead:
    """A source that draws, while its owner waits, what it was asked for the time before.

    Guarantees:
        What it draws ahead is used once, for the same party, deviation and shape as it was drawn
        for; if anything else is asked for first, all of it is dropped, and drawn anew.
    """

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self._asked: list[tuple[int, float, tuple[int, ...]]] = []
        self._drawn: deque[tuple[tuple[int, float, tuple[int, ...]], Integers]] = deque()

    def draw(self) -> None:
        """Draws what was asked for since it was called last."""
        asked, self._asked = self._asked, []
        self._drawn = deque((one, self._source.gaussian(*one)) for one in asked)

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        asked = party, scale, shape
        self._asked.append(asked)
        if self._drawn and self._drawn[0][0] == asked:
            return self._drawn.popleft()[1]
        self._drawn.clear()
        return self._source.gaussian(party, scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        return self._source.bernoulli(party, probability, size)


def hidden_multiplier(multiplier: float, source: object) -> float:
    """Returns the noise multiplier that others face: 0 if anybody may know the noise."""
    return 0.0 if isinstance(source, InsecureSeededSource) else multiplier


class InsecureSeededSource:
    """Draws from a seed, so that you can compare runs; never use it for real data.

    Anybody who knows the seed can remove the noise, so ledgers count its epsilon as infinite.

    Each party has its own stream, which follows from the seed, the party and its earlier draws.
    So a plaintext run and a secure run with equal seeds see equal noise.

    Examples:
        >>> from extensions.privacy.randomness import InsecureSeededSource
        >>> one, other = InsecureSeededSource(7), InsecureSeededSource(7)
        >>> draws = [source.gaussian(0, 1000.0, (3,)) for source in (one, other)]
        >>> bool((draws[0] == draws[1]).all())
        True
    """

    def __init__(self, seed: int) -> None:
        Whole(0, 2**63 - 1, "in 0..2^63 - 1").check("seed", seed)
        self._seed = seed
        self._streams: dict[tuple[str, int], np.random.Generator] = {}

    def _stream(self, purpose: str, party: int) -> np.random.Generator:
        key = (purpose, party)
        if key not in self._streams:
            entropy = [self._seed, party, int.from_bytes(purpose.encode(), "big")]
            self._streams[key] = np.random.Generator(
                np.random.Philox(np.random.SeedSequence(entropy))
            )
        return self._streams[key]

    def rounding(self, party: int = 0) -> np.random.Generator:
        """Returns what draws the coins of plaintext rounding, so that a run can be repeated."""
        return self._stream("rounding", party)

    def state_dict(self) -> dict[str, Any]:
        """Returns where each stream stands, as values that JSON can hold."""
        return {
            f"{purpose} {party}": _plain(stream.bit_generator.state)
            for (purpose, party), stream in self._streams.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The streams go on from where they stood when `state_dict` was called."""
        for name, stands in state.items():
            purpose, party = name.split()
            self._stream(purpose, int(party)).bit_generator.state = stands

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        draws = self._stream("gaussian", party).normal(0.0, scale, shape)
        return np.rint(draws).astype(np.int64)

    def bernoulli(self, party: int, probability: float, size: int) -> npt.NDArray[np.bool_]:
        return self._stream("bernoulli", party).random(size) < probability


def _plain(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {name: _plain(value) for name, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
