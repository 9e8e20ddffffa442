"""Settings for who states none, which follow from public facts alone."""

from typing import NamedTuple


class Pace(NamedTuple):
    """How a model is trained.

    Attributes:
        steps: number of updates.
        lr: learning rate.
        sample_rate: Poisson rate q.
    """

    steps: int
    lr: float
    sample_rate: float


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


def pace_of(model: str, *, schema: bool) -> Pace:
    """Returns how a model is trained by default.

    Args:
        model: name of the model.
        schema: whether the records are a table with a schema.
    """
    if model != "logistic":
        return HIDDEN
    return TABLE if schema else USUAL
