"""A sample serves one step of one private optimizer, and its pieces come in turn."""

from dataclasses import dataclass
from operator import add

import pytest

from extensions.errors import GradientError
from extensions.protocols.optimizer.sample import Half, InTurn, Sample, SampleFacts, vouched
from tests.helpers.refused import refused

FACTS = SampleFacts(feature_norm=1.0, expected_size=4.0, sample_rate=0.5, overflow_probability=1e-9)


@dataclass(eq=False)
class Optimizer:
    private: bool = True


def sample(rows: int = 6) -> Sample:
    return Sample(FACTS, rows)


def test_one_private_step_and_one_of_each_plain_optimizer():
    batch, private, plain = sample(), Optimizer(), Optimizer(private=False)
    batch.use(plain)
    batch.use(private)
    batch.use(Optimizer(private=False))
    for again in (private, plain, Optimizer()):
        with pytest.raises(GradientError, match="used for an earlier step"):
            batch.use(again)


def test_the_first_piece_uses_the_whole():
    whole, optimizer = sample(), Optimizer()
    for i in range(2):
        whole.cut(i, 2).use(optimizer)
    with pytest.raises(GradientError, match="used for an earlier step"):
        whole.use(optimizer)


def test_features_fit_the_targets_of_their_sample_alone():
    batch, other = sample(), sample()
    features, targets = Half(batch, "features"), Half(batch, "targets")
    assert features.fits(targets)
    assert not features.fits(Half(other, "targets"))
    assert not features.fits(features)
    assert not targets.fits(features)
    assert not features.fits(None)


def test_pieces_add_up_to_the_whole():
    whole, turn = sample(), InTurn[int]()
    found = []
    for i in range(3):
        piece = whole.cut(i, 3)
        turn.check(piece, "settings")
        found.append((turn.add(piece, 10**i, add), turn.is_open))
    assert found == [(None, True), (None, True), (111, False)]
    turn.check(sample(), "others")


@pytest.mark.parametrize(
    ("second", "settings"),
    [
        (lambda whole: whole.cut(2, 3), "settings"),
        (lambda whole: whole.cut(0, 3), "settings"),
        (lambda whole: whole.cut(1, 4), "settings"),
        (lambda whole: sample().cut(1, 3), "settings"),
        (lambda whole: whole, "settings"),
        (lambda whole: whole.cut(1, 3), "others"),
    ],
)
def test_what_is_not_the_next_piece_is_refused(second, settings):
    whole, turn = sample(), InTurn[int]()
    first = whole.cut(0, 3)
    turn.check(first, "settings")
    turn.add(first, 1, add)
    with pytest.raises(GradientError, match="is due|Settings or the model changed"):
        turn.check(second(whole), settings)


def test_one_of_which_the_same_is_known_serves_a_step_of_its_own():
    whole, optimizer = sample(), Optimizer()
    piece = whole.cut(1, 3, "held")
    like = piece.like("other")
    assert (like.public, like.rows, like.whole, like.index, like.count) == (FACTS, 6, whole, 1, 3)
    assert (piece.shared, like.shared) == ("held", "other")
    copy = whole.like(None)
    whole.use(optimizer)
    copy.use(optimizer)


def test_what_a_caller_vouches_for_is_a_sample_of_these_facts():
    found = vouched((6, 2, 2), (6, 3), 2, 0.5, "held")
    assert found.public == SampleFacts(feature_norm=2.0, expected_size=6.0, sample_rate=0.5)
    assert (found.rows, found.shared) == (6, "held")
    assert vouched((6, 4), (6, 1), 1.0).public.sample_rate == 1.0


@pytest.mark.parametrize(
    ("x", "y"),
    [((6,), (6, 3)), ((6, 4), (6,)), ((6, 4), (5, 3)), ((0, 4), (0, 3)), ((6, 4), (6, 3, 1))],
)
def test_records_that_do_not_match_cannot_be_vouched_for(x, y):
    with refused("x, y", "shape", (x, y)):
        vouched(x, y, 1.0)


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("max_feature_norm", (0.0,)),
        ("max_feature_norm", (float("inf"),)),
        ("sample_rate", (1.0, 0.0)),
    ],
)
def test_a_sample_has_a_rate_and_a_bound(argument, options):
    with refused(argument, "range"):
        vouched((6, 4), (6, 3), *options)
