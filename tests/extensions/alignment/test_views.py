"""What an owner sees tells of other owners' ids nothing but sizes: two worlds look alike.

The worlds have equal sizes, of lists and of all their overlaps, and else other persons in other
rows. A test that finds a difference is shown to find one where a guarantee is broken.
"""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy import stats

from extensions.alignment import ring
from extensions.alignment.curve import POINT, hashed
from extensions.alignment.ids import DTYPE
from tests.helpers.aligning import Post, lists_of, of_kind, posted
from tests.helpers.claims import claim

WORLDS = (
    [["all", "zero and one", "zero"], ["zero and one", "all", "one"], ["all", "two"]],
    [["nobody", "here", "everybody"], ["there", "everybody", "here"], ["others", "everybody"]],
)
RUNS = 150
NEVER = 1e-10
"""A hundredth of the probability of a false alarm: chi-squared may be off so far out."""
P, A = 2**255 - 19, 486662


@pytest.fixture(autouse=True, scope="module")
def no_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


def views(folder, world, runs=RUNS):
    """What all three owners were sent, run by run, and what they found."""
    for number in range(runs):
        post = Post(3)
        found = posted(folder / f"{number}", lists_of(*world), post=post)
        yield post, found


@pytest.fixture(scope="module")
def two_worlds(tmp_path_factory):
    """The posts of many runs in either world."""
    folder = tmp_path_factory.mktemp("worlds")
    return [[post for post, _ in views(folder, world)] for world in WORLDS]


def received(post, rank):
    """All lists of points that an owner got, by number and step."""
    lists = {(n, s): of_kind(post, rank, n, s) for n, s in product(range(4), range(1, 4))}
    return {key: points for key, points in lists.items() if points.size}


def features(post, rank):
    """What an owner could tell worlds apart by, by name; each takes a few values."""
    got = received(post, rank)
    for key, points in got.items():
        for row, point in enumerate(points):
            yield f"bits of {key}, {row}", point.ljust(POINT, b"\0")[0] % 4
        yield f"largest of {key}", int(np.argmax(points))
    for one, other in product(got, got):
        if one < other:
            where = [*zip(*np.nonzero(got[one][:, None] == got[other][None]), strict=True)]
            yield f"equal in {one} and {other}", tuple(sorted((int(a), int(b)) for a, b in where))


def p_of_difference(worlds, rank):
    """The least p of chi-squared tests of all features, times their number.

    Rare values count as one, so that ten of each value are expected in a world.
    """
    counts = [Counter(each for post in world for each in features(post, rank)) for world in worlds]
    total, names = sum(counts, Counter()), {name for each in counts for name, _ in each}
    least = 1.0
    for name in sorted(names):
        values = [value for key, value in total if key == name]
        often = [value for value in values if total[name, value] >= 20]
        rare = [value for value in values if total[name, value] < 20]
        rows = [
            [*(each[name, value] for value in often), sum(each[name, value] for value in rare)]
            for each in counts
        ]
        table = np.array(rows)[:, np.sum(rows, axis=0) > 0]
        if table.shape[1] > 1:
            least = min(least, stats.chi2_contingency(table).pvalue * len(names))
    return least


@claim("Two worlds look alike to each owner.")
@pytest.mark.parametrize("rank", range(3))
def test_two_worlds_look_alike_to_each_owner(rank, two_worlds):
    assert p_of_difference(two_worlds, rank) > NEVER


def test_without_shuffles_the_comparer_tells_them_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(ring, "shuffled", lambda points: points)
    worlds = [[post for post, _ in views(tmp_path, world, runs=40)] for world in WORLDS]
    assert p_of_difference(worlds, ring.COMPARER) < NEVER


def test_no_point_is_sent_without_a_key_but_those_of_common_ids(tmp_path, monkeypatch):
    tags = []
    monkeypatch.setattr(ring, "hashed", lambda ids, tag: (tags.append(tag), hashed(ids, tag))[1])
    for post, found in views(tmp_path, WORLDS[0], 5):
        ids = lists_of(*WORLDS[0])
        points = b"".join(hashed(one.digests.tobytes(), tags[-1]) for one in ids)
        public = {*np.frombuffer(points, DTYPE)}
        sent = {p for rank in range(3) for each in received(post, rank).values() for p in each}
        assert len(public & sent) == len(found[0].rows) == 1


@claim(
    "Every point is on the curve: Elligator 2 maps ids to it, and the cofactor 8 into the subgroup."
)
def test_every_point_that_is_sent_is_on_the_curve(tmp_path):
    """On the twist or not is a bit of an id that no key changes."""
    for post, _ in views(tmp_path, WORLDS[0], 5):
        for rank in range(3):
            for point in np.concatenate([*received(post, rank).values()]):
                u = int.from_bytes(point.ljust(POINT, b"\0"), "little")
                assert pow(u * (u * u + A * u + 1), (P - 1) // 2, P) == 1


def test_keys_and_orders_are_new_in_each_run(tmp_path):
    """Nothing that was sent is sent again, so that runs cannot be compared."""
    every = [
        p
        for post, _ in views(tmp_path, WORLDS[0], 5)
        for rank in range(3)
        for p in set(np.concatenate([*received(post, rank).values()]))
    ]
    counts = Counter(every)
    assert max(counts.values()) <= 3  # common ids, to each owner of one run


def test_the_comparer_learns_the_sizes_of_overlaps(tmp_path):
    """As the documents say; this is all that its lists have in common."""
    for post, _ in views(tmp_path, WORLDS[1], 3):
        last = {n: set(of_kind(post, 0, n, 3)) for n in (0, 2)}
        assert len(last[0] & last[2]) == 1
