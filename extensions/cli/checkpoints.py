"""Options of the `pea` command that say where a run is kept, and that it goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from extensions.errors import ArgumentError, LostError
from extensions.runs.checkpoints import CheckpointOptions

Folder = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", help="Folder in which each party keeps its shares while it trains."
    ),
]
Every = Annotated[
    int | None,
    typer.Option("--checkpoint-every", help="Steps between two (default: a tenth of the run)."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with the interrupted run of --checkpoint."),
]


def checkpoints_of(
    folder: Path | None, every: int | None, resume: bool, material: Path | None
) -> CheckpointOptions | None:
    """Returns what the options ask for; None without a folder.

    Raises:
        ArgumentError: options that need the folder, or prepared material for a run that goes on.
    """
    if folder is None:
        for name, value in (("checkpoint_every", every), ("resume", resume or None)):
            if value is not None:
                raise ArgumentError(name, value, "given with --checkpoint FOLDER")
        return None
    if resume and material is not None:
        raise ArgumentError(
            "material",
            str(material),
            "left out with --resume",
            "It is of use once, from the first step on: resume with a running dealer.",
        )
    return CheckpointOptions(folder=folder, every=every, resume=resume)


@contextmanager
def resume_hint(kept: Path | None) -> Iterator[None]:
    """Adds the command that resumes the run to the error of a lost process, or to Ctrl-C.

    Args:
        kept: the run's checkpoint, a file or a folder of them; None or empty: nothing is kept.
    """
    try:
        yield
    except (LostError, KeyboardInterrupt) as error:
        if kept is not None and (kept.is_file() or any(kept.glob("*"))):
            error.add_note(f"What {kept} keeps is not lost: give the same command with --resume.")
        raise
