"""Sweeps of federated DP and of SignDS: epsilon and noise in their tables, recomputed."""

import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from scipy.stats import norm
from torch import nn

import fl
from benchmarks import tables as recorded
from benchmarks.__main__ import Benchmarks
from benchmarks.federated import running
from benchmarks.federated.privacy import signds
from benchmarks.federated.privacy.dp import STARTS
from benchmarks.federated.privacy.quick_noise import QuickLocalDP
from benchmarks.federated.privacy.signds import Sign
from benchmarks.federated.running import DELTA, FRACTION, Setting, Size, perform
from fl.protocols import Round, aggregate
from tests.helpers.mnist_files import write_digits
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, variance_p_value

# The papers' runs have an epsilon of 100.
pytestmark = pytest.mark.filterwarnings("ignore::extensions.errors.PrivacyWarning")


def linear() -> nn.Module:
    """Returns a model of 7,850 values, for SignDS."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def pooled() -> nn.Module:
    """Returns a model of 500 values, for which exact noise is quick."""
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(49, 10))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """The digits, enlarged, as files of MNIST."""
    folder = tmp_path_factory.mktemp("mnist")
    write_digits(folder)
    return folder


@pytest.fixture
def run(data_dir, tmp_path, monkeypatch):
    """Runs a command on the digits with a linear model; returns its tables by name."""
    monkeypatch.setattr(recorded, "RESULTS", tmp_path)

    def tables(*words: str) -> dict[str, list[dict]]:
        monkeypatch.setitem(running.MODELS, "mlp", pooled if words[0] == "fl-dp" else linear)
        options = ["--data-dir", str(data_dir), "--workers", "1", "--seeds", "1"]
        Benchmarks.call("benchmarks", *words, *options, "--record")
        return {path.stem: json.loads(path.read_text())["rows"] for path in tmp_path.glob("*.json")}

    return tables


def exact_delta(epsilon: float, sigma: float) -> float:
    """Of Gaussian noise, by the closed form of Balle and Wang (2018), Theorem 8."""
    half = 1 / (2 * sigma)
    lost = math.exp(epsilon + norm.logcdf(-half - epsilon * sigma))
    return norm.cdf(half - epsilon * sigma) - lost


def sampled_delta(epsilon: float, sigma: float, rate: float) -> float:
    """Of one Poisson-sampled Gaussian release, for a client that is taken away, by its integral."""
    edge = sigma**2 * math.log((math.exp(epsilon) - 1 + rate) / rate) + 0.5
    without, within = norm.sf(edge / sigma), norm.sf((edge - 1) / sigma)
    return (1 - rate) * without + rate * within - math.exp(epsilon) * without


def composed(sigma: float, rounds: int) -> float:
    accountant = pld.PLDAccountant()
    gaussian = dp_accounting.GaussianDpEvent(sigma)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(FRACTION, gaussian), rounds)
    return accountant.get_epsilon(DELTA)


@pytest.mark.long
def test_epsilons_of_the_noise_sweep_are_those_of_the_accountant_and_of_the_closed_form(run):
    tables = run("fl-dp", "--part", "sigma", "--clients", "50", "--rounds", "12")
    assert list(tables) == ["fl-dp-sigma-12-rounds-50-clients"]
    plain, *rows = tables.popitem()[1]
    assert (plain["sigma"], plain["epsilon"]) == (0.0, "infinite")
    for row in rows:
        sigma = row["sigma"]
        if sigma in (0.5, 4.0):
            assert row["epsilon"] == pytest.approx(composed(sigma, 12), rel=2e-3)
        assert row["epsilon by RDP"] > row["epsilon"]
        sampled = sampled_delta(row["one round, sampled"], sigma, FRACTION)
        assert sampled == pytest.approx(DELTA, rel=5e-3)
        assert exact_delta(row["one round, analytic"], sigma) == pytest.approx(DELTA, rel=5e-3)
        claimed = row["one round, classical"]
        assert sigma * claimed == pytest.approx(math.sqrt(2 * math.log(1.25 / DELTA)))
        assert (claimed < row["one round, analytic"]) == (sigma == 0.5)
    # Five clients a round drown in noise of eight bounds: 11 % with a deviation of 5 in 40 runs.
    assert plain["accuracy, %"] > 70
    assert rows[-1]["accuracy, %"] < 50


def test_adaptive_bounds_move_and_cost_what_fixed_ones_do(run):
    (rows,) = run("fl-dp", "--part", "clip", "--clients", "500", "--rounds", "2").values()
    assert len({row["epsilon"] for row in rows}) == 1
    for row in rows:
        fixed = row["clipping"] == "fixed"
        assert (row["C at last"] == row["C at first"]) == fixed
    adaptive = [row for row in rows if row["clipping"] == "adaptive"]
    assert [row["C at first"] for row in adaptive] == list(STARTS)


def test_one_update_of_local_noise_costs_its_epsilon(run):
    (rows,) = run("fl-dp", "--part", "local", "--clients", "30", "--rounds", "1").values()
    for row in rows:
        assert row["epsilon of a client"] == pytest.approx(row["epsilon of one update"], rel=2e-3)
        noise = row["sigma"] / 2  # two updates lie within twice the bound
        delta = exact_delta(row["epsilon of one update"], noise)
        assert delta == pytest.approx(DELTA, rel=1e-3)


def test_quick_noise_has_the_law_of_local_dp():
    quick = QuickLocalDP(epsilon=2.0, delta=DELTA, clip=0.5)
    size = 10_000
    update = np.zeros(size)
    update[0] = 3.0
    noise = quick.client(update, Round(number=1, size=size, weights={0: 1}), 0)
    noise[0] -= 0.5
    assert variance_p_value(noise, quick.scale**2) > ALARM
    assert variance_p_value(noise, (0.9 * quick.scale) ** 2) < ALARM
    assert quick.scale == fl.LocalDP(epsilon=2.0, delta=DELTA, clip=0.5).scale


def test_signds_is_charged_for_every_round_and_is_less_accurate_with_a_small_epsilon(run):
    options = ("--clients", "30", "--rounds", "8")
    (rows,) = run("fl-signds", "--part", "epsilon", *options).values()
    plain, *others = rows
    assert plain["mechanism"] == "FedAvg"
    assert plain["epsilon of that client"] == "infinite"
    for row in others:
        one, rounds = row["epsilon of one update"], row["most rounds of a client"]
        assert 1 <= rounds <= 8
        if row["mechanism"] == "SignDS":
            assert one <= row["epsilon of that client"] <= one * rounds
            assert (row["epsilon of that client"] == one) == (rounds == 1)
        elif row["mechanism"] == "SignDS, not private":
            assert row["epsilon of that client"] == "infinite"
    assert plain["accuracy, %"] > 80
    # At epsilon 1 they guess: 10 to 11 % with deviations of at most 5 in 30 runs each.
    assert all(r["accuracy, %"] < 50 for r in others if r["epsilon of one update"] == 1.0)


def test_parameters_vary_one_at_a_time(run):
    (rows,) = run("fl-signds", "--part", "parameters", "--clients", "20", "--rounds", "1").values()
    usual = fl.SignDS().selection(7850)
    for row in rows:
        changed = (row["selected"] != usual.selected) + (row["sign_global_lr"] != 1.0)
        assert changed == (row is not rows[3])
    assert [row["selected"] for row in rows[:3]] == [5, 20, 50]
    assert rows[3]["of the top k, %"] == pytest.approx(100 * usual.mean / usual.selected)


def test_sizes_have_both_mechanisms_at_both_epsilons(run, monkeypatch):
    monkeypatch.setattr(signds, "SIZES", ("mlp",))
    tables = run("fl-signds", "--part", "size", "--clients", "20", "--rounds", "1")
    (rows,) = tables.values()
    assert list(tables) == ["fl-signds-size-mlp-1-rounds-20-clients"]
    assert {row["dimensions"] for row in rows} == {7850}
    found = [(row["mechanism"], row["epsilon of one update"], row["C"]) for row in rows]
    noised = [("LocalDP", e, c) for e, some in signds.BOUNDS.items() for c in some]
    assert found == [
        ("FedAvg", "infinite", "-"),
        *(("SignDS", epsilon, "-") for epsilon in (10.0, 100.0)),
        *noised,
    ]


def test_signs_that_are_not_private_are_all_of_the_top():
    setting = Sign(clients=1, sign_k=0.1, sign_dim_out=20, sign_global_lr=0.5, private=False)
    update = np.random.default_rng(0).normal(size=1000)
    sent = setting.mechanism().client(update, Round(number=1, size=1000, weights={0: 1}), 0)
    (selected,) = np.nonzero(sent)
    assert len(selected) == 20
    (value,) = set(sent[selected])
    assert abs(value) == 0.5
    assert np.all(np.sign(value) * update[selected] >= np.sort(np.sign(value) * update)[-100])


AGGREGATORS = [fl.PlainAggregator, fl.MaskedAggregator, fl.ChainAggregator, fl.PaillierAggregator]


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_bytes_are_those_of_places_and_values_or_of_a_whole_row(aggregator):
    size, mechanism = 300, fl.SignDS()
    round = Round(number=1, size=size, weights=dict.fromkeys(range(10), 1))
    draws = np.random.default_rng(0)
    updates = {k: mechanism.client(draws.normal(size=size), round, k) for k in round.clients}
    transcript = aggregate(aggregator(), updates).transcript
    sent = sum(transcript.bytes(sender=client) for client in round.clients) / 10
    sparse = aggregator is fl.PlainAggregator
    least = 8 * mechanism.selection(size).selected if sparse else 2 * size
    assert least <= sent
    assert sent < least + 100 or not sparse


@pytest.mark.long
def test_workers_do_not_change_a_run_and_equal_settings_run_once(data_dir):
    settings = [Setting(clients=10), Setting(clients=20), Setting(clients=10)]
    size = Size(model="mlp", rounds=2, epochs=1, batch_size=10, lr=0.1)
    one, two = (
        perform(settings, size, data_dir=data_dir, seeds=2, workers=workers) for workers in (1, 2)
    )
    assert one.keys() == two.keys() == set(settings)
    found = [[run.accuracies for run in runs] for runs in one.values()]
    assert found == [[run.accuracies for run in runs] for runs in two.values()]
    assert found[0][0] != found[0][1] != found[1][1]


def test_wrong_arguments_are_refused_before_anything_runs(run, tmp_path):
    for command in ("fl-dp", "fl-signds"):
        with refused("part", "choice", value="all"):
            run(command, "--part", "all")
    with refused("clients", "range", value=1600):
        run("fl-dp", "--part", "sigma", "--clients", "1600")
    with refused("count_noise", "range", value=0.25):
        run("fl-dp", "--part", "clip", "--clients", "50")
    assert list(tmp_path.iterdir()) == []
