"""Checkpoints of a run of `pea`: what must not change in it, and whether it can go on."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.data.datasets import read_party_file
from extensions.runs.checkpoints.all_parties import AllCheckpoints
from extensions.runs.checkpoints.options import CheckpointOptions
from extensions.runs.checkpoints.party import PartyCheckpoints


def run_settings(
    manifest: Mapping[str, Any], steps: int, facts: Iterable[Mapping[str, int]]
) -> dict[str, Any]:
    """Returns the arguments of `PartyCheckpoints` that say which run it is.

    The manifest is what is kept of it; facts are sizes of the records of each party here.
    """
    sizes = {
        "columns" if name == "features" else name: size
        for part in facts
        for name, size in part.items()
    }
    return {
        "steps": steps,
        "settings": {"manifest": manifest["digest"]},
        "own": {**manifest["run"], **sizes},
    }


def check_files(
    options: CheckpointOptions, manifest: Mapping[str, Any], steps: int, files: Sequence[Path]
) -> None:
    """Checks that a run on this machine can begin or go on: told once, before it is started."""
    facts = [read_party_file(path).public.facts(rank) for rank, path in enumerate(files)]
    parties = [
        PartyCheckpoints(options, rank, **run_settings(manifest, steps, [own]))
        for rank, own in enumerate(facts)
    ]
    AllCheckpoints(parties).settle()
