"""What a run will take, from public facts alone: before there are parties, or records."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from extensions.errors import ArgumentError
from extensions.protocols.announcement import Announced
from extensions.protocols.pea import plans
from extensions.runs.config import TrainConfig


class StepForecast(NamedTuple):
    """What one step takes.

    Attributes:
        rounds: among the parties.
        bytes: that a party sends to and receives from the others on the average, headers not
            counted; None where nobody can tell.
        memory: bound of the bytes that a party's process takes beside records and model, about;
            None likewise.
    """

    rounds: int
    bytes: int | None = None
    memory: int | None = None


def announced(config: TrainConfig, sizes: Sequence[int], features: int) -> Announced:
    """Returns records of which there is nothing but their numbers.

    Raises:
        ArgumentError: a run whose steps are not on shares, or other than one number a party.
    """
    for name, value, needed in (("method", config.method, "pea"), ("open", config.open, "never")):
        if value != needed:
            allowed = f"{needed!r}: only steps on shares are planned"
            raise ArgumentError(name, value, allowed, "In other runs owners compute alone.")
    if len(sizes) != config.parties or min(sizes) < 0 or not sum(sizes):
        shown = ",".join(map(str, sizes))
        raise ArgumentError("records", shown, f"{config.parties} numbers, not all 0")
    return Announced((), tuple(sizes), features)


def forecast(
    config: TrainConfig, sizes: Sequence[int], features: int, step: StepForecast
) -> dict[str, Any]:
    """Returns what is public of a run, and what it takes, by name.

    Args:
        config: resolved settings.
        sizes: number of training records of each party.
        features: of a record.
        step: what one step takes.

    Raises:
        ArgumentError: steps for which the bounds are not proven.
    """
    records = announced(config, sizes, features)
    network, plan, _ = plans(config, records)
    each = zip(network.parameter_shapes, plan.layers, plan.ways, strict=True)
    return {
        "backend": config.backend,
        "parties": config.parties,
        "model": config.model,
        "parameters": plan.parameters,
        "layers": [
            {"inputs": n, "outputs": m, "positions": shape.positions, "norms": way}
            for (m, n), shape, way in each
        ],
        "rows": records.rows(config),
        "pieces": records.pieces(config),
        "sensitivity": plan.max_grad_norm * (1 + plan.eta),
        "steps": config.steps,
        "step": step._asdict(),
        "run": {
            "rounds": config.steps * step.rounds,
            "bytes": None if step.bytes is None else config.steps * step.bytes,
        },
    }
