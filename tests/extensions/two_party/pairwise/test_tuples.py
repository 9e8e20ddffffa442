"""Every kind of tuple: what follows is what the masks say; messages that are none are refused."""

import numpy as np
import pytest

from extensions.errors import CiphertextError, TransferError
from extensions.ring.circuits import SUBTRAHEND
from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.ring.joint import JOINTS, correlated, joint_of
from extensions.ring.tuples import (
    BitWords,
    RandomPlanes,
    RandomWords,
    TruncationPair,
    WordMasks,
)
from extensions.two_party.pairwise.peers import meet
from extensions.two_party.pairwise.rounds import Round, together
from extensions.two_party.pairwise.tuples import KINDS, made
from tests.helpers.pairwise import Parties, combined, lockstep
from tests.helpers.refused import refused

POSITIONS = (0, 5, 63)
LATER = LATER_MASKS[0]
CORRELATED = {
    "random words": ([(3, 2), SUBTRAHEND.products], [RandomWords(SUBTRAHEND.products)]),
    "random planes": ([(3, 2), SUBTRAHENDS.products], [RandomPlanes(SUBTRAHENDS.products)]),
    "bit words": ([(3, 2), POSITIONS], [BitWords(POSITIONS)]),
    "word masks": ([(3, 2), LATER.masks, LATER.products], [WordMasks(LATER.masks, LATER.products)]),
}
JOINT = {
    "selection": [(9, 3, 0), (9, 3, 20), (4, 1, 62)],
    "truncations": [([(3,), (2, 2), (3,)], [5, 7, 40], [(0, 2), (1, 1)])],
    "scaled rows": [(4, [3, 1], [2], 11), (4, [3], [], 0), (2, [], [3], 4)],
}


class Clear:
    """`extensions.ring.tuples.Dealer` of arrays."""

    def stack(self, words):
        return np.stack(list(words))

    def constant(self, integers):
        return integers


def opened(parties, kind, parameters):
    """Returns the shares of each party, by part."""
    return list(zip(*parties.run(lambda p: made(p, kind, parameters)), strict=True))


def check(joint, shares):
    """The opened words have the shapes of a joint, and follow from its masks."""
    parts = (*joint.masks, *joint.dependents)
    words = [combined(share, part.sharing) for share, part in zip(shares, parts, strict=True)]
    assert [word.shape for word in words] == [tuple(part.shape) for part in parts]
    masks, follow = words[: len(joint.masks)], words[len(joint.masks) :]
    for found, expected in zip(follow, joint.follow(masks, Clear()), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", CORRELATED)
def test_correlations(parties, kind):
    parameters, wanted = CORRELATED[kind]
    check(correlated(wanted, [(3, 2)]), opened(parties, kind, parameters))


def test_truncation_pairs(three):
    shifts = [0, 1, 7, 8, 9, 20, 61, 62]
    shapes = [(2, 3)] * len(shifts)
    joint = correlated([TruncationPair(shift) for shift in shifts], shapes)
    check(joint, opened(three, "truncation pairs", [shapes, shifts]))


@pytest.mark.parametrize(("kind", "number"), [(k, i) for k in JOINT for i in range(len(JOINT[k]))])
def test_joint_words(parties, kind, number):
    parameters = JOINT[kind][number]
    check(joint_of(kind, *parameters), opened(parties, kind, parameters))


def test_all_kinds_of_joint_words_are_made():
    assert JOINTS.keys() == JOINT.keys()
    assert {*JOINTS, *CORRELATED} < KINDS.keys()


@pytest.mark.parametrize("owned", [False, True], ids=["shared", "of owners"])
def test_layers(parties, owned):
    rows = [4, 0, 3, 2][: parties.number] if owned else [6]
    x, w, d, xw, dx = opened(parties, "layer", [rows, 5, 2])
    x = np.concatenate(x) if owned else combined(x, "sum")
    w, d, xw, dx = (combined(part, "sum") for part in (w, d, xw, dx))
    assert x.shape == (sum(rows), 5)
    np.testing.assert_array_equal(xw, x @ w)
    np.testing.assert_array_equal(dx, d @ x)


def test_standing_rows_take_part_in_any_number_of_products(parties):
    rows = [4, 0, 3, 2][: parties.number]
    x = np.concatenate(*opened(parties, "standing rows", [7, rows, 5]))
    assert x.shape == (sum(rows), 5)
    for outputs in (2, 3):
        found = opened(parties, "standing product", [7, rows, 5, outputs, 1])
        w, xw = (combined(part, "sum") for part in found)
        np.testing.assert_array_equal(xw, x @ w)
        found = opened(parties, "standing product", [7, rows, 5, outputs, 0])
        d, dx = (combined(part, "sum") for part in found)
        np.testing.assert_array_equal(dx, d @ x)


def test_tuples_of_a_host(parties):
    x, square = (combined(part, "sum") for part in opened(parties, "square", [(2, 3)]))
    np.testing.assert_array_equal(square, x * x)
    a, b, c = (combined(part, "xor") for part in opened(parties, "binary", [(3, 1), (4,)]))
    np.testing.assert_array_equal(c, a & b)
    bits, integers = opened(parties, "bits", [(90,)])
    assert np.unique(bits).tolist() == [0, 1]
    np.testing.assert_array_equal(combined(integers, "sum"), combined(bits, "xor"))
    r, wraps = opened(parties, "wraps", [(50,)])
    exact = np.sum([share.astype(object) for share in r], axis=0)
    expected = (exact - combined(r, "sum").astype(object)) >> 64
    np.testing.assert_array_equal(combined(wraps, "sum"), expected.astype(np.int64))
    for left, right in [((3, 1), (1, 4)), ((), (5,)), ((0,), (0,))]:
        a, b, c = (
            combined(part, "sum")
            for part in opened(parties, "additive", ["mul", left, right, (), ()])
        )
        np.testing.assert_array_equal(c, a * b)
    for left, right in [((2, 3, 4), (4, 5)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,))]:
        a, b, c = (
            combined(part, "sum")
            for part in opened(parties, "additive", ["matmul", left, right, (), ()])
        )
        np.testing.assert_array_equal(c, a @ b)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "place", "error", "words"),
    [
        (0, 64, CiphertextError, "party 1: the public key"),
        (0, 32, TransferError, "party 1: the sender's key"),
        (1, 0, TransferError, "party 1: the chooser's answer"),
    ],
)
def test_keys_that_are_none_name_their_sender(number, place, error, words):
    def alter(now, sender, receiver, message):
        hit = (now, sender, receiver) == (number, 1, 0)
        return message[:place] + bytes(32) + message[place + 32 :] if hit else message

    with pytest.raises(error, match=words):
        lockstep([meet(rank, 3) for rank in range(3)], alter)


def test_a_ciphertext_of_other_parameters_names_its_sender(three):
    def alter(now, sender, receiver, message):
        return message[:32] + b"\xff" * (len(message) - 32) if sender == 2 else message

    with pytest.raises(CiphertextError, match="party 2: the request"):
        Parties(3).run(lambda p: made(p, "layer", [[30], 64, 10]), alter=alter)


@pytest.mark.parametrize(
    ("rank", "number", "name"), [(0, 1, "parties"), (0, 5, "parties"), (3, 3, "rank")]
)
def test_numbers_of_parties_that_cannot_meet(rank, number, name):
    with refused(name, "range", number):
        next(meet(rank, number))


@pytest.mark.parametrize(
    ("kind", "parameters", "name", "code", "value"),
    [
        ("noise", ["0x1p10", [[3]]], "kind", "choice", "noise"),
        ("additive", ["add", [3], [3], (), ()], "op", "choice", "add"),
        ("additive", ["matmul", [3, 4], [3, 4], (), ()], "shapes", "shape", ((3, 4), (3, 4))),
        (
            *("additive", ["conv1d", [1, 1, 4], [1, 1, 2], (), (("bias", 3),)]),
            *("options", "value", ["bias"]),
        ),
    ],
)
def test_what_is_not_made(three, kind, parameters, name, code, value):
    with refused(name, code, value):
        three.run(lambda p: made(p, kind, parameters))


# --- rounds --------------------------------------------------------------------------------------


def test_what_is_made_together_takes_the_rounds_of_the_longest():
    def making(rounds, name):
        for number in range(rounds):
            came = yield Round({1: f"{name}{number};".encode()}, {1: len(name) + 2})
            assert came == {1: f"{name}{number};".encode()}
        return name

    sent, result = _to_oneself(together([making(2, "ab"), making(0, "c"), making(3, "d")]))
    assert sent == [b"ab0;d0;", b"ab1;d1;", b"d2;"]
    assert result == ["ab", "c", "d"]


def _to_oneself(making):
    """Returns what a making sent that gets its own messages, and what it returned."""
    sent = []
    step = next(making)
    while True:
        sent.append(step.send[1])
        assert step.sizes == {1: len(sent[-1])}
        try:
            step = making.send(step.send)
        except StopIteration as stop:
            return sent, stop.value
