"""Accounting against closed forms, quadrature, published values and its own invariants."""

import itertools
import json
import logging
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from extensions.errors import ArgumentError, PrivacyWarning
from extensions.privacy.accounting import (
    CALIBRATIONS,
    WEAK_EPSILON,
    Charge,
    GaussianPhase,
    Ledger,
    calibrate_noise,
    epsilon,
)
from tests.helpers.refused import refused

DELTA = 1e-5
RUN = {"noise_multiplier": 1.5, "sample_rate": 0.05, "steps": 100}


def phi(x):
    """Standard normal distribution function, accurate in the lower tail."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def gaussian_delta(eps, noise):
    """Exact delta of one Gaussian mechanism: Balle & Wang, ICML 2018, theorem 8."""
    return phi(1 / (2 * noise) - eps * noise) - math.exp(eps) * phi(-1 / (2 * noise) - eps * noise)


def removal_delta(eps, noise, rate):
    """Exact delta of one subsampled Gaussian when a record is removed, for any real eps."""
    excess = math.exp(eps) - (1 - rate)
    if excess <= 0:
        return 1 - math.exp(eps)
    edge = noise**2 * math.log(excess / rate) + 0.5
    return rate * phi((1 - edge) / noise) - excess * phi(-edge / noise)


def addition_delta(eps, noise, rate):
    """Exact delta of one subsampled Gaussian when a record is added, for eps >= 0."""
    excess = math.exp(-eps) - (1 - rate)
    if excess <= 0:
        return 0.0
    edge = noise**2 * math.log(excess / rate) + 0.5
    inside = (1 - rate) * phi(edge / noise) + rate * phi((edge - 1) / noise)
    return phi(edge / noise) - math.exp(eps) * inside


def two_step_removal_delta(eps, noise, rate):
    """Delta of two subsampled Gaussians: the mean of the second's over the loss of the first."""
    x = np.linspace(-12 * noise, 1 + 12 * noise, 20_001)
    ratio = 1 - rate + rate * np.exp((2 * x - 1) / (2 * noise**2))
    density = ratio * np.exp(-(x**2) / (2 * noise**2)) / (noise * math.sqrt(2 * math.pi))
    deltas = np.array([removal_delta(eps - loss, noise, rate) for loss in np.log(ratio)])
    return float(np.trapezoid(density * deltas, x))


def assert_tight(result, exact_delta, delta, slack=1e-3):
    """The exact delta at the result is within budget, that a little below is not."""
    assert exact_delta(result) <= delta
    assert exact_delta(result * (1 - slack)) > delta


# --- epsilon against independent values ---------------------------------------------------------


@pytest.mark.parametrize("noise", [0.3, 0.7, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_one_full_batch_step_is_the_analytic_gaussian(noise, delta):
    result = epsilon(noise_multiplier=noise, sample_rate=1, steps=1, delta=delta)
    assert_tight(result, lambda e: gaussian_delta(e, noise), delta)


@pytest.mark.parametrize(("noise", "rate"), [(0.5, 0.1), (1.0, 0.01), (1.0, 0.5), (2.0, 0.9)])
def test_one_sampled_step_is_the_worse_of_removal_and_addition(noise, rate):
    result = epsilon(noise_multiplier=noise, sample_rate=rate, steps=1, delta=DELTA)
    assert_tight(
        result,
        lambda e: max(removal_delta(e, noise, rate), addition_delta(e, noise, rate)),
        DELTA,
    )


@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.2), (1.5, 0.5)])
def test_two_sampled_steps_agree_with_quadrature(noise, rate):
    result = epsilon(noise_multiplier=noise, sample_rate=rate, steps=2, delta=DELTA)
    assert_tight(result, lambda e: two_step_removal_delta(e, noise, rate), DELTA)


def test_moments_accountant_value_of_abadi_et_al():
    # Abadi et al., CCS 2016, section 5.1: q = 0.01, sigma = 4, 10 000 steps, delta 1e-5 give
    # epsilon 1.26 by the moments accountant, 9.34 by strong composition.
    run = {"noise_multiplier": 4.0, "sample_rate": 0.01, "steps": 10_000, "delta": DELTA}
    renyi = epsilon(**run, accountant="rdp")
    assert 0.7 * 1.26 < epsilon(**run) < renyi < 1.26


def test_full_batch_steps_compose_to_one_with_less_noise():
    many = epsilon(noise_multiplier=30.0, sample_rate=1.0, steps=400, delta=DELTA)
    one = epsilon(noise_multiplier=1.5, sample_rate=1.0, steps=1, delta=DELTA)
    assert many == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize(
    ("steps", "noise", "delta"),
    [(10_000, 1.0, 1e-6), (30_000, 0.2, 3.3e-11), (20_000, 0.2, 2.2e-11), (60_000, 0.25, 6.6e-11)],
)
def test_rounding_over_many_steps_never_lowers_epsilon(steps, noise, delta):
    # Sampled at rate 1 - 1e-9 the steps go through the FFT, and their exact cost is that of one
    # Gaussian to 9 digits. Uncorrected, the library reports too little for the small deltas.
    run = {"noise_multiplier": noise * math.sqrt(steps), "sample_rate": 1 - 1e-9, "steps": steps}
    assert_tight(epsilon(**run, delta=delta), lambda e: gaussian_delta(e, noise), delta, slack=0.1)


def test_steps_in_stages_agree_with_the_gaussian():
    result = epsilon(noise_multiplier=300.0, sample_rate=1 - 1e-9, steps=250_000, delta=DELTA)
    assert_tight(result, lambda e: gaussian_delta(e, 0.6), DELTA, slack=5e-3)


# --- invariants ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "rate", "steps"), [(0.8, 0.01, 500), (1.5, 0.1, 200), (5.0, 1.0, 30), (0.5, 0.2, 20)]
)
def test_renyi_costs_more_than_pld(noise, rate, steps):
    run = {"noise_multiplier": noise, "sample_rate": rate, "steps": steps, "delta": DELTA}
    assert epsilon(**run, accountant="rdp") > epsilon(**run, accountant="pld") > 0


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("name", "values", "rising"),
    [
        ("noise_multiplier", [0.8, 1.0, 1.5, 3.0], False),
        ("sample_rate", [0.01, 0.05, 0.3, 1.0], True),
        ("steps", [1, 10, 100, 300], True),
        ("delta", [1e-8, 1e-6, 1e-4], False),
        ("overflow_probability", [0.0, 1e-9, 1e-8, 1e-7], True),
    ],
)
def test_epsilon_is_strictly_monotone(accountant, name, values, rising):
    base = {**RUN, "delta": DELTA, "accountant": accountant}
    results = [epsilon(**{**base, name: value}) for value in values]
    ordered = results if rising else results[::-1]
    assert all(a < b for a, b in itertools.pairwise(ordered))


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_no_noise_costs_infinity(accountant, rate):
    run = {"sample_rate": rate, "steps": 5, "delta": DELTA, "accountant": accountant}
    assert epsilon(noise_multiplier=0, **run) == math.inf
    assert epsilon(noise_multiplier=0, overflow_probability=1e-7, **run) == math.inf
    assert epsilon(noise_multiplier=1e-200, **run) == math.inf


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_extreme_arguments_give_finite_bounds(accountant):
    assert epsilon(noise_multiplier=1e200, sample_rate=1, steps=9, delta=DELTA) == 0
    run = {"delta": DELTA, "accountant": accountant}
    assert 1e3 < epsilon(noise_multiplier=0.02, sample_rate=1, steps=1, **run) < 1e4
    assert 1e5 < epsilon(noise_multiplier=1, sample_rate=0.5, steps=10**7, **run) < math.inf


def test_renyi_leaves_no_notes_in_the_log(caplog):
    with caplog.at_level(logging.DEBUG):
        epsilon(noise_multiplier=0.5, sample_rate=0.1, steps=100, delta=DELTA, accountant="rdp")
    assert not caplog.records


def test_import_loads_no_accountant():
    code = (
        "import sys, extensions.privacy.accounting; "
        "print({'dp_accounting', 'scipy', 'torch', 'tensorflow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --- overflow of padded batches -----------------------------------------------------------------


@pytest.mark.parametrize("overflow", [1e-9, 1e-7, 2e-6])
def test_overflow_is_the_smallest_epsilon_of_its_formula(overflow):
    noise = 4.0
    result = epsilon(
        noise_multiplier=noise,
        sample_rate=1,
        steps=1,
        delta=DELTA,
        overflow_probability=overflow,
    )
    assert_tight(result, lambda e: gaussian_delta(e, noise) + (1 + math.exp(e)) * overflow, DELTA)


@pytest.mark.parametrize("overflow", [4e-6, 5.1e-6, 0.3])
def test_impossible_overflow_is_refused(overflow):
    with refused("overflow_probability", "range", overflow) as error:
        epsilon(**RUN, delta=DELTA, overflow_probability=overflow)
    assert error.value.argument == "overflow_probability"


def test_delta_below_rounding_error_is_refused_with_advice():
    with refused("delta", "range", value=1e-14):
        epsilon(**RUN, delta=1e-14)
    assert epsilon(**RUN, delta=1e-14, accountant="rdp") < math.inf


# --- calibration --------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["pld", "rdp"])
@pytest.mark.parametrize(
    ("target", "rate", "steps", "overflow"),
    [(2.0, 0.1, 200, 0.0), (0.3, 0.01, 500, 1e-7), (20.0, 0.1, 10, 0.0), (1.0, 1.0, 40, 1e-6)],
)
def test_calibrated_noise_is_the_smallest_that_suffices(calibration, target, rate, steps, overflow):
    run = {"sample_rate": rate, "steps": steps, "delta": DELTA, "overflow_probability": overflow}
    noise = calibrate_noise(epsilon=target, calibration=calibration, **run)
    assert epsilon(noise_multiplier=noise, accountant=calibration, **run) <= target
    assert epsilon(noise_multiplier=noise * (1 - 1e-4), accountant=calibration, **run) > target


def test_calibration_matches_the_analytic_gaussian():
    noise = calibrate_noise(epsilon=1.0, delta=DELTA, sample_rate=1, steps=1)
    assert gaussian_delta(1.0, noise) <= DELTA < gaussian_delta(1.0, noise * (1 - 1e-4))


def test_paper_formula():
    # 2 sqrt(T ln(1/delta)) / epsilon with T = 200: ln(1e5) = 11.512925..., so 2 * 47.98525... / 2.
    noise = calibrate_noise(
        epsilon=2.0, delta=DELTA, sample_rate=0.1, steps=200, calibration="paper"
    )
    assert noise == pytest.approx(47.98525912, rel=1e-9)


def test_accountant_saves_fifteen_sixteenths_of_the_papers_noise():
    run = {"epsilon": 2.0, "delta": DELTA, "sample_rate": 0.1, "steps": 200}
    paper, renyi, pld = (calibrate_noise(**run, calibration=c) for c in ("paper", "rdp", "pld"))
    assert paper / pld == pytest.approx(15.97, abs=0.02)
    assert paper / renyi == pytest.approx(14.82, abs=0.02)


@pytest.mark.filterwarnings("ignore::extensions.errors.PrivacyWarning")
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("fraction", [0.01, 0.3, 0.999])
def test_paper_formula_holds_up_to_its_limit(delta, fraction):
    target = fraction * (8 - 4 * math.sqrt(2)) * math.log(1 / delta)
    run = {"epsilon": target, "delta": delta, "sample_rate": 0.5, "calibration": "paper"}
    noise = calibrate_noise(**run, steps=100)
    assert gaussian_delta(target, noise / 10) <= delta
    with_overflow = calibrate_noise(
        **run, steps=100, overflow_probability=0.1 * delta / (1 + math.exp(target))
    )
    assert with_overflow > noise


@pytest.mark.filterwarnings("ignore::extensions.errors.PrivacyWarning")
def test_paper_formula_fails_past_its_limit():
    target, steps = 40.0, 100
    noise = 2 * math.sqrt(steps * math.log(1 / DELTA)) / target
    assert gaussian_delta(target, noise / math.sqrt(steps)) > DELTA
    with refused("epsilon", "value", value=40.0):
        calibrate_noise(
            epsilon=target, delta=DELTA, sample_rate=1, steps=steps, calibration="paper"
        )


TARGET = {"delta": DELTA, "sample_rate": 0.1, "steps": 10}


@pytest.mark.parametrize("target", [0.5, 10.0, WEAK_EPSILON])
def test_a_common_target_is_not_warned_of(target):
    assert calibrate_noise(epsilon=target, **TARGET) > 0


@pytest.mark.parametrize("target", [np.nextafter(WEAK_EPSILON, 21), 100, 1e4])
def test_a_target_that_protects_little_is_warned_of(target):
    with pytest.warns(PrivacyWarning, match="epsilon"):
        assert calibrate_noise(epsilon=target, **TARGET) > 0


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("target", [np.nextafter(1e4, 1e5), 10**9, 1e300])
def test_a_target_that_protects_nothing_is_refused(calibration, target):
    with refused("epsilon", "range", value=target):
        calibrate_noise(epsilon=target, calibration=calibration, **TARGET)


@pytest.mark.parametrize("calibration", CALIBRATIONS)
def test_overflow_that_leaves_no_delta_is_refused_by_calibration(calibration):
    with refused("overflow_probability", "value", value=2e-06):
        calibrate_noise(
            epsilon=2.0,
            delta=DELTA,
            sample_rate=0.1,
            steps=10,
            calibration=calibration,
            overflow_probability=2e-6,
        )


def test_calibration_says_when_it_cannot_succeed():
    run = {"sample_rate": 0.5, "steps": 10**6}
    with refused("delta", "value", value=1e-11):
        calibrate_noise(epsilon=1.0, delta=1e-11, **run)
    with refused("epsilon", "range", value=0.0001):
        calibrate_noise(epsilon=1e-4, delta=1e-11, calibration="rdp", **run)


# --- refused arguments --------------------------------------------------------------------------

NOT_REAL = [math.nan, math.inf, -math.inf, "1", None, True, 1j, 10**400]
BAD = {
    "noise_multiplier": [-1e-9, *NOT_REAL],
    "sample_rate": [0.0, 1.0000001, -0.1, *NOT_REAL],
    "steps": [0, -1, 1.0, math.nan, "1", None, True],
    "delta": [0.0, 1.0, -1e-5, *NOT_REAL],
    "epsilon": [0.0, -1.0, *NOT_REAL],
    "overflow_probability": [-1e-9, 1.0, *NOT_REAL],
    "accountant": ["PLD", "", None, "paper", ["pld"]],
    "calibration": ["PLD", "", None, ["pld"]],
    "neighbours": ["add", "", None, ["replace"]],
}
CALLS = {
    "epsilon": (
        epsilon,
        {
            **{**RUN, "delta": DELTA, "overflow_probability": 0.0},
            **{"accountant": "pld", "neighbours": "replace"},
        },
    ),
    "calibrate_noise": (
        calibrate_noise,
        {
            "epsilon": 1.0,
            "delta": DELTA,
            "sample_rate": 0.1,
            "steps": 10,
            "calibration": "pld",
            "overflow_probability": 0.0,
            "neighbours": "replace",
        },
    ),
    "record": (
        lambda **values: Ledger().record("phase", **values),
        {**RUN, "overflow_probability": 0.0},
    ),
    "charge": (
        lambda **values: Ledger().charge("release", **values),
        {"epsilon": 1.0, "delta": DELTA, "neighbours": "replace"},
    ),
    "get_epsilon": (
        lambda **values: Ledger().get_epsilon(**values),
        {"delta": DELTA, "accountant": "pld", "neighbours": "replace"},
    ),
}


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        (call, name, value)
        for call, (_, good) in CALLS.items()
        for name in good
        for value in BAD[name]
        if (call, name, value) != ("charge", "delta", 0.0)
    ],
)
def test_bad_arguments_are_refused_by_name(call, name, value):
    function, good = CALLS[call]
    with refused(name, "choice" if isinstance(good[name], str) else "range", value):
        function(**{**good, name: value})


@pytest.mark.parametrize("name", ["", None, 3])
def test_every_entry_of_the_ledger_needs_a_name(name):
    ledger = Ledger()
    for add in (
        lambda: ledger.record(name, **RUN),
        lambda: ledger.charge(name, epsilon=1.0, delta=DELTA),
        lambda: ledger.disclose(name),
    ):
        with refused("name", "value", name):
            add()
    assert ledger.phases == ()
    assert ledger.opened == []


def test_numpy_scalars_are_accepted_and_stored_as_python_numbers():
    ledger = Ledger()
    ledger.record(
        "t", noise_multiplier=np.float32(1.5), sample_rate=np.float64(0.05), steps=np.int64(100)
    )
    assert ledger.get_epsilon(DELTA) == epsilon(**RUN, delta=DELTA)
    assert Ledger.from_json(ledger.to_json()).phases == ledger.phases


# --- ledger -------------------------------------------------------------------------------------


def test_empty_ledger_costs_nothing():
    assert Ledger().get_epsilon(DELTA) == 0
    assert Ledger().get_epsilon(DELTA, "rdp") == 0


def test_steps_recorded_one_by_one_make_one_phase():
    ledger = Ledger()
    for _ in range(500):
        ledger.record(
            "training",
            noise_multiplier=1.1,
            sample_rate=0.02,
            steps=1,
            overflow_probability=2e-12,
        )
    (phase,) = ledger.phases
    assert isinstance(phase, GaussianPhase)
    assert (phase.steps, phase.name) == (500, "training")
    assert phase.overflow_probability == pytest.approx(1e-9, rel=1e-9)
    run = {"noise_multiplier": 1.1, "sample_rate": 0.02, "steps": 500}
    assert ledger.get_epsilon(DELTA) == pytest.approx(
        epsilon(**run, delta=DELTA, overflow_probability=1e-9), rel=1e-9
    )


def test_only_like_neighbours_are_merged():
    ledger = Ledger()
    ledger.record("a", **RUN)
    ledger.record("b", **RUN)
    ledger.record("b", **{**RUN, "noise_multiplier": 2.0})
    ledger.record("b", **{**RUN, "noise_multiplier": 2.0, "sample_rate": 0.1})
    ledger.charge("c", epsilon=0.1, delta=0)
    ledger.disclose("d")
    ledger.record("b", **{**RUN, "noise_multiplier": 2.0, "sample_rate": 0.1})
    assert [phase.name for phase in ledger.phases] == ["a", "b", "b", "b", "c", "b"]
    ledger.record("b", **{**RUN, "noise_multiplier": 2.0, "sample_rate": 0.1, "steps": 7})
    assert ledger.phases[-1].steps == RUN["steps"] + 7


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_two_phases_cost_more_than_each_and_less_than_their_sum(accountant):
    first = {"noise_multiplier": 1.2, "sample_rate": 0.1, "steps": 50}
    second = {"noise_multiplier": 6.0, "sample_rate": 1.0, "steps": 10}
    both = Ledger()
    both.record("local", **first)
    both.record("global", **second)
    cost = both.get_epsilon(2 * DELTA, accountant)
    alone = [epsilon(**run, delta=2 * DELTA, accountant=accountant) for run in (first, second)]
    halves = [epsilon(**run, delta=DELTA, accountant=accountant) for run in (first, second)]
    assert max(alone) < cost < sum(halves)
    reverse = Ledger()
    reverse.record("global", **second)
    reverse.record("local", **first)
    assert reverse.get_epsilon(2 * DELTA, accountant) == pytest.approx(cost, rel=1e-9)


def test_split_run_costs_the_same_as_the_whole():
    ledger = Ledger()
    ledger.record("before", **{**RUN, "steps": 30})
    ledger.record("after", **{**RUN, "steps": 70})
    assert ledger.get_epsilon(DELTA) == pytest.approx(epsilon(**RUN, delta=DELTA), rel=1e-9)


@pytest.mark.parametrize("accountant", ["pld", "rdp"])
def test_charges_are_added_by_basic_composition(accountant):
    ledger = Ledger()
    ledger.charge("winner", epsilon=0.25, delta=4e-6)
    ledger.charge("count", epsilon=0.5, delta=0)
    assert ledger.get_epsilon(4e-6, accountant) == 0.75
    ledger.record("training", **RUN)
    expected = 0.75 + epsilon(**RUN, delta=6e-6, accountant=accountant)
    assert ledger.get_epsilon(DELTA, accountant) == pytest.approx(expected, rel=1e-6)


def test_delta_used_up_by_charges_is_refused():
    ledger = Ledger()
    ledger.charge("winner", epsilon=0.25, delta=DELTA)
    assert ledger.get_epsilon(DELTA) == 0.25
    with refused("delta", "value", value=9e-06):
        ledger.get_epsilon(0.9 * DELTA)
    ledger.record("training", **RUN)
    with refused("delta", "value", value=1e-05):
        ledger.get_epsilon(DELTA)


def test_overflow_of_the_ledger_is_weighed_with_the_total_epsilon():
    noise, overflow = 4.0, 4e-7
    ledger = Ledger()
    ledger.charge("winner", epsilon=1.0, delta=0)
    for name in ("a", "b"):
        ledger.record(
            name,
            noise_multiplier=noise * math.sqrt(2),
            sample_rate=1,
            steps=1,
            overflow_probability=overflow / 2,
        )
    assert_tight(
        ledger.get_epsilon(DELTA),
        lambda e: gaussian_delta(e - 1, noise) + (1 + math.exp(e)) * overflow,
        DELTA,
    )
    ledger.charge("count", epsilon=5.0, delta=0)
    with refused("overflow_probability", "range", value=4e-07):
        ledger.get_epsilon(DELTA)


def test_phase_without_noise_costs_infinity():
    ledger = Ledger()
    ledger.record("training", **RUN)
    ledger.record("debugging", noise_multiplier=0, sample_rate=0.1, steps=1)
    assert ledger.get_epsilon(DELTA) == math.inf


def test_opened_lists_charges_and_disclosures_in_order():
    ledger = Ledger()
    ledger.disclose("shape")
    ledger.record("training", **RUN)
    ledger.charge("winner", epsilon=0.1, delta=0)
    before = ledger.get_epsilon(DELTA)
    ledger.disclose("test accuracy")
    assert ledger.opened == ["shape", "winner", "test accuracy"]
    assert ledger.get_epsilon(DELTA) == before
    ledger.opened.clear()
    assert len(ledger.opened) == 3


def test_refused_entries_leave_the_ledger_unchanged():
    ledger = Ledger()
    ledger.record("training", **RUN)
    before = ledger.to_json()
    with pytest.raises(ArgumentError):
        ledger.record("training", **{**RUN, "steps": 0})
    with pytest.raises(ArgumentError):
        ledger.charge("winner", epsilon=math.nan, delta=0)
    assert ledger.to_json() == before


def test_phases_are_frozen_and_keyword_only():
    charge = Charge(name="winner", epsilon=1.0, delta=0.0)
    with pytest.raises(FrozenInstanceError):
        charge.epsilon = 0.0
    with pytest.raises(TypeError):
        Charge("winner", 1.0, 0.0)
    with pytest.raises(TypeError):
        GaussianPhase("training", 1.0, 0.1, 1)


def test_json_round_trip():
    ledger = Ledger()
    ledger.disclose("shape")
    ledger.record("training", **RUN, overflow_probability=1e-9)
    ledger.charge("winner", epsilon=0.1, delta=1e-7)
    ledger.record("global", noise_multiplier=3.3, sample_rate=1.0, steps=2)
    again = Ledger.from_json(ledger.to_json())
    assert again.phases == ledger.phases
    assert again.opened == ledger.opened
    assert again.to_json() == ledger.to_json()
    assert again.get_epsilon(DELTA) == ledger.get_epsilon(DELTA)
    again.record("global", noise_multiplier=3.3, sample_rate=1.0, steps=2)
    assert len(again.phases) == 3


def edited(change):
    ledger = Ledger()
    ledger.charge("winner", epsilon=0.1, delta=1e-7)
    data = json.loads(ledger.to_json())
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("[]", None),
        ("{}", None),
        (edited(lambda d: d.update(format=99)), None),
        (edited(lambda d: d.pop("opened")), None),
        (edited(lambda d: d.update(opened=3)), None),
        (edited(lambda d: d["phases"][0].update(kind="laplace")), None),
        (edited(lambda d: d["phases"][0].pop("delta")), None),
        (edited(lambda d: d["phases"][0].update(more=1)), None),
        (edited(lambda d: d["phases"][0].update(epsilon=-1)), ("epsilon", "range", -1)),
        (edited(lambda d: d["phases"][0].update(epsilon=math.nan)), ("epsilon", "range", math.nan)),
        (edited(lambda d: d.update(opened=[""])), ("name", "value", "")),
    ],
)
def test_json_that_is_no_ledger_is_refused(text, expected):
    with refused(*expected or ("text", "value", text)):
        Ledger.from_json(text)
