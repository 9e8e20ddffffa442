"""What a party draws ahead of the tuples that it is likely to need is what it would draw then."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch

from crypten_ext.dealer import client as dealt
from crypten_ext.dealer import messages
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import tuple_stream
from crypten_ext.local_dealer import local_end_at
from extensions.errors import DealerLostError
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
        client = Watched.connected(partial(local_end_at, address, rank, PARTIES))
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


class Scripted:
    """A dealer's correspondence that says what it is told to, and hears nothing."""

    def __init__(self, hear, lose):
        self.hear = hear

    def send(self, rank, message):
        """Nobody answers."""

    def is_away(self, rank):
        """It is there."""
        return False


def correction(generation: int, sequence: int, request: Request, words: list[int]) -> bytes:
    tag = messages.Tag(generation, sequence, request.digest)
    return messages.pack(tag, np.array(words, np.int64))


@pytest.fixture
def expecting() -> Corrections:
    """A party's end, which expects FIRST and SECOND with the numbers 2 and 3, of generation 3."""
    own = Corrections(Scripted, latest=0.1)
    own.begin_step(0)
    for sequence, request in enumerate((FIRST, SECOND)):
        own.post.hear(0, correction(sequence + 1, sequence, request, [sequence]))
        assert own.take(sequence, request, 1).tolist() == [sequence]
    own.begin_step(2)
    assert own.expected(2) == [FIRST, SECOND]
    return own


def test_a_correction_that_is_here_is_taken_ahead_and_again_when_it_is_due(expecting):
    assert expecting.take_ahead(2, FIRST, 2) is None
    expecting.post.hear(0, correction(3, 2, FIRST, [5, 6]))
    expecting.post.hear(0, correction(3, 3, SECOND, [7]))
    assert expecting.take_ahead(3, SECOND, 1) is None  # not the next
    assert expecting.take_ahead(2, FIRST, 1) is None  # of another size: whoever takes it is told
    assert expecting.take_ahead(2, FIRST, 2).tolist() == [5, 6]
    assert expecting.take_ahead(3, SECOND, 1).tolist() == [7]
    assert expecting.take(2, FIRST, 2).tolist() == [5, 6]
    assert expecting.take(3, SECOND, 1).tolist() == [7]


def test_a_correction_in_pieces_is_taken_ahead_once_all_are_here(expecting, monkeypatch):
    monkeypatch.setattr(messages, "PIECE_WORDS", 2)
    expecting.post.hear(0, correction(3, 2, FIRST, [5, 6]))
    assert expecting.take_ahead(2, FIRST, 3) is None
    expecting.post.hear(0, correction(3, 2, FIRST, [7]))
    assert expecting.take_ahead(2, FIRST, 3).tolist() == [5, 6, 7]


def test_what_was_taken_ahead_is_not_used_for_another_plan(expecting):
    """The dealer sends it again, and what it sends is what is taken."""
    expecting.post.hear(0, correction(3, 2, FIRST, [5]))
    assert expecting.take_ahead(2, FIRST, 1).tolist() == [5]
    expecting.post.hear(0, correction(4, 2, OTHER, [8]))
    assert expecting.take(2, OTHER, 1).tolist() == [8]
    with pytest.raises(DealerLostError, match="sent no correction"):
        expecting.take(3, FIRST, 1)


def test_what_was_taken_ahead_makes_room(expecting):
    expecting.post.hear(0, correction(3, 2, FIRST, [5, 6]))
    before = expecting._queued
    assert expecting.take_ahead(2, FIRST, 2) is not None
    assert (before, expecting._queued) == (16, 0)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_share_is_corrected_once(ahead: bool):
    """Two steps of a party alone: the second one's tuples are expected, and corrected ahead."""
    source = Corrections(Scripted, latest=0.1)
    client = Client(bytes(32), 0, 1, source=source, leave=source.finish)
    shares = []
    for step in range(2):
        client.begin_step()
        requests = [(2 * step + i, request) for i, request in enumerate((FIRST, SECOND))]
        for sequence, request in requests:
            (size,) = request.parameters[0]
            generation = 3 if step else sequence + 1
            source.post.hear(0, correction(generation, sequence, request, [sequence] * size))
        if ahead and step:
            client.draw_ahead()
            assert not source._queue
        shares += [client.deal(request) for _, request in requests]
    for (sequence, request), (r, square) in zip(
        enumerate([FIRST, SECOND] * 2), shares, strict=True
    ):
        drawn = recipe_of(request).expand(tuple_stream(bytes(32), sequence, request), 0)
        assert torch.equal(r, drawn[0])
        assert torch.equal(square, drawn[1] + sequence)
