"""Sizes of a frozen encoder's adapters: what is public of them is in the name of the model.

All weights, of the head and of the adapters, are one matrix with a row for each output.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Reals

PREFIX = "lora:"


@dataclass(frozen=True)
class LoraSizes:
    """What ``lora:RANK:HIDDEN:DOWN:UP`` says: the numbers of all weights A, and of all B."""

    rank: int
    hidden: int
    down: int
    up: int

    @property
    def text(self) -> str:
        """The name of the model."""
        return f"{PREFIX}{self.rank}:{self.hidden}:{self.down}:{self.up}"

    def width(self, outputs: int) -> int:
        """Returns the columns of the matrix of all weights."""
        return self.hidden - (-(self.down + self.up) // outputs)

    def start(self, outputs: int, generator: np.random.Generator) -> Reals:
        """Returns the public start, (outputs, width): A uniform, all else 0, as peft has it."""
        flat = np.zeros(outputs * self.width(outputs))
        bound = self.hidden**-0.5
        first = outputs * self.hidden
        flat[first : first + self.down] = generator.uniform(-bound, bound, self.down)
        return flat.reshape(outputs, -1)


def rank_of(text: str) -> int | None:
    """Returns the rank that ``lora:RANK`` asks for; None of another model.

    Raises:
        ArgumentError: it is no number.
    """
    if not text.startswith(PREFIX):
        return None
    asked = text.removeprefix(PREFIX)
    if not re.fullmatch("[1-9][0-9]{0,3}", asked):
        raise ArgumentError("model", text, "'lora:RANK', such as 'lora:8'")
    return int(asked)


@lru_cache(maxsize=8)
def lora_sizes(text: str) -> LoraSizes | None:
    """Returns the sizes that a model's name says; None of another model."""
    match = re.fullmatch(r"lora:(\d{1,4}):(\d{1,5}):(\d{1,9}):(\d{1,9})", text)
    return None if match is None else LoraSizes(*map(int, match.groups()))
