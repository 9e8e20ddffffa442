"""How a model is trained by default: what follows from public facts alone."""

from typing import NamedTuple

from extensions.network.losses import SQUARED


class Pace(NamedTuple):
    """How a model is trained.

    Attributes:
        steps: number of updates.
        lr: learning rate.
        sample_rate: Poisson rate q.
        max_grad_norm: the bound C of each example's gradient.
    """

    steps: int
    lr: float
    sample_rate: float
    max_grad_norm: float = 1.0


USUAL = Pace(steps=120, lr=10.0, sample_rate=0.1)
HIDDEN = Pace(steps=120, lr=1.0, sample_rate=0.1)
"""Of models with hidden layers."""
TABLE = Pace(steps=20, lr=10.0, sample_rate=1.0)
"""Of a linear model of a table that has a schema.

Rows have a norm just below 1 then, whatever the columns are, so that one bound of gradients fits
all tables, and one rate. Tables are small: all records in every step give the least noise for an
epsilon, and few steps with a large rate learn as much of it as many small ones. `python -m
benchmarks tables` shows what that comes to.
"""
NUMBER = Pace(steps=40, lr=1.0, sample_rate=1.0, max_grad_norm=0.2)
"""Likewise, where a number is learnt: squared errors have a slope of their own size, so that a rate
of 2 and more would overshoot, and usual errors are a small part of the range."""

ONCE = Pace(steps=1, lr=1.0, sample_rate=1.0)
"""Of statistics, which are summed once, over all records."""


def pace_of(model: str, loss: str, *, schema: bool) -> Pace:
    """Returns how a model is trained by default.

    Args:
        model: name of the model.
        loss: kind of loss.
        schema: whether the records are a table with a schema.
    """
    if model != "logistic":
        return HIDDEN
    if loss in SQUARED:
        return (
            NUMBER if schema else USUAL._replace(lr=NUMBER.lr, max_grad_norm=NUMBER.max_grad_norm)
        )
    return TABLE if schema else USUAL
