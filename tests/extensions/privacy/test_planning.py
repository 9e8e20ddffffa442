"""What a run settles before it starts: noise for all of it, and overflow that leaves an epsilon."""

import math
from typing import Any

import pytest

from extensions.privacy.accounting import NEIGHBOURS, Ledger
from extensions.privacy.planning import Phase, Target, allowed_overflow, plan
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, capacity
from tests.helpers.refused import refused

DELTA = 1e-5
STEPS: dict[str, Any] = {"steps": 120, "sample_rate": 0.1}
NONE: dict[str, Any] = {"noise_multiplier": 0.0}


def target(**settings: Any) -> Target:
    return Target(**{"delta": DELTA, "neighbours": "add-remove", "calibration": "pld"} | settings)


def spent(phases: tuple[Phase, ...], settled: Any, delta: float = DELTA) -> list[float]:
    """Epsilon of all phases for each kind of neighbours, as a run's ledger tells it."""
    noises, overflow = settled
    ledger = Ledger()
    for number, (phase, noise) in enumerate(zip(phases, noises, strict=True)):
        ledger.record(
            f"phase {number}",
            noise_multiplier=noise,
            sample_rate=phase.sample_rate,
            steps=phase.steps,
            overflow_probability=overflow + phase.overflow_probability,
        )
    return [ledger.get_epsilon(delta, neighbours=each) for each in NEIGHBOURS]


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-5), (0.5, 1e-6)])
def test_usual_runs_overflow_as_rarely_as_ever(epsilon, delta):
    phases = (Phase(**STEPS, **NONE, epsilon=epsilon),)
    _, overflow = plan(phases, target(delta=delta))
    assert overflow == OVERFLOW_PROBABILITY


@pytest.mark.parametrize("noise", [{"epsilon": 10.0}, {"noise_multiplier": 0.5}])
def test_overflow_leaves_both_epsilons_where_there_is_little_noise(noise):
    phases = (Phase(**STEPS, **NONE | noise),)
    settled = plan(phases, target())
    added, replaced = spent(phases, settled)
    assert added < replaced < math.inf
    assert 0 < settled[1] * (1 + math.exp(replaced)) < 0.06 * DELTA
    if "epsilon" in noise:
        assert 0.999 * noise["epsilon"] < added <= noise["epsilon"]


def test_a_small_delta_is_enough():
    phases = (Phase(**STEPS, **NONE, epsilon=2.0),)
    added, replaced = spent(phases, plan(phases, target(delta=1e-11)), 1e-11)
    assert 1.999 < added <= 2.0 < replaced < 5.0


def test_without_protection_there_is_nothing_to_weigh():
    assert allowed_overflow(epsilon=math.inf, delta=DELTA) == OVERFLOW_PROBABILITY
    noises, overflow = plan((Phase(**STEPS, noise_multiplier=0.0),), target())
    assert (noises, overflow) == ((0.0,), OVERFLOW_PROBABILITY)


def test_where_no_probability_is_small_enough_there_is_room_for_all_records():
    assert allowed_overflow(epsilon=1e5, delta=DELTA) == 0.0
    phases = (Phase(**STEPS, noise_multiplier=0.05),)
    settled = plan(phases, target())
    assert settled[1] == 0.0
    assert spent(phases, settled)[1] < math.inf
    assert capacity(400, 0.1, 0.0) == 400
    assert capacity(400, 0.1, 1e-30) < 400


def test_two_phases_meet_the_target_of_both_together():
    local = Phase(steps=10, sample_rate=0.2, **NONE, epsilon=0.5)
    joint = Phase(steps=20, sample_rate=0.2, **NONE, epsilon=2.0, overflow_probability=1e-8)
    settled = plan((local, joint), target())
    assert 1.999 < spent((local, joint), settled)[0] <= 2.0
    assert 0.4995 < spent((local,), (settled[0][:1], settled[1]))[0] <= 0.5


def test_a_phase_that_takes_all_is_refused():
    local = Phase(steps=30, sample_rate=0.1, noise_multiplier=0.6)
    with refused("epsilon", "value", value=2.0):
        plan((local, Phase(**STEPS, **NONE, epsilon=2.0)), target())


def test_noise_that_fails_too_often_is_refused():
    """Nothing of delta is left for epsilon 20, whatever the batches' rows."""
    phase = Phase(**STEPS, **NONE, epsilon=20.0, overflow_probability=1e-9)
    with refused("overflow_probability", "value", value=1e-09):
        plan((phase,), target())


@pytest.mark.parametrize("noise", [{"epsilon": 2.0}, {"noise_multiplier": 3.0}])
@pytest.mark.parametrize("calibration", ["pld", "rdp"])
def test_a_delta_below_what_the_report_can_tell_is_refused(noise, calibration):
    with refused("delta", "value", value=1e-14):
        plan((Phase(**STEPS, **NONE | noise),), target(delta=1e-14, calibration=calibration))
