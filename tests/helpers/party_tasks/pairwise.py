"""What the parties of tests/crypten_ext/pairwise do."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from crypten_ext import dealer, pairwise
from crypten_ext.dealer.recipes import STANDING
from crypten_ext.dealer.requests import Request
from crypten_ext.pairwise import maker, preparing, rounds
from crypten_ext.processes.worker import Context
from crypten_ext.ring.exchange import open_sum, open_xor
from extensions.errors import PeaError
from extensions.two_party.pairwise.rounds import Round
from tests.helpers.party_tasks.dealer import compute, use

ROWS = [2, 1, 0]
REQUESTS = [
    Request.of("square", (5,)),
    Request.of(STANDING, 1, ROWS, 4),
    Request.of("bits", (70,)),
    Request.of("standing product", 1, ROWS, 4, 5, True),
    Request.of("square", (3,)),
    Request.of("standing product", 1, ROWS, 4, 5, False),
]


def planned(context: Context) -> list[list[int]]:
    """Returns how many tuples were made, and asked for, after each of a few steps."""
    source = use("PARTIES")
    pairwise.disconnect()
    counted, asked = [], 0
    for course in [(3, 4), (3, 4), (3, 4), (3, 5), (3,), (3,)]:
        dealer.begin_step()
        for size in course:
            (r, square) = (each.share for each in source.square((size,)))
            opened, product = open_sum([r, square])
            assert torch.equal(opened * opened, product)
            asked += 1
        counted.append([maker.current().tuples, asked])
    return counted


def prepared(context: Context, path: Path, dies_after: int | None = None) -> list[int]:
    """Writes this party's file, a tuple at a time; returns how many there were whenever one came.

    With `dies_after` this process ends once there are so many.
    """
    use("PARTIES")
    seen: list[int] = []

    def progress(done: int) -> None:
        seen.append(done)
        if dies_after is not None and done >= dies_after:
            os._exit(1)

    with patch.object(maker, "PORTION", 1):
        preparing.prepare(path, REQUESTS, {"steps": 2}, progress)
    return seen


def used(
    context: Context, path: Path, settings: dict[str, Any] | None = None, provider: str = "PARTIES"
) -> list[bool] | str:
    """Returns whether opened tuples of the parties' files are right, or the error."""
    use(provider)
    side = pairwise if provider == "PARTIES" else dealer
    side.disconnect()
    try:
        side.use_material(path, settings or {})
        standing = torch.zeros((sum(ROWS), 4), dtype=torch.int64)
        return [_is_right(request, standing, context.rank) for request in REQUESTS]
    except PeaError as error:
        return str(error)
    finally:
        side.disconnect()


def _is_right(request: Request, standing: torch.Tensor, rank: int) -> bool:
    masks, *others = maker.current().deal(request)
    if request.kind == STANDING:
        standing[sum(ROWS[:rank]) : sum(ROWS[: rank + 1])] = masks
        return not others
    (follow,) = others
    if request.kind == "standing product":
        x, mask, found = open_sum([standing, masks, follow])
        return torch.equal(found, x @ mask if request.parameters[-1] else mask @ x)
    if request.kind == "bits":
        return torch.equal(open_xor([masks])[0], open_sum([follow])[0])
    opened, square = open_sum([masks, follow])
    return torch.equal(opened * opened, square) and bool(opened.any())


def view(context: Context, scale: float) -> list[dict[int, bytes]]:
    """Returns what this party is sent while tuples are made, of a root, norms and a product."""
    seen: list[dict[int, bytes]] = []
    exchange = rounds._exchange

    def noted(step: Round, group: Any) -> dict[int, bytes]:
        seen.append(exchange(step, group))
        return seen[-1]

    use("PARTIES")
    pairwise.disconnect()
    with patch.object(rounds, "_exchange", noted):
        compute(context, "PARTIES", scale)
    return seen


def make_forever(context: Context) -> None:
    """Makes tuples until something ends it; the event tells that the first is made."""
    source = use("PARTIES")
    while True:
        source.square((2000,))
        context.emit({"made": True})
