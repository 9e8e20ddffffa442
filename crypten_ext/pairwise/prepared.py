"""Tuples that the parties made beforehand, from this party's file: a share of each, of use once."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from crypten_ext.dealer.matching import check_matching
from crypten_ext.dealer.material import MADE_BY, Material, unfit
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise import maker
from extensions.errors import MaterialError, PeaError


class Prepared:
    """The tuples of a file, in the order in which they were made.

    Raises ArgumentError if a dealer made it, MaterialError if it was used before.
    """

    def __init__(self, material: Material) -> None:
        if material.header.settings.get(MADE_BY) != "parties":
            material.finish()
            raise unfit(str(material.path), "made by the parties, for {provider=parties}")
        try:
            material.begin()
        except MaterialError:
            material.finish()
            raise
        self._material, self._sequence = material, 0

    def deal(self, request: Request) -> list[torch.Tensor]:
        """Returns this party's shares of one tuple; MaterialError if another one was prepared."""
        shapes = shapes_of(request, self._material.header.rank)
        sizes = [int(np.prod(shape)) for shape in shapes]
        words = self._material.take(self._sequence, request, sum(sizes))
        self._sequence += 1
        parts = torch.split_with_sizes(words, sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def begin_step(self) -> None:
        """Does nothing: all tuples are here already."""

    def close(self) -> None:
        """Closes the file, and empties it."""
        self._material.finish()


def shapes_of(request: Request, rank: int) -> list[tuple[int, ...]]:
    """Returns the shapes of a party's shares of a tuple."""
    recipe = recipe_of(request)
    return [piece.shape_at(rank) for piece in (*recipe.masks, *recipe.dependents)]


def use_material(path: Path, settings: dict[str, Any]) -> None:
    """Takes this party's tuples from its prepared file; every party calls this, with its own file.

    As `crypten_ext.dealer.use_material`, for files of `crypten_ext.pairwise.preparing`.

    Raises:
        ArgumentError, MaterialError: as there, in every party.
        PeaError: tuples were made already.
    """
    if maker.is_in_use():
        raise PeaError("Tuples are made already. Call use_material before anything is computed.")
    maker.use(Prepared(check_matching(path, settings)))
