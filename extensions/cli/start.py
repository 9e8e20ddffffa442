"""Options of the `pea` command that say where training starts."""

from typing import Annotated, Any

import typer

from extensions.protocols.initialization import Weighting as WeightingName

Init = Annotated[
    str | None,
    typer.Option(
        help="Start: zero, random, or of models that owners trained locally: local-average, "
        "local-accuracy (the best on held-out records), local (the best of both and the start)."
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Epsilon of each local model; --epsilon is that of the joint training."),
]
Delta = Annotated[float | None, typer.Option(help="Part of --delta for it (default: half).")]
Steps = Annotated[
    int | None, typer.Option(help="Steps of each local model (default: a quarter of the steps).")
]
Lr = Annotated[
    float | None, typer.Option(help="Their learning rate (default: that of training / parties).")
]
Weighting = Annotated[
    WeightingName,
    typer.Option(help="Of their average: by the owners' numbers of records, or uniform."),
]


def settings(
    init: str | None,
    epsilon: float | None,
    delta: float | None,
    steps: int | None,
    lr: float | None,
    weighting: WeightingName,
) -> dict[str, Any]:
    """Returns the settings of a run's start, by name."""
    return {
        "init": init,
        "epsilon_init": epsilon,
        "delta_init": delta,
        "init_steps": steps,
        "init_lr": lr,
        "init_weighting": weighting,
    }
