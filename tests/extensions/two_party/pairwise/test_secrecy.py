"""What parties see of each other is uniform: messages of transfers, and shares of tuples.

Ones are counted in each bit of each word, and of the XOR of every two words, 400 times
(`tests.helpers.openings.uniform_p_value`), of uniform words with false alarms below 1e-8 a test.
"""

import numpy as np
import pytest

from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.two_party.pairwise.transfers import Additive, Bitwise, products
from extensions.two_party.pairwise.tuples import made
from tests.helpers.openings import COUNT, uniform_p_value
from tests.helpers.pairwise import Views, combined
from tests.helpers.strategies import ALARM

WIDE = np.array([8])


def words_of_planes(message):
    """Returns words of which a message has the first bytes, then the second ones, and so on."""
    planes = np.frombuffer(message, np.uint8).reshape(8, -1).T
    return np.ascontiguousarray(planes).view("<i8")[:, 0].astype(np.int64)


def words_of(message):
    return np.frombuffer(message, "<i8").astype(np.int64)


def seen(parties, form, bit, decode, calls=2):
    """Returns party 0's shares of zeros times a bit, what it is sent, and what party 1 is sent."""
    views = Views(parties.number)
    choices = np.full(form.count, bit, dtype=np.uint8)
    shares = []
    for _ in range(calls):
        found = parties.run(
            lambda p: products(p, form, choices, form.none(), lambda c, s: (c, s) == (0, 1)), views
        )
        shares.append(found[0].ravel())
    sent = [decode(message) for _, message in views.messages[0] if message]
    asked = [words_of(message) for _, message in views.messages[1] if message]
    assert len(sent) == len(asked) == calls
    return np.stack(shares), np.stack(sent), np.stack(asked)


@pytest.mark.parametrize("bit", [0, 1])
def test_the_messages_of_additive_transfers_are_uniform(three, bit):
    shares, sent, asked = seen(three, Additive(3, WIDE, 8 * COUNT), bit, words_of_planes)
    pads = shares - bit * sent  # a bit of 1 adds what was sent to the pad
    for both in (sent + pads, sent - pads):
        rows = np.concatenate([sent, pads, both])
        assert uniform_p_value(rows.reshape(-1, COUNT)) > ALARM
    assert uniform_p_value(asked.reshape(-1, COUNT)) > ALARM


@pytest.mark.parametrize("bit", [0, 1])
def test_the_messages_of_bitwise_transfers_are_uniform(three, bit):
    shares, sent, asked = seen(three, Bitwise(3, COUNT), bit, words_of)
    pads = shares ^ (-bit & sent)
    rows = np.concatenate([sent, pads])
    assert uniform_p_value(rows.reshape(-1, COUNT)) > ALARM
    assert uniform_p_value(asked.reshape(-1, COUNT)) > ALARM


TUPLES = {
    "truncation pairs": ([[(COUNT,)], [0]], 2),
    "word masks": ([(COUNT,), LATER_MASKS[1].masks, LATER_MASKS[1].products], 2),
    "random planes": ([(COUNT,), SUBTRAHENDS.products], 2),
    "truncations": ([[(COUNT,)] * 2, [3, 40], [(0, 1)]], 9),
    "square": ([(COUNT,)], 2),
    "binary": ([(COUNT,), (COUNT,)], 3),
    "scaled rows": ([COUNT, [1], [1], 0], 9),
    "layer": ([[20], 20, 20], 5),
}
"""Parameters by kind, and the number of parts."""


@pytest.mark.parametrize("kind", TUPLES)
def test_shares_of_any_two_of_three_parties_are_uniform_and_independent(three, kind):
    """All but one party have uniform words; so has one honest party, whatever another one has."""
    parameters, parts = TUPLES[kind]
    shares = three.run(lambda p: made(p, kind, parameters))
    assert {len(own) for own in shares} == {parts}
    for left_out in range(3):
        rows = [
            part.reshape(-1, COUNT)
            for rank, own in enumerate(shares)
            if rank != left_out
            for part in own
        ]
        assert uniform_p_value(np.concatenate(rows)) > ALARM


def test_shares_of_what_follows_do_not_tell_those_of_masks(three):
    """Bits that become a mask and its parts have the same shares, until zeros are added."""
    for r, parts in three.run(lambda p: made(p, "truncation pairs", [[(COUNT,)], [0]])):
        left = r[0] - parts[0] - (parts[1] << 63)
        assert uniform_p_value(left[None]) > ALARM


def test_a_mask_is_uniform_to_all_who_know_what_all_but_one_party_drew(three, monkeypatch):
    drawn = [[] for _ in range(3)]
    for peers in three.peers:
        own = drawn[peers.rank]
        draw = peers.draw

        def noted(shape, draw=draw, own=own):
            own.append(draw(shape))
            return own[-1]

        monkeypatch.setattr(peers, "draw", noted)
    shares = three.run(lambda p: made(p, "truncation pairs", [[(COUNT,)], [20]]))
    mask = combined([own[0] for own in shares], "sum")
    for honest in range(3):
        known = combined([drawn[rank][0] for rank in range(3) if rank != honest], "xor")
        assert uniform_p_value(mask ^ known) > ALARM
    shares = three.run(lambda p: made(p, "square", [(COUNT,)]))
    mask = combined([own[0] for own in shares], "sum")
    for honest in range(3):
        known = combined([drawn[rank][1] for rank in range(3) if rank != honest], "sum")
        assert uniform_p_value((mask - known)[None]) > ALARM
