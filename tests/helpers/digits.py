"""What a linear model of the embedded digits says of those that are held out, in plain integers."""

import numpy as np

from extensions.data.datasets import load
from extensions.ring.fixed_point import Integers, encode

F = 20
HELD_OUT = 359


def correct(weight: Integers, bias: Integers) -> tuple[int, int]:
    """Returns how many held-out digits a model gets right, and how many are too close to call."""
    split = load("digits", None, 0)
    logits = encode(split.test_x, F) @ weight.T + (bias << F)
    own = logits[np.arange(len(logits)), split.test_y]
    logits[np.arange(len(logits)), split.test_y] = np.iinfo(np.int64).min
    lead = own - logits.max(axis=1)
    return int((lead > 0).sum()), int((np.abs(lead) <= 4 << F).sum())
