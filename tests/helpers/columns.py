"""Digits whose columns lie with several owners, and the same as one owner has them whole."""

import math
from dataclasses import replace

import numpy as np

from extensions.data.datasets import Split, load, no_labels


def blocks(parties: int, labelled: int = 0) -> list[Split]:
    """Returns owners of some columns each, of whom one has the labels."""
    whole = load("digits", None, 0)
    parts = []
    for rank, block in enumerate(np.array_split(np.arange(64), parties)):
        own = replace(whole, train_x=whole.train_x[:, block], test_x=whole.test_x[:, block])
        if rank != labelled:
            train, test = no_labels(len(whole.train_y)), no_labels(len(whole.test_y))
            own = replace(own, train_y=train, test_y=test)
        parts.append(own)
    return parts


def whole_of(parties: int) -> Split:
    """Returns the same records as one owner has them, scaled as so many owners do."""
    whole, scale = load("digits", None, 0), 1 / math.sqrt(parties)
    return replace(whole, train_x=whole.train_x * scale, test_x=whole.test_x * scale)
