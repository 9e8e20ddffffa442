"""Hosts of `pea train`, found by entry point, so that one can be added without the core."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

from extensions.errors import ArgumentError
from extensions.protocols.host import Speed, StepForecast
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.public import Public
from extensions.runs import entry_points
from extensions.runs.config import HOSTS, TrainConfig
from extensions.runs.options import Meeting, RunOptions

Progress = Callable[[dict[str, Any]], None]


class Backend(Protocol):
    """What a module behind an entry point of the group ``pea.backends`` offers."""

    def check(self, config: TrainConfig, options: RunOptions) -> None:
        """Checks that the host can make a run with these settings and files.

        Raises:
            ArgumentError: a number of parties or a provider that it does not have, or files that
                it has no use for.
        """

    def check_party(self, config: TrainConfig, meeting: Meeting, options: RunOptions) -> None:
        """Checks that one party of such a run can be started here, to meet the others.

        Raises:
            ArgumentError: it has no place among them, or nobody deals.
        """

    def notices(self, config: TrainConfig) -> Sequence[str]:
        """Returns what the user must know about trust in this run, printed once."""

    def noise_failure(self, config: TrainConfig, features: int) -> float:
        """Returns how probable it is that noise of a run deviates from what is accounted.

        It is known before the noise is calibrated, as part of delta.
        """

    def train(
        self, config: TrainConfig, files: Sequence[Path], progress: Progress, options: RunOptions
    ) -> dict[str, Any]:
        """Returns the report of a run over the parties' files, all on this machine."""

    def train_party(
        self,
        config: TrainConfig,
        records: Path,
        meeting: Meeting,
        progress: Progress,
        options: RunOptions,
    ) -> dict[str, Any]:
        """Returns this party's report of a run whose parties were started one by one."""


def plan(backend: Backend, config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step of a run takes, without records.

    A backend that can tell offers a function of this name, which takes the rest.
    """
    foresee = getattr(backend, "plan", None)
    if foresee is None:
        allowed = "one that can estimate a step"
        raise ArgumentError("backend", config.backend, allowed, code="choice")
    return cast(StepForecast, foresee(config, step, records))


def default_speed(backend: Backend, seconds: float) -> Speed:
    """Returns how fast parties of a backend are on one machine like this, by a plan's seconds.

    A backend that can tell offers a function `pace`, which takes the rest.
    """
    usual = getattr(backend, "speed", None)
    return Speed() if usual is None else cast(Speed, usual(seconds))


def find(name: str) -> Backend:
    """Returns the backend of that name; MissingExtraError if its host is not installed."""
    return cast(Backend, entry_points.load(HOSTS, "backend", name))


def find_for(config: TrainConfig, options: RunOptions | None = None) -> Backend:
    """Returns the backend that a config names, which can make such a run.

    Its transport must be among its `TRANSPORTS`, if it names any.
    """
    backend = find(config.backend)
    options = options or RunOptions()
    if options.transport not in getattr(backend, "TRANSPORTS", [RunOptions.transport]):
        allowed = f"with {{backend={config.backend}}}, which has one transport only"
        raise ArgumentError("transport", options.transport, allowed, code="conflict")
    backend.check(config, options)
    return backend


class RemoteOwners(Protocol):
    """Owners whose records this program cannot reach, and who have been asked.

    The settings follow from their records.
    """

    settings: Mapping[str, Any]
    public: Sequence[Public]

    def train(self, config: TrainConfig, progress: Progress) -> dict[str, Any]:
        """Returns the report of a run over their records."""
        ...


def remote_owners(
    backend: Backend, options: RunOptions
) -> AbstractContextManager[RemoteOwners | None]:
    """Context manager with the owners of remote records; None if records are local.

    A backend that may have remote owners offers a function of this name, which takes options.
    """
    ask = getattr(backend, "remote_owners", None)
    return nullcontext() if ask is None else ask(options)


def warm_up(
    backend: Backend, config: TrainConfig, options: RunOptions
) -> AbstractContextManager[None]:
    """Context manager that starts what a run needs while the caller reads its records.

    The caller reads and calibrates meanwhile, and calls `train` in it. A backend that has something
    to begin offers a function of this name, which takes config and options.
    """
    begin = getattr(backend, "warm_up", None)
    return nullcontext() if begin is None else begin(config, options)
