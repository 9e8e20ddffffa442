"""Whether the prepared files of all parties belong together, before any of them is used."""

from pathlib import Path
from typing import Any

from crypten_ext.dealer.material import Material, unfit
from crypten_ext.world import exchange
from extensions.errors import ArgumentError, MaterialError
from extensions.protocols.agreement import Subject, agree

from crypten import communicator

MATERIAL = Subject("material", "valid at every party", "No file was used.")


def check_matching(path: Path, settings: dict[str, Any]) -> Material:
    """Returns this party's material if every party has its own of one run; one round.

    Raises ArgumentError or MaterialError at every party if one party's file cannot be used, and
    ArgumentError if the files are of different runs.
    """
    world = communicator.get()
    material: Material | None = None
    problem: ArgumentError | MaterialError | None = None
    try:
        material = Material(path)
        material.header.check(world.get_rank(), settings)
        _check_parties(material, world.get_world_size())
    except (ArgumentError, MaterialError) as error:
        problem = error
    try:
        _compare(material, problem)
    except (ArgumentError, MaterialError):
        if material is not None:
            material.finish()
        raise
    assert material is not None
    return material


def _check_parties(material: Material, parties: int) -> None:
    prepared = material.header.parties
    if prepared != parties:
        raise unfit(f"prepared for {prepared} parties", f"prepared for {parties} parties")


def _compare(material: Material | None, problem: ArgumentError | MaterialError | None) -> None:
    run = bytes(16) if material is None else bytes.fromhex(material.header.run)
    halves = [int.from_bytes(half, "big", signed=True) for half in (run[:8], run[8:])]
    everybody = agree(exchange, [halves], {}, problem, MATERIAL)
    odd = [rank for rank, row in enumerate(everybody) if row != everybody[0]]
    if odd:
        raise unfit(
            f"of another run at party {odd[0]} than at party 0",
            "of one run of `pea prepare` at every party",
            "No file was used.",
        )
