"""Noise that a test replays, and that an optimizer takes for noise that nobody else knows."""

from typing import Any

from extensions.privacy.randomness import InsecureSeededSource


class Replayed:
    """Draws what `InsecureSeededSource` of the seed does, and is none: epsilon is finite."""

    def __init__(self, seed: int) -> None:
        source = InsecureSeededSource(seed)
        self.gaussian, self.bernoulli = source.gaussian, source.bernoulli


def replayed(seed: int | None) -> Any:
    """Returns the source of a seed; None without one."""
    return None if seed is None else Replayed(seed)
