"""Checkpoints of a plaintext run: one file, which holds the model in the clear."""

from collections.abc import Sequence

from extensions.network.chain import Parameters
from extensions.owners.data import Split
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.runs.checkpoints import (
    CheckpointOptions,
    PartyCheckpoints,
    run_settings,
    settle_together,
)
from extensions.runs.config import TrainConfig


class ClearCheckpoints:
    """What a plaintext run keeps: its parameters, its ledger and where seeded streams stand.

    Args:
        options: what the user asks for.
        config: resolved settings.
        parts: every party's records.
        source: of all draws, if it is seeded.
    """

    def __init__(
        self,
        options: CheckpointOptions,
        config: TrainConfig,
        parts: Sequence[Split],
        source: InsecureSeededSource | None,
    ) -> None:
        facts = [part.facts(rank) for rank, part in enumerate(parts)]
        self.party = PartyCheckpoints(options, 0, **run_settings(config, facts))
        self._source = source

    def begin(self) -> tuple[int, Parameters, Ledger] | None:
        """Returns steps made, parameters and ledger of the run that goes on; None for a new one."""
        (base,) = settle_together([self.party])
        if base is None:
            return None
        if self._source is not None:
            self._source.load_state_dict(base.source or {})
        parameters = [
            (base.shares[f"weight_{i}"], base.shares[f"bias_{i}"])
            for i in range(len(base.shares) // 2)
        ]
        return base.step, parameters, Ledger.from_json(base.optimizer["ledger"])

    def write(self, step: int, parameters: Parameters, ledger: Ledger) -> None:
        """The parameters after so many steps are on disk."""
        arrays = {
            name: value
            for i, pair in enumerate(parameters)
            for name, value in zip((f"weight_{i}", f"bias_{i}"), pair, strict=True)
        }
        self.party.write(
            step,
            arrays,
            optimizer={"ledger": ledger.to_json()},
            source=None if self._source is None else self._source.state_dict(),
        )
