"""Formulas say exactly what parties send, in how many rounds."""

import numpy as np
import pytest

from extensions.ring.circuits import SUBTRAHEND
from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.two_party.pairwise.costs import cost_of
from extensions.two_party.pairwise.tuples import KINDS, made
from tests.helpers.pairwise import Views
from tests.helpers.refused import refused

LATER = LATER_MASKS[0]
ASKED = [
    ("additive", ["mul", (3, 1), (1, 5), (), ()]),
    ("additive", ["matmul", (2, 3, 4), (4, 5), (), ()]),
    ("additive", ["matmul", (30, 40), (40, 30), (), ()]),
    ("additive", ["matmul", (4,), (4,), (), ()]),
    (
        "additive",
        ["conv2d", (2, 4, 6, 7), (2, 2, 3, 3), (), (("dilation", (1, 2)), ("groups", 2))],
    ),
    ("additive", ["conv_transpose1d", (2, 3, 5), (3, 4, 3), (), (("stride", 2),)]),
    ("layer", [[20], 30, 10]),
    ("layer", [[6, 0, 3], 30, 10]),
    ("standing rows", [1, [6, 0, 3], 30]),
    ("standing product", [1, [6, 0, 3], 30, 10, 1]),
    ("standing product", [1, [6, 0, 3], 30, 10, 0]),
    ("square", [(70,)]),
    ("binary", [(3, 1), (4,)]),
    ("wraps", [(5,)]),
    ("bits", [(70,)]),
    ("random words", [(3, 2), SUBTRAHEND.products]),
    ("random planes", [(3, 2), SUBTRAHENDS.products]),
    ("truncation pairs", [[(3,), (2, 2)], [16, 0]]),
    ("bit words", [(3, 2), (0, 5, 63)]),
    ("word masks", [(3, 2), LATER.masks, LATER.products]),
    ("selection", [9, 3, 0]),
    ("selection", [9, 3, 20]),
    ("truncations", [[(3,), (2, 2), (3,)], [5, 7, 40], [(0, 2), (1, 1)]]),
    ("scaled rows", [4, [3, 1], [2], 11]),
    ("scaled rows", [4, [], [2], 11]),
    ("scaled rows", [19, [3], [512], 11]),
]


def test_all_kinds_have_a_formula():
    assert {kind for kind, _ in ASKED} == KINDS.keys()


@pytest.mark.parametrize(("kind", "parameters"), ASKED)
def test_formulas(three, kind, parameters):
    views, rounds = Views(3), []

    def counted(peers):
        peers.standing[1] = peers.draw(([6, 0, 3][peers.rank], 30))
        making, number, came = made(peers, kind, parameters), 0, None
        while True:
            try:
                step = making.send(came)
            except StopIteration:
                rounds.append(number)
                return
            number += 1
            came = yield step

    three.run(counted, views)
    found = cost_of(kind, parameters, 3)
    assert rounds == [found.rounds] * 3
    assert found.bytes == sum(len(m) for own in views.messages for _, m in own)


STEP = [
    ("layer", [[128], 512, 10]),
    ("truncation pairs", [[(128, 10)], [20]]),
    ("selection", [1280, 6, 0]),
    ("truncation pairs", [[(128, 10)], [14]]),
    ("scaled rows", [128, [10], [512], 39]),
    ("truncations", [[(128,), (128,)], [12, 15], [(0, 1)]]),
    ("selection", [128, 11, 33]),
    ("truncations", [[(128,), (128,)], [18, 36], [(0, 1)]]),
    ("truncation pairs", [[(128, 10)], [17]]),
    ("truncation pairs", [[(10, 512), (10,)], [39, 39]]),
]
"""What a DPSGD step of a linear model asks for: 128 rows of 512 features, 10 classes, f = 20."""


@pytest.mark.parametrize(("parties", "megabytes"), [(2, 15), (3, 30), (4, 45)])
def test_what_a_party_sends_for_a_step(parties, megabytes):
    """And receives: 60 MB in all for one of three, as the page on two parties says."""
    total = sum(cost_of(kind, parameters, parties).bytes for kind, parameters in STEP)
    assert megabytes - 1 < total / parties / 1e6 <= megabytes


def test_transfers_are_of_every_two_parties():
    shapes = [[(10,)], [20]]
    assert [cost_of("truncation pairs", shapes, n).transfers for n in (2, 3, 4)] == [
        640,
        1920,
        3840,
    ]
    with refused("op", "choice", value="add"):
        cost_of("additive", ["add", (3,), (3,), (), ()], 3)


def test_few_rounds_take_no_more_transfers_than_few_ands():
    """A tree of pairs has 63 nodes a word, each with one factor; so have three levels of fours."""
    words = 256
    levels = zip((words // 4, words // 16, words // 64), (SUBTRAHENDS, *LATER_MASKS), strict=True)
    transfers = sum(
        cost_of("word masks", [(wide,), 7, level.products], 2).transfers for wide, level in levels
    )
    pairs = 2 * 64 * np.sum([words // 2**level for level in range(1, 7)])
    assert transfers == pairs
