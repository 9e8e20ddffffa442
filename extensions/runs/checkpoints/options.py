"""What a user asks of checkpoints."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from extensions.options import Option
from extensions.rules import Whole


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """What the user asks for.

    Attributes:
        folder: folder where each party keeps its shares during training; with players, one at each.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: continue from the folder's checkpoints, instead of starting a run.

    Raises:
        ArgumentError: `every` is below 1.
    """

    folder: Annotated[Path, Option(name="checkpoint")]
    every: Annotated[int | None, Option(name="checkpoint-every")] = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.every is not None:
            Whole(1).check("checkpoint_every", self.every)
