"""Whether the prepared files of all parties belong together, before any of them is used."""

from pathlib import Path
from typing import Any

import torch

from crypten_ext.dealer.material import Material
from extensions.errors import ArgumentError, MaterialError

from crypten import communicator


def check_matching(path: Path, settings: dict[str, Any]) -> Material:
    """Returns this party's material if every party has its own of one run; one round.

    Raises:
        ArgumentError: as `Material` and `Header.check` say in the party whose file it is; in the
            others, who it was; and where the files are of different runs.
        MaterialError: as `Material` says.
    """
    world = communicator.get()
    material, problem = None, None
    try:
        material = Material(path)
        material.header.check(world.get_rank(), settings)
        _check_parties(material, world.get_world_size())
    except (ArgumentError, MaterialError) as error:
        problem = error
    try:
        _compare(material if problem is None else None)
    except ArgumentError as error:
        problem = problem or error
    if problem is not None:
        if material is not None:
            material.finish()
        raise problem
    assert material is not None
    return material


def _check_parties(material: Material, parties: int) -> None:
    prepared = material.header.parties
    if prepared != parties:
        raise ArgumentError(
            "material", f"prepared for {prepared} parties", f"prepared for {parties} parties"
        )


def _compare(material: Material | None) -> None:
    run = bytes(16) if material is None else bytes.fromhex(material.header.run)
    halves = [int.from_bytes(half, "big", signed=True) for half in (run[:8], run[8:])]
    own = torch.tensor([int(material is None), *halves], dtype=torch.int64)
    everybody = [row.tolist() for row in communicator.get().all_gather(own)]
    refused = [rank for rank, row in enumerate(everybody) if row[0]]
    if refused:
        raise ArgumentError(
            "material",
            f"refused by party {refused[0]}",
            "valid at every party",
            f"No file was used. The reason is in the output of party {refused[0]}.",
        )
    odd = [rank for rank, row in enumerate(everybody) if row != everybody[0]]
    if odd:
        raise ArgumentError(
            "material",
            f"of another run at party {odd[0]} than at party 0",
            "of one run of `pea prepare` at every party",
            "No file was used.",
        )
