"""Each party's noise is a fresh discrete Gaussian, and enough stays when colluders subtract theirs.

Statistics come with their false-alarm probability (`ALARM` each), and reject a standard deviation
that is 10 % too small.
"""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from extensions.privacy.discrete import discrete_gaussian
from extensions.privacy.gaussian_table import TAIL
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.protocols.noise import NoiseSplit, add_gaussian_noise, party_variance
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import SAFE_BITS, Integers
from extensions.ring.interface import NoiseSource
from tests.helpers.claims import claim
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    ALARM,
    count_p_value,
    histogram_p_value,
    mean_p_value,
    variance_p_value,
)
from tests.helpers.toy_ext.ring import ToyRing

DRAWS = 10_000
"""With so many, a standard deviation 10 % too small passes with probability below 1e-15."""


@pytest.mark.parametrize(
    ("parties", "colluders", "variance"),
    [
        (1, 0, 1.0),
        (1, 1, 1.0),
        (2, 1, 1.0),  # the paper's 3/4 would leave 0.75 sigma^2
        (2, 0, 0.5),
        (3, 1, 0.5),
        (3, 2, 1.0),
        (4, 1, 1 / 3),
        (5, 1, 0.25),
        (5, 2, 1 / 3),
        (5, 4, 1.0),
        (10, 1, 1 / 9),
    ],
)
def test_party_variance(parties, colluders, variance):
    assert party_variance(parties, NoiseSplit(colluders=colluders)) == variance


@claim("If t parties subtract theirs, sigma^2 remains.")
@pytest.mark.parametrize("parties", range(2, 11))
def test_enough_noise_stays_when_colluders_subtract_theirs(parties):
    """And by default no more than enough; the paper's shares add more where m > 3t."""
    for colluders in range(parties):
        exact, paper = (
            party_variance(parties, NoiseSplit(colluders=colluders, noise_shares=shares))
            for shares in ("exact", "paper")
        )
        assert (parties - colluders) * exact == pytest.approx(1.0, rel=1e-15)
        assert paper == max(exact, 1.5 / parties)
        assert (paper > exact) == (parties > 3 * colluders)


@pytest.mark.parametrize("parties", range(2, 11))
def test_enough_noise_stays_of_parties_and_a_dealer(parties):
    for colluders in range(1, parties):
        each = party_variance(parties + 1, NoiseSplit(colluders=colluders))
        assert (parties + 1 - colluders) * each == pytest.approx(1.0, rel=1e-15)
        assert parties * each >= 1.0  # the dealer knows its own
        assert (parties + 1) * each < parties * party_variance(
            parties, NoiseSplit(colluders=colluders)
        )


def test_what_the_papers_shares_add_beyond_need():
    wasted = {m: math.sqrt(1.5 / (m / (m - 1))) - 1 for m in (3, 4, 10)}
    for parties, more in wasted.items():
        shares = [
            party_variance(parties, NoiseSplit(noise_shares=which)) for which in ("exact", "paper")
        ]
        assert math.sqrt(shares[1] / shares[0]) - 1 == pytest.approx(more, abs=1e-12)
    assert [round(100 * more) for more in wasted.values()] == [0, 6, 16]


@pytest.mark.parametrize(
    ("argument", "code", "value", "parties", "colluders"),
    [
        ("parties", "range", 0, 0, 0),
        ("parties", "range", -3, -3, 1),
        ("colluders", "value", 3, 3, 3),
        ("colluders", "value", -1, 2, -1),
    ],
)
def test_impossible_coalitions_are_refused(argument, code, value, parties, colluders):
    with refused(argument, code, value):
        party_variance(parties, NoiseSplit(colluders=colluders))


def test_shares_that_nobody_knows_are_refused():
    with refused("noise_shares", "choice", value="half"):
        party_variance(3, NoiseSplit(noise_shares="half"))  # type: ignore[arg-type]


@pytest.mark.parametrize("colluders", [0, 3])
def test_with_a_dealer_somebody_colludes_and_some_party_does_not(colluders):
    """Of no colluders the dealer would be one, and of three parties no noise would stay."""
    ring, zeros = ClearRing(16, parties=3), [np.zeros(1, dtype=np.int64)]
    with refused("colluders", "value", value=colluders):
        add_gaussian_noise(
            ring,
            zeros,
            1.0,
            frac_bits=16,
            source=InsecureSeededSource(1),
            split=NoiseSplit(colluders=colluders),
            dealer_noise=True,
        )


def test_a_host_without_a_dealer_deals_no_noise():
    ring = ToyRing(16, 3)
    x = [ring.share(np.zeros(2, dtype=np.int64))]
    options = {"frac_bits": 16, "source": SystemSource(), "dealer_noise": True}
    with refused("dealer_noise", "value", value=True):
        add_gaussian_noise(ring, x, 1.0, **options)


def histogram_at_small_scale(draws: Integers, scale: float) -> float:
    """Returns the p-value of the draws against exp(-k^2 / 2 scale^2), tails pooled."""
    edge = 8
    weights = {k: math.exp(-(k**2) / (2 * scale**2)) for k in range(-60, 61)}
    total = sum(weights.values())
    probabilities = [weights[k] / total for k in range(-edge, edge + 1)]
    counts = [int((draws == k).sum()) for k in range(-edge, edge + 1)]
    tail = sum(w for k, w in weights.items() if k > edge) / total
    counts += [int((draws > edge).sum()), int((draws < -edge).sum())]
    return histogram_p_value(counts, [*probabilities, tail, tail])


@pytest.mark.parametrize("scale", [0.8, 2.5])
def test_probabilities_at_a_small_scale(scale):
    draws = discrete_gaussian(scale, (80_000,))
    assert histogram_at_small_scale(draws, scale) > ALARM
    assert histogram_at_small_scale(draws, scale / 0.9) < ALARM


def test_a_rounded_gaussian_is_told_from_a_discrete_one():
    rounded = InsecureSeededSource(3).gaussian(0, 0.8, (80_000,))
    assert histogram_at_small_scale(rounded, 0.8) < ALARM


@pytest.mark.parametrize("scale", [5000.0, 2.0**20, 1.3e9, 1e16])
def test_moments_at_a_large_scale(scale):
    draws = discrete_gaussian(scale, (DRAWS // 100, 100))
    assert draws.shape == (DRAWS // 100, 100)
    assert draws.dtype == np.int64
    assert variance_p_value(draws, scale**2) > ALARM
    assert variance_p_value(draws, (scale / 0.9) ** 2) < ALARM
    assert mean_p_value(draws, scale**2) > ALARM
    assert (
        count_p_value(int((np.abs(draws) < 0.6744897501960817 * scale).sum()), DRAWS, 0.5) > ALARM
    )
    assert np.abs(draws).max() < TAIL * scale


def test_scale_zero_and_no_elements_are_zeros():
    np.testing.assert_array_equal(discrete_gaussian(0.0, (2, 3)), np.zeros((2, 3)))
    assert discrete_gaussian(3.0, (0, 4)).shape == (0, 4)
    assert discrete_gaussian(3.0, ()).shape == ()


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 2.0**SAFE_BITS / TAIL])
def test_unusable_scales_are_refused(scale):
    with refused("scale", "range", scale):
        discrete_gaussian(scale, (1,))


def test_noise_of_all_parties_together_must_fit_the_ring():
    alone = 0.9 * 2.0**SAFE_BITS / TAIL
    ring, zeros = ClearRing(16, parties=3), [np.zeros(1, dtype=np.int64)]
    with refused("sigma", "value", value=1.0376293541461622e17):
        add_gaussian_noise(ring, zeros, alone, frac_bits=0, source=InsecureSeededSource(1))


def seed_everything() -> None:
    np.random.seed(0)
    random.seed(0)


def draws_of(source: NoiseSource, party: int) -> tuple[list[int], list[bool]]:
    return source.gaussian(party, 1e6, (32,)).tolist(), source.bernoulli(party, 0.5, 256).tolist()


def test_system_draws_cannot_be_seeded():
    seen = []
    for _ in range(2):
        seed_everything()
        seen += [draws_of(SystemSource(), 0), draws_of(SystemSource(), 1)]
    for kind in range(2):
        assert len({tuple(draws[kind]) for draws in seen}) == 4


def test_insecure_draws_are_a_function_of_seed_party_and_position():
    first, again, other = InsecureSeededSource(5), InsecureSeededSource(5), InsecureSeededSource(6)
    later = draws_of(again, 1)
    assert draws_of(first, 0) == draws_of(again, 0)
    assert draws_of(first, 1) == later
    following = draws_of(first, 0)
    assert following == draws_of(again, 0)
    seen = [
        later,
        following,
        draws_of(other, 0),
        draws_of(other, 1),
        draws_of(InsecureSeededSource(5), 0),
    ]
    for kind in range(2):
        assert len({tuple(draws[kind]) for draws in seen}) == len(seen)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_insecure_seeds_out_of_range_are_refused(seed):
    with refused("seed", "range", value=seed):
        InsecureSeededSource(seed)


@pytest.mark.parametrize(
    "source", [SystemSource(), InsecureSeededSource(11)], ids=["system", "seeded"]
)
@pytest.mark.parametrize("probability", [0.0, 0.01, 0.5, 1 - 2.0**-53, 1.0])
def test_coins_have_their_probability(source, probability):
    coins = source.bernoulli(0, probability, 100_000)
    assert coins.shape == (100_000,)
    assert coins.dtype == np.bool_
    assert count_p_value(int(coins.sum()), 100_000, probability) > ALARM
    if 0 < probability < 0.9:
        assert count_p_value(int(coins.sum()), 100_000, 0.5 * probability) < ALARM


class Recorder:
    """The system's source, remembering who drew what."""

    def __init__(self) -> None:
        self.drawn: dict[int, Integers] = {}

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        self.drawn[party] = SystemSource().gaussian(party, scale, shape)
        return self.drawn[party]

    bernoulli: Callable = SystemSource.bernoulli


@pytest.mark.parametrize(
    ("parties", "colluders", "options", "total", "left"),
    [
        (2, 1, {}, 2.0, 1.0),
        (3, 1, {}, 1.5, 1.0),
        (3, 2, {}, 3.0, 1.0),
        (5, 1, {}, 1.25, 1.0),
        (5, 1, {"noise_shares": "paper"}, 1.5, 1.2),
        (10, 4, {}, 5 / 3, 1.0),
        (1, 0, {}, 1.0, 1.0),
        (2, 1, {"dealer_noise": True}, 1.5, 1.0),
        (3, 1, {"dealer_noise": True}, 4 / 3, 1.0),
        (3, 2, {"dealer_noise": True}, 2.0, 1.0),
    ],
)
def test_what_a_coalition_still_faces(parties, colluders, options, total, left):
    sigma, frac_bits = 0.75, 20
    source = Recorder()
    x = np.arange(DRAWS, dtype=np.int64)
    (noisy,) = add_gaussian_noise(
        ClearRing(16, parties=parties),
        [x],
        sigma,
        frac_bits=frac_bits,
        source=source,
        split=NoiseSplit(colluders=colluders, noise_shares=options.get("noise_shares", "exact")),
        dealer_noise=options.get("dealer_noise", False),
    )
    unit = (sigma * 2**frac_bits) ** 2
    assert variance_p_value(noisy - x, total * unit) > ALARM
    remaining = noisy - x - sum(source.drawn[party] for party in range(colluders))
    assert variance_p_value(remaining, left * unit) > ALARM
    assert variance_p_value(remaining, left * unit / 0.81) < ALARM
    assert len(source.drawn) == parties + options.get("dealer_noise", False)
    assert len({tuple(draw[:32].tolist()) for draw in source.drawn.values()}) == len(source.drawn)
