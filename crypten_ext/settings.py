"""Settings of a CrypTen script that chooses none, as `pea train` has them."""

from dataclasses import dataclass
from typing import Any

from extensions.rules import Whole
from extensions.runs.config import Kind, TrainConfig
from extensions.runs.config.scripts import settings_of


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Arguments of what a script makes and calls, beside those that are named here.

    Left to the script, which `pea train` does by itself: features of each record (words of texts,
    scattering of large images, columns of tables in their ranges), scaled to rows of norm 1 at
    most; and the map of a whitening for records of a test.

    Attributes:
        layer: of `crypten_ext.nn.Linear`.
        optimizer: of `crypten_ext.optim.DPSGD`, beside the model.
        batches: of `crypten_ext.poisson_batches`, beside x and y.
        whitening: of `crypten_ext.whiten`, beside x and the ledger; None where features stay as
            they are.
    """

    layer: dict[str, Any]
    optimizer: dict[str, Any]
    batches: dict[str, Any]
    whitening: dict[str, Any] | None

    @property
    def steps(self) -> int:
        """Number of steps."""
        steps: int = self.batches["steps"]
        return steps


def defaults(
    *,
    kind: Kind,
    records: int,
    columns: int,
    classes: int,
    epsilon: float,
    delta: float,
    parties: int = 3,
    colluders: int = 1,
) -> Defaults:
    """Returns settings of a linear model, so that you need not choose any.

    They follow from public facts, as those of `pea train`, so that every party has the same:

        import crypten_ext

        chosen = crypten_ext.defaults(
            kind="images", records=1438, columns=64, classes=10, epsilon=2.0, delta=7e-5
        )
        print(chosen.steps, chosen.optimizer["lr"], chosen.batches)

    and then, with x of rows of norm 1 at most, in a script of three parties:

        model = crypten_ext.nn.Linear(**chosen.layer).encrypt()
        optimizer = crypten_ext.optim.DPSGD(model, **chosen.optimizer)
        if chosen.whitening:
            x = crypten_ext.whiten(x, ledger=optimizer.ledger, **chosen.whitening).rows(x)
        for xb, yb in crypten_ext.poisson_batches(x, y, **chosen.batches):
            optimizer.zero_grad()
            crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
            optimizer.step()

    Args:
        kind: what the records are: "images", "texts" or "tables".
        records: number of all parties' training records; public.
        columns: features of a record.
        classes: number of classes; two of texts or tables are one output, positive for class 1.
        epsilon: of the whole training, whitening included.
        delta: likewise; 1 / (10 records) is usual.
        parties: number of parties.
        colluders: how many of them may pool what they know.

    Guarantees:
        After all steps the optimizer's `get_epsilon(delta)` is epsilon at most.

    Raises:
        ArgumentError: a value out of range, or no noise gives that epsilon.

    Examples:
        >>> chosen = crypten_ext.defaults(
        ...     kind="tables", records=400, columns=30, classes=2, epsilon=2.0, delta=1e-4
        ... )
        >>> chosen.steps, chosen.batches["sample_rate"]
        (20, 1.0)
    """
    Whole(1).check("columns", columns)
    config = settings_of(
        kind,
        records=records,
        classes=classes,
        epsilon=epsilon,
        delta=delta,
        parties=parties,
        colluders=colluders,
    )
    return _of(config, columns)


def _of(config: TrainConfig, columns: int) -> Defaults:
    has_bias = config.bias_scale > 0
    optimizer = {
        "lr": config.lr,
        "max_grad_norm": config.max_grad_norm,
        "noise_multiplier": config.noise_multiplier,
        "sample_rate": config.sample_rate,
        "colluders": config.colluders,
        "momentum": config.momentum,
        "average": config.average,
        "steps": config.steps,
    }
    whitening = {
        "noise_multiplier": config.noise_multiplier_whiten,
        "colluders": config.colluders,
    }
    return Defaults(
        layer={"in_features": columns, "out_features": config.outputs, "bias": has_bias},
        optimizer=optimizer | ({"bias_scale": config.bias_scale} if has_bias else {}),
        batches={
            "sample_rate": config.sample_rate,
            "steps": config.steps,
            "classes": config.outputs,
            "overflow_probability": config.overflow_probability,
        },
        whitening=whitening if config.whiten else None,
    )
