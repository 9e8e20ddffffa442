"""SignDS: probabilities and privacy by counting every set of dimensions, and what is sent.

Statistics come with their false-alarm probability (`ALARM` each).
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch

import fl
from fl.privacy.dimension_selection import DimensionSelection, select
from fl.protocols import SERVER, Round
from tests.helpers.federated.digits import SIZE, run_on_digits
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, count_p_value, histogram_p_value

SMALL = [(6, 3, 2, 0.5), (8, 2, 2, 1.0), (9, 4, 3, 2.0), (10, 3, 3, 8.0), (8, 4, 4, 1e-18)]


def law(size: tuple[int, int, int, float]) -> DimensionSelection:
    dimensions, top, selected, epsilon = size
    return DimensionSelection(dimensions=dimensions, top=top, selected=selected, epsilon=epsilon)


def counted(size: tuple[int, int, int, float], threshold: int) -> dict[int, float]:
    """The distribution of nu at a threshold, by the weight of every single set."""
    dimensions, top, selected, epsilon = size
    weights: Counter[int] = Counter()
    for chosen in itertools.combinations(range(dimensions), selected):
        nu = sum(dimension < top for dimension in chosen)
        weights[nu] += math.exp(epsilon) if nu >= threshold else 1.0
    total = sum(weights.values())
    return {nu: weight / total for nu, weight in weights.items()}


def probability_of(
    law: DimensionSelection, top: frozenset[int], chosen: tuple[int, ...]
) -> Fraction:
    """The probability of one set of dimensions, given the top k."""
    nu = len(top.intersection(chosen))
    inside = math.comb(law.top, nu) * math.comb(law.dimensions - law.top, law.selected - nu)
    return law.probability(nu) / inside


@pytest.mark.parametrize("size", SMALL)
def test_threshold_has_the_largest_mean_and_probabilities_are_those_of_all_sets(size):
    found = law(size)
    selected = size[2]
    means = [
        sum(nu * p for nu, p in counted(size, threshold).items())
        for threshold in range(1, selected + 1)
    ]
    np.testing.assert_allclose(found.means, means, rtol=1e-12)
    assert means[found.threshold - 1] == pytest.approx(max(means), rel=1e-12)
    expected = counted(size, found.threshold)
    for nu in range(selected + 1):
        assert float(found.probability(nu)) == pytest.approx(expected.get(nu, 0.0), rel=1e-12)
    assert sum(found.probability(nu) for nu in range(selected + 1)) == 1


@pytest.mark.parametrize("size", SMALL)
def test_no_selection_is_more_than_e_to_the_epsilon_times_as_likely(size):
    """Over all pairs of updates: all sets that may be the top k, and all that may be selected."""
    dimensions, top, selected, epsilon = size
    found = law(size)
    tops = [frozenset(chosen) for chosen in itertools.combinations(range(dimensions), top)]
    worst = Fraction(0)
    for chosen in itertools.combinations(range(dimensions), selected):
        chances = [probability_of(found, other, chosen) for other in tops]
        worst = max(worst, max(chances) / min(chances))
    exact = Fraction(epsilon)
    series = sum(exact**i / math.factorial(i) for i in range(60))  # below e^epsilon
    assert worst <= series
    assert worst >= series * (1 - Fraction(1, 2**40))  # the bound is reached: nothing is wasted
    assert sum(probability_of(found, tops[0], chosen) for chosen in
               itertools.combinations(range(dimensions), selected)) == 1  # fmt: skip


def test_sizes_at_which_doubles_overflow_are_exact():
    size = (266_084, 2_660, 400, 100.0)
    with pytest.raises(OverflowError):
        float(math.comb(size[0] - size[1], size[2]))
    found = law(size)
    assert np.all(np.isfinite(found.means))
    mean = sum(nu * found.probability(nu) for nu in range(size[2] + 1))
    assert float(mean) == pytest.approx(found.mean, rel=1e-6)
    assert found.probability(found.threshold) > Fraction(1, 2)


def test_number_of_dimensions_keeps_the_share_of_the_top_k():
    for dimensions, top, epsilon, ratio in (
        (266_084, 2_660, 100.0, 0.6),
        (2_000, 20, 10.0, 0.6),
        (2_000, 200, 5.0, 0.9),
    ):
        found = select(dimensions, top, epsilon, ratio)
        assert found.mean >= ratio * found.selected
        if found.selected < top:
            more = law((dimensions, top, found.selected + 1, epsilon))
            assert more.mean < ratio * more.selected
    assert select(266_084, 2_660, 100.0, 0.6).selected > 20
    assert select(1_000, 10, 1e-6, 0.6).selected == 1  # not even one keeps it
    assert select(1_000, 10, 1.0, 0.6, 5).selected == 5


def test_draws_have_their_distribution():
    found = law((40, 10, 5, 2.0))
    draws = Counter(found.draw() for _ in range(10_000))
    counts = [draws[nu] for nu in range(6)]
    chances = [float(found.probability(nu)) for nu in range(6)]
    assert histogram_p_value(counts, chances) > ALARM
    other = law((40, 10, 5, 1.5))
    assert histogram_p_value(counts, [float(other.probability(nu)) for nu in range(6)]) < ALARM


def test_update_is_the_constant_in_the_selected_dimensions_of_the_sign():
    mechanism = fl.SignDS(sign_k=0.1, sign_eps=3.0, sign_global_lr=0.7, sign_dim_out=4)
    update = np.arange(100.0) - 50.0
    round = Round(number=1, size=100, weights={0: 1})
    found = mechanism.selection(100)
    plus, inside, touched, runs = 0, Counter(), Counter(), 4_000
    for _ in range(runs):
        sent = mechanism.client(update, round, 0)
        (chosen,) = np.nonzero(sent)
        (value,) = set(sent[chosen].tolist())
        assert abs(value) == 0.7
        assert len(chosen) == 4
        plus += value > 0
        # Counted from the end at which the sign looks: the top k are 0..9 then.
        places = 99 - chosen if value > 0 else chosen
        inside[int(np.sum(places < 10))] += 1
        touched.update(places.tolist())
    assert count_p_value(plus, runs, 0.5) > ALARM
    chances = [float(found.probability(nu)) for nu in range(5)]
    assert histogram_p_value([inside[nu] for nu in range(5)], chances) > ALARM
    for places, share in ((range(10), found.mean / 10), (range(10, 100), (4 - found.mean) / 90)):
        for place in places:  # each is selected at most once a run: a binomial count
            assert count_p_value(touched[place], runs, share) > ALARM


def test_draws_are_fresh_whatever_seeds_are_set():
    mechanism = fl.SignDS(sign_k=0.25, sign_eps=1.0, sign_dim_out=50)
    round = Round(number=1, size=1000, weights={0: 1})
    sent = []
    for _ in range(2):
        torch.manual_seed(5)
        np.random.seed(5)
        sent.append(mechanism.client(np.zeros(1000), round, 0))
    assert np.any(sent[0] != sent[1])


def test_digits_are_learned_and_epsilons_add_up():
    mechanism = fl.SignDS(sign_k=0.2, sign_eps=10.0, sign_global_lr=2.0)
    run = run_on_digits(mechanism, rounds=5, transcript="all")
    assert run.history.accuracy > 0.4  # chance is 0.1; twelve runs gave 0.69 to 0.78, sd 0.02
    assert run.get_epsilon(1e-5) == pytest.approx(50.0, rel=1e-6)
    update = run.outcome.transcript.received(SERVER, "update")[0].body
    assert set(np.abs(update["values"]).tolist()) == {2.0}
    assert len(set(update["places"].tolist())) == mechanism.selection(SIZE).selected
    assert update["places"].shape == update["values"].shape


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sign_k", (0.0, 0.26, math.nan)),
        ("sign_eps", (0.0, 100.1, math.inf)),
        ("sign_thr_ratio", (0.49, 1.01)),
        ("sign_global_lr", (0.0, -1.0, math.inf)),
        ("sign_dim_out", (-1, 51, 1.5)),
    ],
)
def test_values_beyond_the_ranges_are_refused(name, values):
    for value in values:
        with refused(name, "range", value):
            fl.SignDS(**{name: value})


def test_ends_of_the_ranges_are_taken_and_sizes_that_do_not_fit_are_refused():
    fl.SignDS(sign_k=0.25, sign_eps=100, sign_thr_ratio=1, sign_global_lr=1e-9, sign_dim_out=50)
    fl.SignDS(sign_k=1e-9, sign_eps=1e-9, sign_thr_ratio=0.5, sign_dim_out=0)
    for name, value in (("sign_k", 1e-4), ("sign_dim_out", 7)):
        run = run_on_digits(fl.SignDS(**{name: value}), rounds=0)
        with refused(name, "range", value):
            run.fit(1, progress=False)
        assert run.mechanism.ledger.get_epsilon(1e-5) == 0.0
    with refused("sign_k", "range", value=0.6):
        law((10, 6, 1, 1.0))
