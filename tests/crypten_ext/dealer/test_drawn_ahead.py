"""What a party draws ahead of the tuples that it is likely to need is what it would draw then."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from crypten_ext.dealer import client as dealt
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.requests import Request
from tests.crypten_ext.dealer.test_dealer import dealer_here

PARTIES, STEPS = 3, 4
FIRST, SECOND, OTHER, LAST = (Request.of("square", (size,)) for size in (5, 7, 9, 4))
STEP, CHANGED = (FIRST, SECOND, LAST), (FIRST, OTHER, LAST)


class Watched(Client):
    """Notes which tuples it draws."""

    drawn: list[tuple[int, Request]]

    def _draw(self, sequence, request):
        self.drawn.append((sequence, request))
        return super()._draw(sequence, request)


def run(*, ahead: bool) -> list[tuple[list[list[torch.Tensor]], list[tuple[int, Request]]]]:
    """Returns the shares of some steps, of which the third one asks for another tuple."""

    def party(address: str, rank: int):
        client = Watched.connected(address, rank, PARTIES)
        client.drawn = []
        shares = []
        for step in range(STEPS):
            client.begin_step()
            for request in CHANGED if step == 2 else STEP:
                shares.append(client.deal(request))
                if ahead:
                    client.draw_ahead()
        client.close()
        return shares, client.drawn

    with dealer_here(PARTIES, {}) as address, ThreadPoolExecutor(PARTIES) as pool:
        return list(pool.map(lambda rank: party(address, rank), range(PARTIES)))


@pytest.mark.parametrize("ahead", [False, True])
def test_tuples_are_right_whether_they_were_expected_or_not(ahead: bool):
    found = run(ahead=ahead)
    asked = [request for step in (STEP, STEP, CHANGED, STEP) for request in step]
    for request, *own in zip(asked, *(shares for shares, _ in found), strict=True):
        r, square = (torch.stack(words).sum(0) for words in zip(*own, strict=True))
        assert r.shape == request.parameters[0]
        assert torch.equal(r * r, square)


def test_each_tuple_is_drawn_once_and_what_was_not_asked_for_in_vain():
    asked = list(enumerate([*STEP, *STEP, *CHANGED, *STEP]))
    for _, drawn in run(ahead=True):
        assert len(drawn) == len(set(drawn))
        assert set(asked) <= set(drawn)
        vain = [pair for pair in drawn if pair not in asked]
        assert 0 < len(vain) <= 2 * 2
        # Of the second step all but the first were there before they were asked for.
        assert drawn.index((4, SECOND)) < drawn.index((5, LAST)) < drawn.index((6, FIRST))
    for _, drawn in run(ahead=False):
        assert drawn == asked


def test_a_large_tuple_is_not_drawn_ahead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dealt, "_AHEAD_WORDS", 2 * 5)
    for _, drawn in run(ahead=True):
        assert drawn == list(enumerate([*STEP, *STEP, *CHANGED, *STEP]))
