"""Epsilon for a record that is replaced, against closed forms, quadrature and published figures."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from extensions.privacy.accounting import (
    NEIGHBOURS,
    Charge,
    Ledger,
    SubsampledGaussian,
    calibrate_noise,
    epsilon,
)
from tests.helpers.refused import refused

DELTA = 1e-5
DIGITS = {"delta": 1 / (10 * 1437), "sample_rate": 0.1, "steps": 120}
MNIST = {"delta": 1 / (10 * 60_000), "sample_rate": 0.05, "steps": 200}
WHOLE = {"delta": MNIST["delta"], "sample_rate": 1.0, "steps": 1}


def loss(x, noise, rate):
    """Logarithm of the ratio of the densities of the worst pair: the record at 1, and at -1."""
    absent = math.log1p(-rate) if rate < 1 else -math.inf
    up, down = (math.log(rate) + (sign * 2 * x - 1) / (2 * noise**2) for sign in (1, -1))
    return np.logaddexp(absent, up) - np.logaddexp(absent, down)


def tail(x, noise, rate, centre):
    """Probability beyond x where the record is at the centre, and counts at the rate."""
    return (1 - rate) * ndtr(-x / noise) + rate * ndtr((centre - x) / noise)


def replaced_delta(eps, noise, rate):
    """Exact delta of one subsampled Gaussian when a record is replaced."""
    reach = 40 * noise + 1
    if not loss(-reach, noise, rate) < eps < loss(reach, noise, rate):
        return max(0.0, -math.expm1(eps))
    edge = brentq(lambda x: loss(x, noise, rate) - eps, -reach, reach, xtol=1e-14)
    return tail(edge, noise, rate, 1) - math.exp(eps) * tail(edge, noise, rate, -1)


def two_step_delta(eps, noise, rate):
    """Delta of two such steps: the mean of the second's over the loss of the first."""
    x = np.linspace(-10 * noise - 1, 10 * noise + 1, 2001)
    mass = -np.diff(tail(x, noise, rate, 1))
    middles = (x[1:] + x[:-1]) / 2
    deltas = [replaced_delta(eps - each, noise, rate) for each in loss(middles, noise, rate)]
    return float(mass @ np.array(deltas))


def least_delta(eps, noise, rate, steps, grid=2e-5):
    """A delta that many steps have at least: all losses are rounded down, and none is left out."""
    x = np.linspace(-10 * noise - 1, 10 * noise + 1, 400_001)
    mass = -np.diff(tail(x, noise, rate, 1))
    low = np.floor(loss(x, noise, rate) / grid).astype(int)
    size = 1 << 21
    one = np.bincount(low[:-1] % size, mass, size)
    total = np.fft.irfft(np.fft.rfft(one) ** steps, size)
    losses = grid * ((np.arange(size) + size // 2) % size - size // 2)
    return float((total * np.maximum(0.0, -np.expm1(eps - losses))).sum())


def assert_tight(result, exact_delta, delta, slack=1e-3):
    """The exact delta at the result is within budget, that a little below is not."""
    assert exact_delta(result) <= delta * (1 + 1e-9)
    assert exact_delta(result * (1 - slack)) > delta


@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_one_step_on_all_records_moves_the_sum_by_twice_the_norm(noise):
    result = epsilon(
        noise_multiplier=noise, sample_rate=1, steps=1, delta=DELTA, neighbours="replace"
    )
    alone = epsilon(noise_multiplier=noise / 2, sample_rate=1, steps=1, delta=DELTA)
    assert result == pytest.approx(alone, rel=1e-4)
    assert_tight(result, lambda e: replaced_delta(e, noise, 1.0), DELTA)


@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.1), (1.0, 0.01), (1.0, 0.5), (2.0, 0.9)])
def test_one_sampled_step_is_the_pair_at_opposite_ends(noise, rate):
    result = epsilon(
        noise_multiplier=noise, sample_rate=rate, steps=1, delta=DELTA, neighbours="replace"
    )
    assert_tight(result, lambda e: replaced_delta(e, noise, rate), DELTA)


def test_two_sampled_steps_agree_with_quadrature():
    noise, rate = 1.2, 0.2
    result = epsilon(
        noise_multiplier=noise, sample_rate=rate, steps=2, delta=DELTA, neighbours="replace"
    )
    assert_tight(result, lambda e: two_step_delta(e, noise, rate), DELTA)


def test_many_steps_are_never_below_a_finer_grid_that_rounds_down():
    noise, rate, steps = 2.0, 0.1, 40
    result = epsilon(
        noise_multiplier=noise, sample_rate=rate, steps=steps, delta=DELTA, neighbours="replace"
    )
    assert least_delta(result, noise, rate, steps) <= DELTA
    assert least_delta(0.997 * result, noise, rate, steps) > DELTA


@pytest.mark.parametrize(
    ("run", "target", "replaced"),
    [
        (DIGITS, 2.0, 3.92),
        (MNIST, 2.0, 3.64),
        pytest.param(MNIST, 0.5, 1.02, marks=pytest.mark.long),
        pytest.param(MNIST, 1.0, 1.97, marks=pytest.mark.long),
        pytest.param(MNIST, 8.0, 10.66, marks=pytest.mark.long),
        (WHOLE, 2.0, 4.33),
    ],
)
def test_what_a_target_for_added_records_costs_a_replaced_one(run, target, replaced):
    noise = calibrate_noise(epsilon=target, **run)
    found = epsilon(noise_multiplier=noise, neighbours="replace", **run)
    assert found == pytest.approx(replaced, abs=0.0051)


def test_a_thousand_steps_at_one_percent_cost_more_than_half_again():
    run = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000, "delta": DELTA}
    costs = [epsilon(**run, neighbours=neighbours) for neighbours in NEIGHBOURS]
    assert costs == pytest.approx([1.83, 2.84], abs=0.005)


def test_twice_epsilon_at_the_same_delta_bounds_nothing():
    noise = calibrate_noise(epsilon=2.0, **WHOLE)
    assert replaced_delta(2 * 2.0, noise, 1.0) > 2 * WHOLE["delta"]


def test_noise_for_replaced_records_is_the_smallest_that_meets_the_target():
    run = {"sample_rate": 0.1, "steps": 20, "delta": DELTA, "overflow_probability": 1e-8}
    noise = calibrate_noise(epsilon=3.0, neighbours="replace", **run)
    assert epsilon(noise_multiplier=noise, neighbours="replace", **run) <= 3.0
    assert epsilon(noise_multiplier=noise * (1 - 1e-4), neighbours="replace", **run) > 3.0
    assert epsilon(noise_multiplier=noise, **run) < 2.1


def test_overflow_is_weighed_with_the_epsilon_of_replaced_records():
    noise, overflow = 2.0, 1e-8
    result = epsilon(
        noise_multiplier=noise,
        sample_rate=1.0,
        steps=1,
        delta=DELTA,
        overflow_probability=overflow,
        neighbours="replace",
    )
    assert_tight(
        result,
        lambda e: replaced_delta(e, noise, 1.0) + (1 + math.exp(e)) * overflow,
        DELTA,
    )


@pytest.mark.parametrize("calibration", ["pld", "rdp", "paper"])
def test_noise_beside_other_steps_makes_all_of_them_meet_the_target(calibration):
    run = {"sample_rate": 0.2, "steps": 40}
    first = SubsampledGaussian(noise_multiplier=6.0, sample_rate=0.1, steps=10)
    alone = calibrate_noise(epsilon=1.0, delta=DELTA, calibration=calibration, **run)
    if calibration == "paper":
        first = SubsampledGaussian(noise_multiplier=2 * alone, sample_rate=1.0, steps=40)
    noise = calibrate_noise(
        epsilon=1.0, delta=DELTA, calibration=calibration, beside=[first], **run
    )
    assert noise > alone
    if calibration == "paper":
        assert noise == pytest.approx(alone / math.sqrt(1 - 1 / 4))
        return
    ledger = Ledger()
    ledger.record("first", noise_multiplier=6.0, sample_rate=0.1, steps=10)
    ledger.record("then", noise_multiplier=noise, **run)
    assert 0.999 < ledger.get_epsilon(DELTA, calibration) <= 1.0


@pytest.mark.parametrize("calibration", ["pld", "rdp", "paper"])
@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_steps_that_leave_nothing_of_epsilon_are_refused(calibration, noise):
    first = SubsampledGaussian(noise_multiplier=noise, sample_rate=0.5, steps=10)
    with refused("epsilon", "value", value=1.0):
        calibrate_noise(
            epsilon=1.0,
            delta=DELTA,
            sample_rate=0.1,
            steps=4,
            calibration=calibration,
            beside=[first],
        )


def test_accountants_that_know_nothing_of_replaced_records_say_so():
    run = {"sample_rate": 0.1, "steps": 4, "delta": DELTA, "neighbours": "replace"}
    with refused("accountant", "value", value="rdp"):
        epsilon(noise_multiplier=1.0, accountant="rdp", **run)
    for calibration in ("rdp", "paper"):
        with refused("calibration", "value", calibration):
            calibrate_noise(epsilon=1.0, calibration=calibration, **run)


def test_a_ledger_answers_for_both_and_keeps_for_whom_a_release_is_charged():
    ledger = Ledger()
    run = {"noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 20}
    ledger.record("training", **run)
    ledger.charge("count", epsilon=0.25, delta=1e-6)
    again = Ledger.from_json(ledger.to_json())
    for each in (ledger, again):
        alone = epsilon(**run, delta=DELTA - 1e-6)
        assert each.get_epsilon(DELTA) == pytest.approx(alone + 0.25, rel=1e-6)
        spent = 1e-6 * (1 + math.exp(0.25))
        alone = epsilon(**run, delta=DELTA - spent, neighbours="replace")
        found = each.get_epsilon(DELTA, neighbours="replace")
        assert found == pytest.approx(alone + 0.5, rel=1e-6)
    ledger.charge("winner", epsilon=0.5, delta=0, neighbours="replace")
    (*_, kept) = Ledger.from_json(ledger.to_json()).phases
    assert kept == Charge(name="winner", epsilon=0.5, delta=0, neighbours="replace")
    with refused("neighbours", "value", value="add-remove"):
        ledger.get_epsilon(DELTA)
    assert ledger.get_epsilon(DELTA, neighbours="replace") == pytest.approx(found + 0.5, rel=1e-6)


def test_a_ledger_of_before_charged_for_added_records():
    text = {"format": 1, "opened": ["count"]}
    text["phases"] = [{"kind": "charge", "name": "count", "epsilon": 1.0, "delta": 0.0}]
    assert Ledger.from_json(json.dumps(text)).get_epsilon(DELTA, neighbours="replace") == 2.0
