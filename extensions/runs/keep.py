"""Who follows a run: shows its progress, and keeps checkpoints of it where it is asked to."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extensions.network.chain import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.host import Host, named, unnamed
from extensions.protocols.settings import Settings
from extensions.runs.checkpoints import CheckpointOptions, PartyCheckpoints, settle_together

Progress = Callable[[dict[str, Any]], None]


class Following:
    """Shows progress, and keeps nothing.

    Args:
        host: of the run.
        config: of the run.
        progress: called with {"step", "steps", "rounds", "bytes"} after each step.
    """

    def __init__(self, host: Host, config: Settings, progress: Progress) -> None:
        self.facts: Mapping[str, Any] = {"checkpoint": False}
        self._host = host
        self._steps = config.steps
        self._progress = progress

    def resume(self) -> tuple[Parameters, Ledger] | None:
        """Returns None: the run is a new one."""
        return None

    def steps(self, config: Settings) -> Iterable[int]:
        """Returns the numbers of the steps that are to be made."""
        return range(1, config.steps + 1)

    def __call__(self, step: int, model: Parameters, ledger: Ledger) -> None:
        """Shows that so many steps are made."""
        if step:
            rounds, sent, _ = self._host.traffic()
            self._progress({"step": step, "steps": self._steps, "rounds": rounds, "bytes": sent})

    def finish(self) -> None:
        """Takes note that the result is about to be opened."""

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return ()


class Rehearsing(Following):
    """Ends after a few steps of a run, which tell what all of them ask for.

    Args:
        host: of the run.
        config: of the whole run.
        steps: how many are made.
    """

    def __init__(self, host: Host, config: Settings, steps: int) -> None:
        super().__init__(host, config, lambda event: None)
        self._rehearsed = min(steps, config.steps)

    def steps(self, config: Settings) -> Iterable[int]:
        """Returns the numbers of the first steps."""
        return range(1, self._rehearsed + 1)


class Keeping(Following):
    """Shows progress, and keeps the shares of every holder that the program has.

    Args:
        host: of the run.
        config: of the run.
        progress: as in `Following`.
        options: what the user asks for.
        settings: arguments of `PartyCheckpoints` that say which run it is
            (`extensions.runs.checkpoints.run_settings`).
    """

    def __init__(
        self,
        host: Host,
        config: Settings,
        progress: Progress,
        options: CheckpointOptions,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(host, config, progress)
        self.facts = {"checkpoint": True}
        self._parties = [PartyCheckpoints(options, rank, **settings) for rank in host.holders]
        self._made = 0

    def resume(self) -> tuple[Parameters, Ledger] | None:
        """Returns model and ledger of the newest checkpoint that all parties have.

        Cost:
            Two rounds.

        Raises:
            ArgumentError: nothing to resume, or what does not fit, in every party and before
                anything is shared.
        """
        bases = [base for base in settle_together(self._parties, self._host.exchange) if base]
        if not bases:
            return None
        first = bases[0]
        self._made = first.step
        if isinstance(self._host.noise, InsecureSeededSource):
            self._host.noise.load_state_dict(first.source or {})
        model = self._host.restore([unnamed(base.shares) for base in bases])
        return model, Ledger.from_json(first.optimizer["ledger"])

    def steps(self, config: Settings) -> Iterable[int]:
        """Returns the numbers of the steps that are left."""
        return range(self._made + 1, config.steps + 1)

    def __call__(self, step: int, model: Parameters, ledger: Ledger) -> None:
        """Writes every holder's shares if a checkpoint is due, and shows progress."""
        if self._parties[0].is_due(step):
            noise = self._host.noise
            source = noise.state_dict() if isinstance(noise, InsecureSeededSource) else None
            for party, own in zip(self._parties, self._host.summands(model), strict=True):
                party.write(step, named(own), optimizer={"ledger": ledger.to_json()}, source=source)
        super().__call__(step, model, ledger)

    def finish(self) -> None:
        """Marks the run as finished, of every holder, before anything is opened.

        Raises:
            PeaError: another continuation of the run was finished.
        """
        for party in self._parties:
            party.finish()

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._parties[0].resumed
