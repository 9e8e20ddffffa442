"""What the parties of test_portions.py are dealt."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from crypten_ext import dealer
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.processes.worker import Context
from tests.helpers.party_tasks.dealer import train, use

import crypten

Work = Callable[[Context, int], object]


class Received(NamedTuple):
    """One tuple: its number, what was asked for, and the bytes that this party took for it."""

    sequence: int
    request: Request
    bytes: int


def _encrypted(size: int) -> Any:
    use("DEALER")
    return crypten.cryptensor(torch.linspace(0.01, 300.0, size, dtype=torch.float64))


WORKS: dict[str, Work] = {
    "inverse_sqrt": lambda _, size: _encrypted(size).inverse_sqrt(),
    "sigmoid": lambda _, size: _encrypted(size).sigmoid(),
    "training": lambda context, steps: train(context, "DEALER", steps),
}


def received(context: Context, work: str, size: int) -> list[Received]:
    """Returns what this party takes from its link to the dealer, tuple by tuple."""
    found = []
    take = Corrections.take

    def noted(self: Any, sequence: int, request: Request, words: int) -> torch.Tensor:
        correction = take(self, sequence, request, words)
        found.append(Received(sequence, request, correction.nbytes))
        return correction

    with patch.object(Corrections, "take", noted):
        WORKS[work](context, size)
    return found


def asked(context: Context, work: str, size: int) -> list[Request]:
    """Returns what is asked for, of a dealer that deals zeros and sends nothing."""
    found = []

    def deal(self: Any, request: Request) -> list[torch.Tensor]:
        found.append(request)
        recipe = recipe_of(request)
        pieces = (*recipe.masks, *recipe.dependents)
        return [torch.zeros(one.shape_at(context.rank), dtype=torch.int64) for one in pieces]

    with patch.object(dealer.client.Client, "deal", deal):
        WORKS[work](context, size)
    return found
