"""What the parties of test_provider_budgets.py count."""

from typing import Any
from unittest.mock import patch

import torch

from benchmarks.providers import STEP, measure
from crypten_ext import dealer
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.requests import Request
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.ring import tuples
from extensions.ring.circuits import SUBTRAHEND
from extensions.ring.tuples import BitWords, TruncationPair, WordMasks
from tests.helpers.party_tasks.dealer import use

import crypten

Asked = tuple[str, list[int]]


def cost_of_tuples(context: Context, provider: str) -> tuple[int, int]:
    """Returns rounds of drawing each kind of tuple of a step, and bytes sent to the parties."""
    source = use(provider)
    with crypten.cfg.temp_override({"communicator.verbose": False}):
        meter = Meter()
        for op in ("mul", "matmul"):
            source.generate_additive_triple((4, 4), (4, 4), op, device=torch.device("cpu"))
        for correlation in (
            SUBTRAHEND,
            TruncationPair(16),
            BitWords((0, 5)),
            WordMasks(2, (((0, 0), (1, 3)),)),
        ):
            tuples.source().deal([(correlation, torch.empty(5))])
        rounds, (carried,) = meter.read()
        return rounds, carried.sent


def words_of_step(context: Context, **sizes: int) -> dict[str, Any]:
    """Returns kind and words of each share of all tuples of steps, and bytes of corrections."""
    asked: list[Asked] = []
    deal = Client.deal

    def noted(self: Client, request: Request) -> list[torch.Tensor]:
        shares = deal(self, request)
        asked.append((request.kind, [share.numel() for share in shares]))
        return shares

    use("DEALER")
    before = dealer.corrected_bytes()
    with patch.object(Client, "deal", noted):
        measure(context, work=STEP, provider="dealer", steps=1, **sizes)
    return {"asked": asked, "corrected": dealer.corrected_bytes() - before}
