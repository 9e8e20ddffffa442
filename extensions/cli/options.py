"""Options that several commands of `pea` have, beside the settings of a run and its records."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from extensions.checks import check_writable
from extensions.errors import ArgumentError
from extensions.options import Option, Writes
from extensions.runs.model import check_free
from extensions.runs.options import RunOptions

Report = Annotated[
    Path | None, Option(name="json", help="Write the report to this file."), Writes()
]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """What is told at the end of a run.

    Attributes:
        report: write the report to this file.
        verbose: show the whole report; without it, only results and costs.
    """

    report: Annotated[Path | None, Option(name="json"), Writes()] = None
    verbose: bool = False


@dataclass(frozen=True, kw_only=True)
class Rerun(Ending):
    """What is told at the end of a run that may repeat another one.

    Attributes:
        again: report of a run to repeat with its options, changed by those that you give; the noise
            is new.
    """

    again: Path | None = None


def check_options(options: RunOptions) -> None:
    """Checks that the run can be kept, and its model, and one that goes on has no material.

    Raises:
        ArgumentError: it is otherwise.
    """
    keep, material = options.checkpoints, options.material
    if keep is not None and keep.resume and material is not None:
        raise ArgumentError(
            "material",
            str(material),
            "with {resume}",
            "Prepared files serve one run, from its first step on. Resume with a running dealer.",
            code="conflict",
        )
    if options.players is not None:  # folders are theirs
        return
    if keep is not None:
        check_writable("checkpoint", keep.folder, folder=True)
        if keep.resume and not keep.folder.exists():
            advice = "If nothing was released, start again without {resume}."
            raise ArgumentError("checkpoint", str(keep.folder), "a folder of checkpoints", advice)
    if options.save is not None:
        check_free(options.save, keep)
