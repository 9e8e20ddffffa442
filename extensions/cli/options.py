"""Options that several commands of `pea` have: the mechanism, the model and the result."""

from pathlib import Path
from typing import Annotated, Any

import typer

from extensions.errors import ArgumentError
from extensions.runs.config import TrainConfig
from extensions.runs.providers import Provider

Epsilon = Annotated[float | None, typer.Option(help="Target epsilon; needs --delta.")]
Delta = Annotated[float | None, typer.Option(help="Delta of the guarantee, in (0, 1).")]
Noise = Annotated[float | None, typer.Option(help="sigma / C, instead of --epsilon.")]
Calibration = Annotated[str, typer.Option(help="How epsilon becomes noise: pld, rdp or paper.")]
Steps = Annotated[int | None, typer.Option(help="Number of updates (default 120).")]
Epochs = Annotated[float | None, typer.Option(help="Instead of --steps: steps = epochs / rate.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate of each record, in (0, 1].")]
Lr = Annotated[
    float | None,
    typer.Option(help="Learning rate of the averaged noisy sum (default 10, mlp: 1)."),
]
LossName = Annotated[
    str, typer.Option(help="sigmoid (one class against all others) or softmax (of all classes).")
]
GradNorm = Annotated[float, typer.Option(help="C, the bound of each example's gradient.")]
Model = Annotated[str, typer.Option(help="logistic, or mlp:H with H hidden units.")]
Bits = Annotated[int, typer.Option(help="Fractional bits of the ring.")]
Reveal = Annotated[str, typer.Option(help="mpc: open the accuracy; opened: open the model.")]
NoDp = Annotated[bool, typer.Option("--no-dp", help="No clipping and no noise: NOT private.")]
Fixed = Annotated[
    int | None,
    typer.Option(
        help="Draw sampling and noise from this public seed: for comparison, NOT private."
    ),
]
Dealing = Annotated[
    Provider,
    typer.Option(
        help="Who deals: dealer or ttp (processes without data), or tfp (party 0, trusted)."
    ),
]
Json = Annotated[Path | None, typer.Option("--json", help="Write the report to this file.")]
Save = Annotated[
    Path | None,
    typer.Option(help="Folder for the model: model.npz if opened, else each party's shares."),
]


def config_of(
    *,
    steps: int | None,
    epochs: float | None,
    lr: float | None,
    no_dp: bool,
    sample_rate: float,
    model: str,
    **settings: Any,
) -> TrainConfig:
    """Returns the config of a run from what the options of a command say."""
    usual = TrainConfig.lr if model == "logistic" else 1.0
    return TrainConfig(
        steps=_steps(steps, epochs, sample_rate),
        lr=usual if lr is None else lr,
        private=not no_dp,
        sample_rate=sample_rate,
        model=model,
        **settings,
    )


def _steps(steps: int | None, epochs: float | None, sample_rate: float) -> int:
    if steps is not None and epochs is not None:
        raise ArgumentError("steps, epochs", (steps, epochs), "at most one of them given")
    if epochs is not None:
        if not 0.0 < epochs < 1e6 or not 0.0 < sample_rate <= 1.0:
            raise ArgumentError("epochs", epochs, "positive, with a sample rate in (0, 1]")
        return max(1, round(epochs / sample_rate))
    return TrainConfig.steps if steps is None else steps
