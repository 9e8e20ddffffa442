"""Checkpoints of a run of `pea`: what must not change in it, and the parties of one process."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from extensions.checkpoints.files import Checkpoint
from extensions.checkpoints.party import PartyCheckpoints
from extensions.config import TrainConfig


def run_settings(config: TrainConfig, facts: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """Returns the arguments of `PartyCheckpoints` that say which run it is.

    Args:
        config: resolved settings.
        facts: sizes of the records that this process reads, of each party whose they are.
    """
    sizes = {
        "columns" if name == "features" else name: size
        for part in facts
        for name, size in part.items()
    }
    shared = {name: getattr(config, name) for name in ("backend", "provider", "evaluate")}
    return {
        "steps": config.steps,
        "settings": config.workload() | shared,
        "own": config.to_dict() | sizes,
    }


def settle_together(parties: Sequence[PartyCheckpoints]) -> list[Checkpoint | None]:
    """Returns what each party resumes from, where one process has the files of all.

    Raises:
        ArgumentError: of `PartyCheckpoints.settle`; what is wrong at a party comes first.
    """
    offers = [party.offer() for party in parties]
    for party in parties:
        party.check()
    return [party.settle(offers) for party in parties]
