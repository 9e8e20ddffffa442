"""Owners in a ring find whom all have, in one order, and nothing else."""

import json
import shutil
import struct
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from extensions.alignment import store
from extensions.alignment.curve import POINT, times_key
from extensions.alignment.ids import DTYPE
from extensions.alignment.ring import Common, OwnerTerms, shuffled
from extensions.errors import ArgumentError, PartyLostError, PeaError
from tests.helpers.aligning import HEAD, Post, lists_of, of_kind, over_tls, posted

WORDS = [f"person {number}" for number in range(12)]
NEVER = 1e-7
"""Probability of a false alarm of a test of statistics."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Lists of a few ids have several blocks, and no machine is cut off from its power."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    for module in ("ring", "store"):
        monkeypatch.setattr(f"extensions.alignment.{module}.BLOCK", 3)


def check(found, lists):
    """What each owner found is the intersection, in one order."""
    common = set.intersection(*map(set, lists))
    assert [type(one) for one in found] == [Common] * len(lists), found
    named = [[own[row] for row in one.rows] for own, one in zip(lists, found, strict=True)]
    assert all(sorted(names) == sorted(common) for names in named)
    assert all(one == other for one, other in pairwise(named))
    assert len({one.order for one in found}) == 1
    assert {one.sizes for one in found} == {tuple(map(len, lists))}


several = st.integers(2, 4).flatmap(
    lambda number: st.lists(
        st.lists(st.sampled_from(WORDS), unique=True), min_size=number, max_size=number
    )
)


@settings(deadline=None, max_examples=40)
@given(lists=several)
def test_it_is_the_intersection_in_one_order(lists, tmp_path_factory):
    check(posted(tmp_path_factory.mktemp("ring"), lists_of(*lists)), lists)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_over_tls(number, tmp_path):
    lists = [WORDS[rank : rank + 8] for rank in range(number)]
    check(over_tls(tmp_path, lists_of(*lists)), lists)
    assert not [*tmp_path.glob("kept-*/*")]


def test_processes_share_the_work(tmp_path):
    lists = [WORDS[:10], WORDS[4:]]
    check(over_tls(tmp_path, lists_of(*lists), processes=2), lists)


def test_the_order_is_another_one_in_each_alignment(tmp_path):
    orders = {posted(tmp_path, lists_of(WORDS, WORDS[::-1]))[0].order for _ in range(3)}
    assert len(orders) == 3


def test_of_too_few_all_learn_the_number_and_nobody_learns_who(tmp_path):
    post = Post(3)
    found = posted(tmp_path, lists_of(WORDS[:5], WORDS[3:9], WORDS[2:]), OwnerTerms(least=3), post)
    for one in found:
        assert isinstance(one, ArgumentError)
        assert (one.argument, one.code, one.value) == ("least", "data", "2 common ids")
    assert not [1 for _, _, message in post.sent if message[:1] == b"\3"]  # no key came off
    assert not [*tmp_path.glob("kept-*/*")]
    check(
        posted(tmp_path, lists_of(WORDS[:6], WORDS[3:]), OwnerTerms(least=3)),
        [WORDS[:6], WORDS[3:]],
    )


def test_the_strictest_terms_hold_before_anything_of_an_id_is_sent(tmp_path):
    cases = {
        "most_ids": (lists_of(WORDS, WORDS[:2]), OwnerTerms(least=0, most_ids=11)),
        "id_format": (lists_of(["1234", "56789"], ["abcd"]), OwnerTerms(least=0)),
    }
    for argument, (lists, terms) in cases.items():
        post = Post(2)
        for one in posted(tmp_path, lists, terms, post):
            assert isinstance(one, ArgumentError)
            assert one.argument == argument
        assert all(len(message) < HEAD + POINT or message[:1] == b"{" for *_, message in post.sent)


def test_padding_blurs_a_size_and_never_matches(tmp_path):
    lists = [WORDS[:5], WORDS[3:]]
    found = posted(tmp_path, lists_of(*lists), OwnerTerms(least=0, pad_to=20))
    assert {one.sizes for one in found} == {(20, 20)}
    assert {lists[0][row] for row in found[0].rows} == {*WORDS[3:5]}
    post = Post(2)
    posted(tmp_path, lists_of(*lists), OwnerTerms(least=0, pad_to=20), post)
    assert b'pad_to": null' in post.sent[0][2]
    for one in posted(tmp_path, lists_of(*lists), OwnerTerms(least=0, pad_to=8)):
        assert isinstance(one, PartyLostError | ArgumentError)


def forged(kind):
    return {
        "point": lambda message: message[:HEAD] + bytes(POINT) + message[HEAD + POINT :],
        "twist": lambda message: message[:HEAD] + b"\2" + bytes(31) + message[HEAD + POINT :],
        "short": lambda message: message[:-1],
        "long": lambda message: message + bytes(POINT),
        "other list": lambda message: b"\7" + message[1:],
        "empty": lambda _: b"",
    }[kind]


@pytest.mark.parametrize("kind", ["point", "twist", "short", "long", "other list", "empty"])
@pytest.mark.parametrize("sender", [0, 1, 2])
def test_who_sends_what_is_no_point_is_named(kind, sender, tmp_path):
    post, done = Post(3), []

    def alter(source, _, message):
        if source == sender and len(message) > 60 and message[:1] != b"{" and not done:
            done.append(message)
            return forged(kind)(message)
        return message

    post.alter = alter
    for one in posted(tmp_path, lists_of(WORDS, WORDS[1:], WORDS[2:]), post=post):
        assert isinstance(one, PartyLostError)
        assert one.rank == sender


SAID = {
    "nothing": b"",
    "no object": b"[1]",
    "another version": b'{"ids": 3}',
    "negative": {"ids": -1},
    "no text": {"session": 3},
    "no count": {"counts": {"list-own": 1.5}},
    "no format": {"outline": {"formats": ["x"], "digits": 0.0, "shortest": 0, "longest": 4}},
    "no outline": {"outline": 7},
}


@pytest.mark.parametrize("what", SAID)
def test_who_announces_what_is_none_is_named(what, tmp_path):
    post, change = Post(2), SAID[what]

    def alter(source, _, message):
        if source == 1 and message[:1] == b"{":
            return (
                change
                if isinstance(change, bytes)
                else json.dumps({**json.loads(message), **change}).encode()
            )
        return message

    post.alter = alter
    first = posted(tmp_path, lists_of(WORDS, WORDS), post=post)[0]
    assert isinstance(first, PartyLostError)
    assert first.rank == 1


@pytest.mark.parametrize("said", [b"", b"-1", b"13", b"1" * 50, "²".encode()])
def test_a_number_of_common_ids_that_cannot_be_names_the_comparer(said, tmp_path):
    post = Post(2)
    post.alter = lambda source, _, message: said if source == 0 and message.isdigit() else message
    second = posted(tmp_path, lists_of(WORDS, WORDS), post=post)[1]
    assert isinstance(second, PartyLostError)
    assert second.rank == 0


def ends(post, rank, at):
    """An owner's process ends when it sends its message number `at`."""
    count = Counter()

    def alter(source, _, message):
        count[source] += 1
        if source == rank and count[source] >= at:
            raise KeyError("the process is gone")
        return message

    post.alter = alter
    return post


def blocks_of(post):
    """From which points on the blocks of each list went to each owner."""
    found = {}
    for _, to, message in post.sent:
        if len(message) >= HEAD + POINT and message[:1] < b"\5":
            number, step, at = struct.unpack(">BBI", message[:HEAD])
            found.setdefault((to, f"list-{number}-{step}"), []).append(at)
    return found


@settings(deadline=None, max_examples=20)
@given(ended=st.integers(0, 2), at=st.integers(3, 30))
def test_after_a_loss_it_goes_on_block_by_block(ended, at, tmp_path_factory):
    """Wherever an owner ends: each gets what it lacks, under the keys of before."""
    folder, lists = tmp_path_factory.mktemp("ring"), [WORDS[:10], WORDS[3:], WORDS[1:11]]
    posted(folder, lists_of(*lists), post=ends(Post(3), ended, at))
    again = Post(3)
    check(posted(folder, lists_of(*lists), post=again), lists)
    said = {source: json.loads(m) for source, _, m in again.sent if m[:1] == b"{"}
    sessions = {each["session"] for each in said.values()}
    goes_on = len(sessions) == 1 and sessions != {""}
    for (to, name), begun in blocks_of(again).items():
        had = said[to]["counts"].get(name, 0) if goes_on else 0
        assert begun == [*range(had, begun[-1] + 1, 3)], (to, name)


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch):
    """Two owners who were lost after all was computed send no point again, and draw no key."""
    lists = [WORDS[:10], WORDS[3:]]
    post = Post(2)
    post.alter = lambda _, __, message: message if message != b"written" else 1 / 0
    first = posted(tmp_path, lists_of(*lists), post=post)
    assert not any(isinstance(one, Common) for one in first)
    drawn, again = keys_of(monkeypatch), Post(2)
    check(posted(tmp_path, lists_of(*lists), post=again), lists)
    assert not drawn
    assert not blocks_of(again)


def test_what_only_one_owner_has_kept_does_not_count(tmp_path, monkeypatch):
    lists = [WORDS[:7], WORDS[2:]]
    posted(tmp_path, lists_of(*lists), post=ends(Post(2), 1, 8))
    assert [*tmp_path.glob("kept-0/list-*")]
    shutil.rmtree(tmp_path / "kept-1")
    drawn = keys_of(monkeypatch)
    check(posted(tmp_path, lists_of(*lists)), lists)
    assert len(drawn) == 2


def test_an_alignment_is_entered_before_anything_of_an_id_is_sent(tmp_path):
    post, entered = Post(3), []

    def enter(rank, session, sizes, count):
        entered.append((rank, session, sizes, count))
        if count is None:
            assert not [1 for source, _, m in post.sent if source == rank and m[:1] != b"{"]

    lists = [WORDS[:7], WORDS[2:], WORDS[3:]]
    (one, *_) = posted(tmp_path, lists_of(*lists), post=post, enter=enter)
    assert one.sizes == (7, 10, 9)
    assert Counter(entered) == Counter(
        (rank, entered[0][1], one.sizes, count) for rank in range(3) for count in (None, 4)
    )


def test_who_may_not_enter_it_sends_nothing_more(tmp_path):
    post = Post(2)

    def enter(rank, *_):
        if rank == 1:
            raise ArgumentError("most_alignments", 1, "more", code="range")

    first, second = posted(tmp_path, lists_of(WORDS, WORDS), post=post, enter=enter)
    assert isinstance(first, PartyLostError)
    assert isinstance(second, ArgumentError)
    assert not blocks_of(post)


def test_what_was_kept_of_another_list_does_not_count(tmp_path):
    posted(tmp_path, lists_of(WORDS, WORDS[2:]), post=ends(Post(2), 1, 6))
    assert [*tmp_path.glob("kept-0/list-*")]
    lists = [WORDS[:7], WORDS[2:]]
    check(posted(tmp_path, lists_of(*lists)), lists)


def permutations(draw, number, size):
    """Chi-squared test that what is drawn is any order of a few, alike often; returns p."""
    counts = Counter(draw() for _ in range(number))
    cells = int(np.prod(range(1, size + 1)))
    return stats.chisquare([*counts.values(), *[0] * (cells - len(counts))]).pvalue


def test_every_order_is_alike_likely():
    points = b"".join(bytes([each]) * POINT for each in range(4))

    def draw():
        return shuffled(points)[::POINT]

    assert permutations(draw, 4800, 4) > NEVER
    assert permutations(lambda: points[::POINT], 4800, 4) < NEVER


def keys_of(monkeypatch):
    """Has keys drawn that the test knows: returns them, in the order in which they are drawn."""
    drawn, draw = [], store.drawn_key

    def known():
        drawn.append(draw())
        return drawn[-1]

    monkeypatch.setattr(store, "drawn_key", known)
    return drawn


def test_each_owner_breaks_the_order(tmp_path, monkeypatch):
    """Of points that went through a shuffle as many stay where they are as by chance: one each.

    In 60 runs their number is a Poisson variable of mean 60, which leaves 60 +- 50 with a
    probability below 1e-8; without a shuffle it is 60 times the length.
    """
    stay, runs, drawn = Counter(), 60, keys_of(monkeypatch)
    for _ in range(runs):
        post = Post(2)
        drawn.clear()
        found = posted(tmp_path, lists_of(WORDS, WORDS), post=post)
        first = of_kind(post, 1, 0, 1)  # list 0 under the key of owner 0
        second = of_kind(post, 0, 0, 2)  # and of owner 1
        third = of_kind(post, 1, 2, 1)  # common ids under the key of owner 1
        last = of_kind(post, 0, 2, 2)
        keys = [[*map(bytes, pair)] for pair in drawn]
        key = next(on for on, _ in keys if Counter(under(first, on)) == Counter(second))
        off = next(off for on, off in keys if on == key)
        stay["own list"] += same(np.sort(last)[np.argsort(found[0].rows)], base(first, keys, last))
        stay["passed list"] += same(under(first, key), second)
        stay["common"] += same(under(third, off), last)
    for what, number in stay.items():
        assert abs(number - runs) < 50, what


def under(points, key):
    return np.frombuffer(times_key(points.tobytes(), key), DTYPE)


def same(one, other):
    return int((one == other).sum())


def base(points, keys, all_points):
    """The points without the key under which they are."""
    for _, off in keys:
        found = under(points, off)
        if Counter(found) == Counter(all_points):
            return found
    raise AssertionError("no key comes off")


@pytest.mark.parametrize(
    ("strange", "said"), [(True, "belong to no id"), (False, "different orders")]
)
def test_common_points_that_were_changed_on_their_way_are_no_result(strange, said, tmp_path):
    """Whether an owner knows the other point or not, nobody writes anything."""
    post, lists = Post(2), [WORDS[:5], WORDS[3:]]

    def alter(_, __, message):
        if message[:2] == b"\2\2":
            own = (tmp_path / "kept-0" / "list-own").read_bytes()
            known = [own[at : at + POINT] for at in range(0, len(own), POINT)]
            other = next(each for each in known if each not in message)
            return message[:-POINT] + (bytes(POINT) if strange else other)
        return message

    post.alter = alter
    first, second = posted(tmp_path, lists_of(*lists), post=post)
    assert isinstance(first, PeaError)
    assert said in str(first)
    assert isinstance(second, PeaError)
