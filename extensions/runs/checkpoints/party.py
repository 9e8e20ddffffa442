"""One party's checkpoints of one run, from the first look into its folder to the final mark."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from extensions import durable
from extensions.errors import ArgumentError, PeaError
from extensions.options import Option
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import files
from extensions.runs.checkpoints.agreement import Agreed, Offer, settle
from extensions.runs.checkpoints.files import Checkpoint

KEPT = 2
FINISHED = "finished-runs"
_PARTS = 10


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """What the user asks for.

    Attributes:
        folder: where each party keeps its shares while it trains.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: go on from the folder's checkpoints, instead of beginning a run.

    Raises:
        ArgumentError: `every` is below 1.
    """

    folder: Annotated[Path, Option(name="checkpoint")]
    every: Annotated[int | None, Option(name="checkpoint-every")] = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ArgumentError("checkpoint_every", self.every, "at least 1")


class PartyCheckpoints:
    """One party's checkpoints: `offer`, `settle`, `write` after steps that are due, `finish`.

    Args:
        options: what the user asks for.
        rank: of the party.
        steps: of the whole run.
        settings: public, equal at all parties.
        own: further public settings and sizes of this party, which may differ from the others'.

    Guarantees:
        A party writes checkpoint j + 1 only once all parties have taken part in the step before it,
        and so have written j: the last two of each always have one in common.
    """

    def __init__(
        self,
        options: CheckpointOptions,
        rank: int,
        *,
        steps: int,
        settings: Mapping[str, Any],
        own: Mapping[str, Any],
    ) -> None:
        self._options = options
        self._rank = rank
        self._steps = steps
        self._every = options.every or math.ceil(steps / _PARTS)
        self._common = _plain({**settings, "steps": steps})
        self._settings = self._common | _plain(own)
        self._problem: ArgumentError | None = None
        self._held: list[Checkpoint] = []
        self._agreed: Agreed | None = None
        self._resumed: tuple[int, ...] = ()
        self._kept: list[Path] = []

    def offer(self) -> Offer:
        """Returns what to tell all parties; what is wrong here is raised by `settle`."""
        try:
            self._held = self._look()
        except ArgumentError as error:
            self._problem = error
        return Offer(
            problem=self._problem is not None,
            resume=self._options.resume,
            settings=self._common | {"checkpoint_every": self._every},
            nonce=secrets.token_hex(16),
            run=self._held[0].run if self._held else "",
            held=[each.identity for each in self._held],
        )

    def check(self) -> None:
        """Raises the ArgumentError that `offer` met with, if any."""
        if self._problem is not None:
            raise self._problem

    def settle(self, offers: Sequence[Offer]) -> Checkpoint | None:
        """Returns the checkpoint to resume from, the same at every party; None for a new run.

        Nothing is written or removed.

        Args:
            offers: all parties', by rank.

        Raises:
            ArgumentError: this party's files cannot be used, or the parties do not agree; in every
                party, and before anything is shared.
        """
        self.check()
        self._agreed = settle(offers)
        if self._agreed.base is None:
            return None
        (base,) = (each for each in self._held if each.identity == self._agreed.base)
        self._resumed = (*base.resumed, base.step)
        self._kept = [files.path_of(self._options.folder, self._rank, base.step)]
        return base

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._resumed

    def is_due(self, step: int) -> bool:
        """Whether a checkpoint is wanted after so many steps: the first, the last, every N-th."""
        return step % self._every == 0 or step == self._steps

    def write(
        self,
        step: int,
        shares: Mapping[str, Integers],
        *,
        optimizer: Mapping[str, Any],
        source: Mapping[str, Any] | None,
    ) -> None:
        """This party's shares after so many steps are on disk; all but the last two are removed."""
        assert self._agreed is not None
        folder = self._options.folder
        path = files.write(
            folder,
            Checkpoint(
                rank=self._rank,
                run=self._agreed.run,
                attempt=self._agreed.attempt,
                step=step,
                resumed=self._resumed,
                settings=self._settings,
                optimizer=optimizer,
                source=source,
                shares=shares,
            ),
        )
        self._kept = [*self._kept, path][-KEPT:]
        files.remove(folder, self._rank, self._kept)

    def finish(self) -> None:
        """The run is marked as finished, on disk, and its checkpoints are gone.

        To be called before anything is opened. No opening is complete without every party's share,
        which a party gives after its own mark.

        Edge cases:
            A run that is interrupted between the marks and the result is lost: its budget counts as
            spent.

        Raises:
            PeaError: another continuation of this run was finished in the meantime.
        """
        assert self._agreed is not None
        if not durable.add_once(FINISHED, _mark(self._agreed.run, self._rank)):
            raise PeaError(
                "Another continuation of this run was finished in the meantime; a second result "
                "would spend its privacy budget again. Use the first one."
            )
        folder = self._options.folder
        with durable.write(files.finished_path(folder, self._rank)) as file:
            file.write(self._agreed.run.encode())
        files.remove(folder, self._rank)

    def _look(self) -> list[Checkpoint]:
        folder, rank = self._options.folder, self._rank
        durable.contains(
            FINISHED, ""
        )  # a list that cannot be kept is better missed now than at the end
        paths = files.paths_in(folder, rank)
        finished = files.finished_path(folder, rank).exists()
        if not self._options.resume:
            if paths or finished:
                raise ArgumentError(
                    "checkpoint",
                    str(folder),
                    f"a folder without an earlier run of party {rank}",
                    "Resume that one with --resume, or choose another folder.",
                )
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise ArgumentError(
                    "checkpoint", str(folder), "a folder that can be made", str(error)
                ) from error
            return []
        found = [files.read(path, rank) for path in paths]
        if finished or any(durable.contains(FINISHED, _mark(each.run, rank)) for each in found):
            raise ArgumentError(
                "checkpoint",
                f"{folder}, of a run that was finished",
                "of a run whose result was not opened yet",
                "Finishing it again would spend its privacy budget again: start a new run.",
            )
        if not found:
            raise ArgumentError(
                "checkpoint",
                str(folder),
                f"a folder with a checkpoint of party {rank}",
                "If none was written yet, nothing was released: start again without --resume, in "
                "a new folder.",
            )
        if len({each.run for each in found}) > 1:
            raise ArgumentError("checkpoint", f"{folder}, of several runs", "of one run")
        for checkpoint in found:
            self._check(checkpoint)
        return found

    def _check(self, checkpoint: Checkpoint) -> None:
        for name, value in self._settings.items():
            before = checkpoint.settings.get(name)
            if before != value:
                raise ArgumentError(
                    name,
                    value,
                    f"{before!r}, as when the run was begun",
                    "Resume with the options of the run.",
                )


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON gives them back."""
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _mark(run: str, rank: int) -> str:
    return f"{run} {rank}"
