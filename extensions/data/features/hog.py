"""Histograms of oriented gradients: what contours look like, for drawings such as digits."""

import re
from importlib.metadata import version

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.images import grey
from extensions.errors import ArgumentError, optional

ORIENTATIONS = 9
CELLS = 7
"""Cells along the shorter side, unless the size of a cell is given."""


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``hog`` or ``hog:ORIENTATIONS,CELL,BLOCK``.

    A cell is a square of that many pixels, a block a square of that many cells over which
    contrast is made even. By default 9 orientations, a seventh of the shorter side (28 x 28
    pixels: 4 x 4, so 441 features) and blocks of one cell.

    Source:
        Dalal and Triggs, CVPR 2005; scikit-image's implementation.
    """
    if argument is not None and not re.fullmatch(r"[1-9]\d?(,[1-9]\d?){2}", argument):
        allowed = "hog or hog:ORIENTATIONS,CELL,BLOCK, such as hog:9,4,2"
        raise ArgumentError("features", f"hog:{argument}", allowed)
    hog = optional("skimage.feature", "scikit-image", "features").hog
    orientations, cell, block = map(int, (argument or f"{ORIENTATIONS},0,1").split(","))

    def extract(x: Raw) -> Features:
        side = cell or max(2, min(x.shape[1:3]) // CELLS)
        if side * block > min(x.shape[1:3]):
            allowed = f"of blocks that fit into {x.shape[1]}x{x.shape[2]} pixels"
            raise ArgumentError("features", f"hog:{argument}", allowed)
        return np.array(
            [
                hog(
                    image,
                    orientations=orientations,
                    pixels_per_cell=(side, side),
                    cells_per_block=(block, block),
                )
                for image in grey(x)
            ],
            dtype=np.float32,
        )

    return Extractor(
        name="hog" if argument is None else f"hog:{argument}",
        kinds=("images",),
        function=extract,
        identity={"scikit-image": version("scikit-image"), "cells": str(CELLS)},
    )
