"""Settings of a program of Keras that chooses none, as `pea train` has them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from extensions.errors import ArgumentError
from extensions.rules import Whole
from extensions.runs.config import Kind, TrainConfig
from extensions.runs.config.scripts import settings_of
from tfe_ext.keras.averaging import MeanOfIterates
from tfe_ext.ring.aby3_ring import ABY3Ring, noise_failure


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Arguments of what a program makes and calls, beside those that are named here.

    Left to the program, which `pea train` does by itself: features of each record (words of texts,
    scattering of large images, columns of tables in their ranges), scaled to rows of norm 1 at
    most; and the map of a whitening for records of a test.

    `tfe_ext.whiten` takes arrays: owners of data sets need settings without it.

    Attributes:
        layer: of `Dense`.
        optimizer: of `DPSGD`.
        steps: of `fit`.
        average: the last part of the steps whose models' mean is the result.
        whitening: of `tfe_ext.whiten`, beside x and the ledger; None where features stay as they
            are.
    """

    layer: dict[str, Any]
    optimizer: dict[str, Any]
    steps: int
    average: float
    whitening: dict[str, Any] | None

    @property
    def fit(self) -> dict[str, Any]:
        """Of `Sequential.fit`, beside x and y; with a callback of its own for each call."""
        return {"steps": self.steps, "callbacks": [MeanOfIterates(self.average)]}


def defaults(
    *,
    kind: Kind,
    records: int,
    columns: int,
    classes: int,
    epsilon: float,
    delta: float,
    parties: int = ABY3Ring.parties,
    colluders: int = 1,
) -> Defaults:
    """Returns settings of a linear model, from public facts as `pea train` chooses them.

        import tfe_ext
        from tfe_ext.keras import DPSGD, BinaryCrossentropy, Sequential

        chosen = tfe_ext.keras.defaults(
            kind="images", records=1438, columns=64, classes=10, epsilon=2.0, delta=7e-5
        )

    and then, with x of rows of norm 1 at most, by owner:

        model, optimizer = Sequential([Dense(**chosen.layer)]), DPSGD(**chosen.optimizer)
        if chosen.whitening:
            whitening = tfe_ext.whiten(x, ledger=optimizer.ledger, **chosen.whitening)
            x = {owner: whitening.rows(own) for owner, own in x.items()}
        model.compile(optimizer, BinaryCrossentropy())
        model.fit(x, y, **chosen.fit)

    Args:
        kind: what the records are: "images", "texts" or "tables".
        records: number of all owners' training records; public.
        columns: features of a record.
        classes: number of classes; two of texts or tables are one output, positive for class 1.
        epsilon: of the whole training, whitening included, at delta.
        delta: 1 / (10 records) is usual.
        parties: number of servers, three.
        colluders: how many may pool what they know; ABY3 itself bears one.

    Guarantees:
        After all steps `optimizer.get_epsilon(delta)` is epsilon at most. A value out of range, or
        for which no noise gives that epsilon, is an ArgumentError.

    Examples:
        >>> chosen = tfe_ext.keras.defaults(
        ...     kind="tables", records=400, columns=30, classes=2, epsilon=2.0, delta=1e-4
        ... )
        >>> chosen.steps, chosen.optimizer["sample_rate"]
        (20, 1.0)
    """
    if parties != ABY3Ring.parties:
        raise ArgumentError("parties", parties, f"{ABY3Ring.parties}, the servers of ABY3")
    Whole(1).check("columns", columns)
    config = settings_of(
        kind,
        records=records,
        classes=classes,
        epsilon=epsilon,
        delta=delta,
        parties=parties,
        colluders=colluders,
        failure=partial(_failure, columns),
    )
    return _of(config, columns)


def _failure(columns: int, config: TrainConfig) -> float:
    """Returns how probable it is that a draw of noise lies beyond its table."""
    weights = config.outputs * (columns + (config.bias_scale > 0))
    return noise_failure(weights, config.steps)


def _of(config: TrainConfig, columns: int) -> Defaults:
    has_bias = config.bias_scale > 0
    optimizer = {
        "learning_rate": config.lr,
        "l2_norm_clip": config.max_grad_norm,
        "noise_multiplier": config.noise_multiplier,
        "sample_rate": config.sample_rate,
        "colluders": config.colluders,
        "momentum": config.momentum,
        "overflow_probability": config.overflow_probability,
        "delta": config.delta,
    }
    return Defaults(
        layer={"units": config.outputs, "use_bias": has_bias, "batch_input_shape": [1, columns]},
        optimizer=optimizer | ({"bias_scale": config.bias_scale} if has_bias else {}),
        steps=config.steps,
        average=config.average,
        whitening={"noise_multiplier": config.noise_multiplier_whiten} if config.whiten else None,
    )
