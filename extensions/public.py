"""What is public of one party's records: their sizes, and how their features were made."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SIZES = ("records", "features", "classes", "targets", "height", "width")
"""What of `Public` parties send each other, in this order."""


@dataclass(frozen=True)
class Public:
    """What is public of one party's records, wherever they are.

    Attributes:
        records: their number; of persons, where these may have several.
        classes: outputs that the labels need.
        targets: columns of the labels if they are targets, 0 if they are integers.
        height: of images, whose channels a script has first; else 0.
        width: of images and of signals, which have no height; else 0.
        recipe: how the features were made; empty where nothing is known of it.
    """

    records: int = 0
    features: int = 0
    classes: int = 0
    targets: int = 0
    height: int = 0
    width: int = 0
    held_out: int = 0
    recipe: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a record's features: (features,), (channels, width) or with the height."""
        sizes = tuple(size for size in (self.height, self.width) if size)
        return (self.features // math.prod(sizes), *sizes)

    def facts(self, rank: int) -> dict[str, int]:
        """Returns the sizes, by name, of the records that party `rank` trains and is tested on."""
        return {
            f"training records of party {rank}": self.records,
            f"held-out records of party {rank}": self.held_out,
            "features": self.features,
        }
