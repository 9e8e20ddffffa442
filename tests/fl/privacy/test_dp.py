"""Local and central differential privacy: exact sensitivities, exact noise, and what is charged.

Statistics come with their false-alarm probability (`ALARM` each).
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

import fl
from extensions.errors import ArgumentError, PrivacyWarning
from extensions.privacy.accounting import Ledger, epsilon
from fl.privacy.clipping import clip_to_grid
from fl.privacy.local_dp import LAPLACE_TAIL, analytic_noise, discrete_laplace, gaussian_delta
from fl.protocols import ClientLedgers, Mechanism, Round
from fl.weights import get_weights
from tests.helpers.federated.digits import SIZE, linear, run_on_digits
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    ALARM,
    MAGNITUDES,
    count_p_value,
    directions,
    histogram_p_value,
    variance_p_value,
)

DRAWS = 10_000


def round_of(*clients: int, size: int = SIZE) -> Round:
    return Round(number=1, size=size, weights=dict.fromkeys(clients, 1))


def discrete_delta(eps: float, scale: float, shift: int) -> float:
    """Exact delta of discrete Gaussian noise of that scale against that sensitivity, by sums."""
    edge = int(14 * scale)
    x = np.arange(-edge, edge + shift + 1, dtype=np.float64)
    mass, moved = np.exp(-(x**2) / (2 * scale**2)), np.exp(-((x - shift) ** 2) / (2 * scale**2))
    return float(np.maximum(0.0, moved - math.exp(eps) * mass).sum() / mass.sum())


# --- the analytic Gaussian mechanism ------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (1.0, 1e-9), (8.0, 1e-5), (50.0, 1e-3)]
)
def test_analytic_noise_is_the_least_that_exact_sums_over_the_grid_allow(eps, delta):
    noise = analytic_noise(eps, delta)
    for bits, error in ((10, 3e-5), (14, 1e-7)):
        shift = math.ceil(2**bits / noise)
        assert discrete_delta(eps, noise * shift, shift) <= delta * (1 + error)
        assert discrete_delta(eps, noise * shift * 0.999, shift) > delta * (1 + 100 * error / 30)


def test_analytic_noise_meets_the_published_asymptotes():
    assert analytic_noise(1e-4, 1e-3) == pytest.approx(
        1 / (2 * stats.norm.ppf(0.5 + 1e-3 / 2)), rel=0.05
    )  # at epsilon 0 delta is the total variation distance, 2 Phi(1 / 2s) - 1
    assert analytic_noise(900.0, 0.5) == pytest.approx(1 / math.sqrt(2 * 900.0), rel=0.01)


@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_formula_for_epsilon_below_one_overspends_there_and_fails_further_up(delta):
    def usual(eps: float) -> float:
        return math.sqrt(2 * math.log(1.25 / delta)) / eps

    assert usual(0.5) > 1.25 * analytic_noise(0.5, delta)
    assert usual(20.0) < 0.9 * analytic_noise(20.0, delta)
    assert gaussian_delta(20.0, usual(20.0)) > 20 * delta
    shift = math.ceil(2**10 / usual(20.0))
    assert discrete_delta(20.0, usual(20.0) * shift, shift) > 20 * delta


# --- clipping on the grid -----------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("frac_bits", [-3, 4, 24, 40])
def test_clipped_update_is_within_the_norm_in_exact_arithmetic(order, frac_bits):
    clip = 0.7 * 2.0 ** max(0, -frac_bits + 6)
    limit = Fraction(clip) * Fraction(2) ** frac_bits
    for size in (1, 7, 1000):
        for row in directions(size):
            row = row / np.linalg.norm(row, ord=order)
            for magnitude in MAGNITUDES:
                update = magnitude * clip * row
                units = clip_to_grid(update, clip, order=order, frac_bits=frac_bits)
                length = sum(abs(unit) ** order for unit in units.tolist())
                assert length <= limit**order
                if magnitude <= 0.998:
                    kept = np.ldexp(units.astype(float), -frac_bits)
                    assert np.all(np.abs(kept - update) < 2.0**-frac_bits)
                    assert np.all(np.abs(kept) <= np.abs(update))
                elif frac_bits >= 24:
                    least = min(1.0, magnitude) * (1 - 1e-4) * float(limit)
                    assert float(length) ** (1 / order) > least


def test_update_whose_norm_overflows_becomes_zero():
    assert not clip_to_grid(np.full(4, 1e200), 1.0, order=2, frac_bits=24).any()


# --- local differential privacy -----------------------------------------------------------------


def test_discrete_laplace_has_its_distribution():
    draws = discrete_laplace(1.5, (DRAWS,))
    ratio = math.exp(-1 / 1.5)
    mass = (1 - ratio) / (1 + ratio)
    chances = [mass * ratio ** abs(k) for k in range(-6, 7)]
    counts = [int((draws == k).sum()) for k in range(-6, 7)]
    tail = (1 - sum(chances)) / 2
    counts += [int((draws > 6).sum()), int((draws < -6).sum())]
    assert histogram_p_value(counts, [*chances, tail, tail]) > ALARM
    wrong = math.exp(-1 / 1.2)
    wrong_chances = [(1 - wrong) / (1 + wrong) * wrong ** abs(k) for k in range(-6, 7)]
    rest = (1 - sum(wrong_chances)) / 2
    assert histogram_p_value(counts, [*wrong_chances, rest, rest]) < ALARM
    assert not discrete_laplace(0.0, (3,)).any()
    for scale in (-1.0, math.nan, 2.0**62 / LAPLACE_TAIL):
        with refused("scale", "range", scale):
            discrete_laplace(scale, (3,))


def test_gaussian_noise_of_an_update_has_the_calibrated_variance():
    mechanism = fl.LocalDP(epsilon=2.0, delta=1e-5, clip=0.5)
    assert mechanism.scale == pytest.approx(2 * 0.5 * analytic_noise(2.0, 1e-5))
    update = np.zeros(DRAWS)
    update[0] = 3.0
    noise = mechanism.client(update, round_of(0, size=DRAWS), 0)
    noise[0] -= 0.5
    assert variance_p_value(noise, mechanism.scale**2) > ALARM
    assert variance_p_value(noise, (0.9 * mechanism.scale) ** 2) < ALARM


def test_laplace_noise_of_an_update_has_the_calibrated_scale():
    mechanism = fl.LocalDP(epsilon=4.0, clip=0.5, noise="laplace")
    assert mechanism.scale == 2 * 0.5 / 4.0
    noise = mechanism.client(np.zeros(DRAWS), round_of(0, size=DRAWS), 0)
    total = float(np.abs(noise).sum())  # of exponential variables, hence gamma-distributed
    for scale, fits in ((mechanism.scale, True), (0.9 * mechanism.scale, False)):
        law = stats.gamma(DRAWS, scale=scale)
        assert (2 * min(law.cdf(total), law.sf(total)) > ALARM) == fits


@pytest.mark.parametrize("options", [{"delta": 1e-5}, {"noise": "laplace"}])
def test_noise_is_fresh_whatever_seeds_are_set_and_lies_on_the_grid(options):
    mechanism = fl.LocalDP(epsilon=1.0, clip=1.0, **options)
    draws = []
    for client in (0, 0, 1):
        torch.manual_seed(5)
        np.random.seed(5)
        draws.append(mechanism.client(np.zeros(50), round_of(0, 1, size=50), client))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not np.any(draws[i] == draws[j])
    units = draws[0] * 2.0**20 / mechanism.scale  # 2^20 .. 2^21 units are one scale
    assert np.all(np.abs(units) < 2.0**27)
    grid = np.ldexp(draws[0], math.ceil(math.log2(2.0**20 / mechanism.scale)))
    np.testing.assert_array_equal(grid, np.rint(grid))


def test_ledger_of_each_client_composes_its_own_rounds():
    mechanism = fl.LocalDP(epsilon=1.0, delta=1e-5, clip=1.0)
    for clients in ((0, 1), (0,), (0,), (0,)):
        mechanism.charge(round_of(*clients), population=10)
    assert mechanism.ledger.clients == (0, 1)
    once = mechanism.ledger.of(1).get_epsilon(1e-5)
    assert once == pytest.approx(1.0, rel=1e-3)
    four = mechanism.ledger.of(0).get_epsilon(1e-5)
    exact = gaussian_delta(four, analytic_noise(1.0, 1e-5) / 2)  # four rounds are one of half noise
    assert 0.99e-5 < exact <= 1e-5
    assert mechanism.ledger.get_epsilon(1e-5) == four < 4 * once
    assert ClientLedgers().get_epsilon(1e-5) == 0.0
    again = ClientLedgers.from_json(mechanism.ledger.to_json())
    assert [again.of(k).phases for k in (0, 1)] == [mechanism.ledger.of(k).phases for k in (0, 1)]
    for text, code, value in (
        *(("[]", "file", "[]"), ("{", "file", "{")),
        *(('{"a": {}}', "value", "{}"), ('{"0": {}}', "value", "{}")),
    ):
        with refused("text", code, value):
            ClientLedgers.from_json(text)


@pytest.mark.parametrize(
    ("options", "argument", "code", "value"),
    [
        ({"epsilon": 0.0, "delta": 1e-5}, "epsilon", "range", 0.0),
        ({"epsilon": 2000.0, "delta": 1e-5}, "epsilon", "range", 2000.0),
        ({"epsilon": 1.0}, "delta", "range", 0.0),
        ({"epsilon": 1.0, "delta": 1.0}, "delta", "range", 1.0),
        ({"epsilon": 1.0, "delta": 1e-5, "noise": "laplace"}, "delta", "range", 1e-5),
        ({"epsilon": 1.0, "delta": 1e-5, "noise": "uniform"}, "noise", "choice", "uniform"),
        ({"epsilon": 1.0, "delta": 1e-5, "clip": 0.0}, "clip", "range", 0.0),
    ],
)
def test_wrong_local_settings_are_refused(options, argument, code, value):
    with refused(argument, code, value):
        fl.LocalDP(**{"clip": 1.0, **options})


def test_digits_are_learned_with_local_noise():
    with pytest.warns(PrivacyWarning, match="epsilon"):
        mechanism = fl.LocalDP(epsilon=50.0, delta=1e-3, clip=1.0)
    run = run_on_digits(mechanism, rounds=3, clients=25)
    assert run.history.accuracy > 0.4  # chance is 0.1; runs gave 0.69 to 0.77, sd 0.03
    noise = analytic_noise(50.0, 1e-3) / math.sqrt(3)
    assert 0.99e-3 < gaussian_delta(run.get_epsilon(1e-3), noise) <= 1e-3
    assert run_on_digits(Mechanism(), rounds=0).get_epsilon(1e-3) == math.inf


# --- central differential privacy ---------------------------------------------------------------


def shares_of(mechanism: fl.CentralDP, updates: list[np.ndarray]) -> tuple[Round, np.ndarray]:
    """Returns the round and the mean, as single precision carries the clients' values."""
    size = updates[0].size + mechanism.extra_values
    round = round_of(*range(len(updates)), size=size)
    rows = [mechanism.client(u, round, k).astype(np.float32) for k, u in enumerate(updates)]
    return round, np.mean(np.array(rows, dtype=np.float64), axis=0)


@pytest.mark.parametrize("clip", [2.0**-7, 0.3, 1.0, 100.0])
def test_server_adds_noise_to_the_exact_sum_and_divides_by_those_expected(clip):
    mechanism = fl.CentralDP(noise_multiplier=0.5, clip=clip, sampling="fixed")
    updates = list(np.random.default_rng(0).normal(size=(7, DRAWS)))
    mechanism.charge(round_of(*range(10)), population=10)
    round, mean = shares_of(mechanism, updates)
    bits = min(24, 24 - math.ceil(math.log2(clip)))
    exact = sum(clip_to_grid(u, clip, order=2, frac_bits=bits) for u in updates)
    np.testing.assert_array_equal(np.rint(np.ldexp(7 * mean, bits)).astype(np.int64), exact)
    released = 10 * mechanism.server(mean, round, tuple(range(7)))
    noise = released - np.ldexp(exact.astype(float), -bits)
    assert variance_p_value(noise, (0.5 * clip) ** 2) > ALARM
    assert variance_p_value(noise, (0.9 * 0.5 * clip) ** 2) < ALARM


def test_poisson_draws_are_fresh_and_filled_up_with_zeros():
    mechanism = fl.CentralDP(noise_multiplier=1.0, clip=1.0, min_clients=3)
    assert len(mechanism.select(1, 10, 1e-9)) == 3
    for client in mechanism.select(2, 10, 1e-9):
        assert not mechanism.client(np.ones(4), round_of(client, size=4), client).any()
    drawn = [mechanism.select(number, 1000, 0.3) for number in range(20)]
    assert count_p_value(sum(map(len, drawn)), 20_000, 0.3) > ALARM
    assert len({tuple(chosen) for chosen in drawn}) == 20
    assert mechanism.client(np.ones(4), round_of(0, size=4), drawn[-1][0]).any()
    with refused("min_clients", "range", value=3):
        mechanism.select(1, 2, 0.5)


def test_digits_are_learned_with_central_noise_and_poisson_rounds_are_charged():
    mechanism = fl.CentralDP(noise_multiplier=1.0, clip=1.0)
    run = run_on_digits(mechanism, rounds=4, client_fraction=0.5)
    assert run.history.accuracy > 0.4  # chance is 0.1; twelve runs gave 0.72 to 0.82, sd 0.03
    assert len({report.selected for report in run.history}) == 4
    expected = epsilon(noise_multiplier=1.0, sample_rate=0.5, steps=4, delta=1e-3)
    assert run.get_epsilon(1e-3) == expected


@pytest.mark.parametrize(
    "mechanism",
    [
        fl.CentralDP(noise_multiplier=1.0, clip=0.3, adaptive=fl.AdaptiveClipping(count_noise=2.0)),
        fl.LocalDP(epsilon=20.0, delta=1e-3, clip=0.3),
    ],
)
def test_mechanisms_compose_with_masks(mechanism, monkeypatch):
    sums = []
    server = mechanism.server

    def recorded(mean, round, included):
        sums.append(mean * len(included))
        return server(mean, round, included)

    monkeypatch.setattr(mechanism, "server", recorded)
    run = run_on_digits(
        mechanism, rounds=1, clients=4, aggregator=fl.MaskedAggregator(), exchange="delta"
    )
    assert run.history[0].included == (0, 1, 2, 3)
    assert 0.0 < run.get_epsilon(1e-3) < 60.0
    if mechanism.extra_values:  # the grid of 2^-24 went through the masks as it was
        units = np.ldexp(sums[0], 24)
        np.testing.assert_array_equal(units, np.rint(units))
        assert sums[0][-1] in np.arange(-2.0, 2.5)


def test_fixed_rounds_are_charged_to_those_selected():
    mechanism = fl.CentralDP(noise_multiplier=2.0, clip=1.0, sampling="fixed")
    run = run_on_digits(mechanism, rounds=3, clients=6, client_fraction=0.5)
    counts = {k: sum(k in report.selected for report in run.history) for k in range(6)}
    for client in mechanism.ledger.clients:
        (phase,) = mechanism.ledger.of(client).phases
        assert (phase.steps, phase.sample_rate) == (counts[client], 1.0)
    assert sum(counts.values()) == 9
    noise = 2.0 / math.sqrt(max(counts.values()))
    assert 0.99e-5 < gaussian_delta(run.get_epsilon(1e-5), noise) <= 1e-5


def test_clip_follows_the_quantile_and_costs_nothing_on_top():
    adaptive = fl.AdaptiveClipping(quantile=0.6, lr=0.5, count_noise=2.0)
    mechanism = fl.CentralDP(noise_multiplier=1.0, clip=0.1, sampling="fixed", adaptive=adaptive)
    updates = [np.array([float(k + 1)]) for k in range(100)]
    for _ in range(40):
        mechanism.charge(round_of(*range(100)), population=100)
        round, mean = shares_of(mechanism, updates)
        assert mechanism.server(mean, round, round.clients).shape == (1,)
    # Stationary noise of log C: sd 0.5 * 0.02 / sqrt(2 * 0.5 * 0.6) = 0.013; 50..72 is 14 of it.
    assert 50 < mechanism.clip < 72
    total = 1 / adaptive.noise_of_sum(1.0, 100) ** 2 + (0.5 / 2.0) ** 2
    assert total == pytest.approx(1.0)
    assert fl.AdaptiveClipping().noise_of_count(100.0) == 5.0
    assert mechanism.ledger.of(0).phases[0].noise_multiplier == 1.0
    noisy = fl.CentralDP(
        noise_multiplier=4.0, clip=1.0, sampling="fixed", adaptive=fl.AdaptiveClipping()
    )
    with refused("count_noise", "range", value=0.1):
        noisy.charge(round_of(0, 1), population=2)


def test_noise_of_the_count_has_its_variance():
    adaptive = fl.AdaptiveClipping(quantile=0.5, lr=1.0, count_noise=3.0)
    draws = []
    for _ in range(400):
        mechanism = fl.CentralDP(
            noise_multiplier=1.0, clip=1.0, sampling="fixed", adaptive=adaptive
        )
        mechanism.charge(round_of(0, 1, size=2), population=2)
        round, mean = shares_of(mechanism, [np.array([0.5]), np.array([2.0])])
        mechanism.server(mean, round, (0, 1))
        draws.append(-2 * math.log(mechanism.clip))  # one of two is within: the noise alone is left
    assert variance_p_value(draws, 9.0) > ALARM
    assert variance_p_value(draws, 9.0 * 0.5) < ALARM


def test_adaptive_run_goes_on_from_its_clip_and_ledger(tmp_path):
    def mechanism() -> fl.CentralDP:
        return fl.CentralDP(noise_multiplier=1.0, clip=0.5, adaptive=fl.AdaptiveClipping())

    first = run_on_digits(mechanism(), rounds=2, client_fraction=0.8)
    first.save(tmp_path / "run.npz")
    second = run_on_digits(mechanism(), rounds=0, client_fraction=0.8)
    second.load(tmp_path / "run.npz")
    assert second.mechanism.clip == first.mechanism.clip != 0.5
    assert second.get_epsilon(1e-3) == first.get_epsilon(1e-3) > 0.0
    assert isinstance(second.mechanism.ledger, Ledger)
    second.fit(1, progress=False)
    assert get_weights(second.model).size == get_weights(linear()).size == SIZE
    for text in ("", "{}", '{"ledger": 1, "clip": "a"}'):
        with pytest.raises(ArgumentError):
            mechanism().restore(text)


def test_no_rate_and_no_noise_takes_the_clipping_norm_out_of_double_precision():
    for lr in (1e6, 10.1, math.inf):
        with refused("lr", "range", lr):
            fl.AdaptiveClipping(lr=lr)
    adaptive = fl.AdaptiveClipping(lr=10.0, count_noise=1e9)
    for within in (-1e8, 1e8, -1e300):
        clip = 1.0
        for _ in range(20):
            clip = adaptive.next_clip(clip, within)
            assert 0.0 <= clip <= 2.0**100


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_a_ledger_with_releases_is_not_replaced_by_that_of_a_state(sampling, tmp_path):
    """Of a second run with the same mechanism, or of an earlier state of the same run."""
    mechanism = fl.CentralDP(noise_multiplier=1.0, clip=0.5, sampling=sampling)
    first = run_on_digits(mechanism, rounds=1)
    first.save(tmp_path / "run.npz")
    first.fit(2, progress=False)
    spent = first.get_epsilon(1e-3)
    for run in (run_on_digits(mechanism, rounds=0), first):
        before = run.mechanism.state(), get_weights(run.model), len(run.history)
        with refused("mechanism", "value", value="CentralDP"):
            run.load(tmp_path / "run.npz")
        after = run.mechanism.state(), get_weights(run.model), len(run.history)
        assert [before[0], before[2]] == [after[0], after[2]]
        np.testing.assert_array_equal(before[1], after[1])
    assert first.get_epsilon(1e-3) == spent


@pytest.mark.parametrize(
    ("make", "first", "changed"),
    [
        (fl.LocalDP, {"epsilon": 8.0, "delta": 1e-5, "clip": 1.0}, {"epsilon": 4.0}),
        (fl.LocalDP, {"epsilon": 8.0, "clip": 1.0, "noise": "laplace"}, {"clip": 2.0}),
        (fl.SignDS, {"sign_k": 0.1}, {"sign_dim_out": 3}),
        (fl.CentralDP, {"noise_multiplier": 1.0, "clip": 1.0}, {"adaptive": fl.AdaptiveClipping()}),
    ],
)
def test_run_does_not_go_on_with_a_mechanism_of_other_arguments(tmp_path, make, first, changed):
    path = tmp_path / "run.npz"
    run_on_digits(make(**first), rounds=0).save(path)
    run_on_digits(make(**first), rounds=0).load(path)
    (name,) = changed
    with refused(name, "value"):
        run_on_digits(make(**first | changed), rounds=0).load(path)


@pytest.mark.parametrize(
    ("argument", "code", "value"),
    [
        ("noise_multiplier", "range", 0.0),
        ("clip", "range", 1e-6),
        ("clip", "range", -1.0),
        ("sampling", "choice", "all"),
        ("min_clients", "range", 0),
        ("frac_bits", "range", 0),
    ],
)
def test_wrong_central_settings_are_refused(argument, code, value):
    with refused(argument, code, value):
        fl.CentralDP(**{"noise_multiplier": 1.0, "clip": 1.0, argument: value})
    with refused("quantile", "range", value=1.5):
        fl.AdaptiveClipping(quantile=1.5)
    with refused("weighting", "choice", value="records"):
        run_on_digits(fl.CentralDP(noise_multiplier=1.0, clip=1.0), rounds=0, weighting="records")
