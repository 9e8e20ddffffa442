"""A pool of CrypTen parties with shares of a model; who launches it needs no host."""

from collections.abc import Sequence
from typing import Any

from crypten_ext.processes.launch import Parties
from extensions.runs.model.backends import Computing
from extensions.runs.model.together import PartyFiles, Request

_MODEL = "crypten_ext.run.model"


def use(
    request: Request, files: Sequence[PartyFiles], computing: Computing
) -> list[dict[str, Any]]:
    """Returns what each party gets, by rank, with one process for each, and for who deals.

    Raises:
        ArgumentError: as `extensions.runs.model.together.perform`.
        PartyLostError: a party died, stopped answering or ran out of time; it is named.
        DealerLostError: the dealer died.
    """
    for own in files:
        own.read()
    pool = Parties(
        len(files), timeout=computing.timeout, provider=computing.provider, modules=[_MODEL]
    )
    with pool as parties:
        found: list[dict[str, Any]] = parties.run(
            f"{_MODEL}:use_task",
            per_party=[{"files": own} for own in files],
            request=request,
            provider=computing.provider,
        )
    return found
