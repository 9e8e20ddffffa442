"""Accuracy and latency of federated learning: the commands at small size, and what they rest on."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import fl
from benchmarks import tables
from benchmarks.__main__ import Benchmarks
from benchmarks.federated.accuracy import table as published
from benchmarks.federated.accuracy.command import Sitting, last_target
from benchmarks.federated.accuracy.experiments import (
    METHODS,
    MODELS,
    PARTITIONS,
    Experiment,
    Size,
    run,
)
from benchmarks.federated.accuracy.li2021 import LOGS, TABLE_III, PublishedLaplace
from benchmarks.federated.accuracy.table import LOGGED, TARGETS
from benchmarks.federated.links import simulated
from benchmarks.federated.privacy.quick_noise import QuickLocalDP
from benchmarks.federated.schemes import SCHEMES, Scheme, machines_of
from fl.protocols import SERVER, Round
from fl.round.latency import star_seconds
from fl.simulation import InProcessTransport, Link, Network
from tests.benchmarks.formulas import Formulas
from tests.helpers.mnist_files import write_digits
from tests.helpers.refused import refused

FALSE_ALARM = 1e-8


@pytest.fixture
def results(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "results"
    monkeypatch.setattr(tables, "RESULTS", folder)
    return folder


def recorded(path: Path) -> dict:
    return json.loads(path.read_text())


# Accuracy.


@pytest.fixture
def digits(tmp_path) -> Path:
    """The digits, enlarged, as files of MNIST."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    write_digits(folder)
    return folder


@pytest.mark.long
def test_accuracy_of_a_part_is_recorded_beside_that_of_the_whole(results, digits, tmp_path):
    theirs = tmp_path / "theirs.json"
    theirs.write_text(json.dumps({"mlp": {"iid": {"FedAvg": {"95": 7, "99": 18}}}}))
    part = ("--model", "mlp", "--partition", "iid", "--rounds", "3", "--local-epochs", "10")
    part += ("--workers", "1", "--record")
    Benchmarks.call(
        "benchmarks", "fl-accuracy", *part, "--data-dir", str(digits), "--published", str(theirs)
    )
    name = "fl-accuracy-mlp-iid-3-rounds-10-local-epochs"
    assert {path.name for path in results.iterdir()} == {f"{name}.json"}
    written = recorded(results / f"{name}.json")
    rows, samples = written["rows"], written["samples"]
    assert [row["method"] for row in rows] == list(METHODS)
    for row, sample in zip(rows, samples, strict=True):
        curve = sample["accuracies"]
        assert len(curve) == row["rounds"] == 3
        assert row["accuracy, %"] == curve[-1]
        for target in TARGETS:
            at_least = [n for n, found in enumerate(curve, start=1) if found >= target]
            assert row[f"rounds to {target} %"] == (at_least[0] if at_least else "-")
    plain, chain, loose, tight, *as_published = rows
    assert plain["accuracy, %"] > 60
    pairs = zip(samples[0]["accuracies"], samples[1]["accuracies"], strict=True)
    assert chain["furthest from FedAvg"] == max(abs(a - b) for a, b in pairs)
    # Of 297 test records the fixed point may move two.
    assert chain["furthest from FedAvg"] < 100 * 3 / 297
    assert chain["virtual s a round"] > 2 * plain["virtual s a round"]
    assert chain["MB a round"] > 1.4 * plain["MB a round"]
    assert plain["epsilon"] == chain["epsilon"] == "infinite"
    assert loose["epsilon"] == 8 * tight["epsilon"]
    assert tight["epsilon"] in (1.0, 2.0, 3.0)
    assert max(loose["accuracy, %"], tight["accuracy, %"]) < plain["accuracy, %"] - 20
    assert [row["epsilon"] for row in as_published] == ["infinite"] * 2
    assert [row["published"] for row in rows] == ["95 %: 7, 99 %: 18", *["-"] * 5]
    here = Experiment(
        model="mlp",
        partition="iid",
        method=METHODS[-1],
        size=Size(rounds=3, local_epochs=10, records=60_000, test_every=1),
        lr=0.1,
        seed=0,
        clip=0.01,
        exact_noise=False,
        data_dir=digits,
    )
    assert run(here).accuracies == samples[-1]["accuracies"]


def test_seeded_noise_has_the_law_of_local_dp():
    """Fails by chance with probability 1e-8: the draws of `fl.LocalDP` alone have no seed."""
    size, how = 20_000, {"epsilon": 8.0, "clip": 0.5}
    seeded = QuickLocalDP(noise="laplace", seed=3, **how)
    exact = fl.LocalDP(noise="laplace", **how)
    round = Round(number=2, size=size, weights={4: 1, 5: 1})
    zero = np.zeros(size)
    noise, other = (seeded.client(zero, round, client) for client in (4, 5))
    law = stats.laplace(scale=2 * 0.5 / 8)
    for draws in (noise, other):
        assert stats.kstest(draws, law.cdf).pvalue > FALSE_ALARM
    assert stats.ks_2samp(noise, exact.client(zero, round, 4)).pvalue > FALSE_ALARM
    assert stats.kstest(noise, stats.laplace(scale=2 * 0.6 / 8).cdf).pvalue < FALSE_ALARM
    assert abs(np.corrcoef(noise, other)[0, 1]) < 6 / np.sqrt(size)
    update = np.linspace(-1.0, 1.0, size)
    clipped = seeded.client(update, round, 4) - noise
    np.testing.assert_allclose(clipped, update * (0.5 / np.abs(update).sum()), atol=1e-15)
    small = update / 1e6
    np.testing.assert_allclose(seeded.client(small, round, 4) - noise, small, atol=1e-15)
    for mechanism in (seeded, exact):
        mechanism.charge(round, 100)
    assert seeded.ledger.get_epsilon(1e-5) == exact.ledger.get_epsilon(1e-5) == 8.0


def test_published_noise_has_the_scale_of_their_code_and_spares_biases():
    """The noise is of a fixed seed, and so is the outcome."""
    model = fl.models.mlp(hidden=100)
    sizes = [entry.numel() for entry in model.parameters()]
    ends = np.cumsum(sizes)
    how = {"rounds": 40, "local_epochs": 5, "seed": 2}
    loose, tight = (PublishedLaplace(model, epsilon=epsilon, **how) for epsilon in (8.0, 1.0))
    round = Round(number=3, size=ends[-1], weights={1: 1, 2: 1})
    weights = np.random.default_rng(1).normal(0.0, 0.1, ends[-1])
    layers = np.split(weights, ends[:-1])
    for mechanism, epsilon in ((loose, 8.0), (tight, 1.0)):
        sent = mechanism.client(weights, round, 1)
        noise = np.split(sent - weights, ends[:-1])
        for layer, drawn, shape in zip(
            layers, noise, (p.shape for p in model.parameters()), strict=True
        ):
            if len(shape) == 1:
                assert not drawn.any()
            else:
                scale = 2 * np.abs(layer).max() * 5 / (40 * epsilon)
                assert stats.kstest(drawn, stats.laplace(scale=scale).cdf).pvalue > 1e-4
                assert stats.kstest(drawn, stats.laplace(scale=2 * scale).cdf).pvalue < 1e-4
        assert np.array_equal(mechanism.client(weights, round, 1), sent)
        assert not np.array_equal(mechanism.client(weights, round, 2), sent)
    assert loose.ledger is None


def test_rounds_of_the_published_logs():
    assert set(LOGS) == set(itertools.product(MODELS, PARTITIONS))
    assert all(len(curve) == 50 for curve in LOGS.values())
    # The last rounds are those of the repository's second table.
    last = {run: curve[-1] for run, curve in LOGS.items()}
    assert [last["mlp", "iid"], last["mlp", "shards"]] == [93.49, 87.83]
    assert [last["cnn", "iid"], last["cnn", "shards"]] == [98.54, 96.30]
    assert LOGGED["mlp", "iid", "chain"] == {80: 3, 90: 10, 92: 24}
    assert LOGGED["mlp", "shards", "chain"] == {80: 10, 90: 43}
    assert LOGGED["cnn", "iid", "chain"] == {80: 1, 90: 2, 92: 3, 95: 5, 98: 24}
    assert LOGGED["cnn", "shards", "chain"] == {80: 9, 90: 15, 92: 15, 95: 31}


def test_rounds_of_the_published_table():
    assert set(TABLE_III) == set(itertools.product(MODELS, PARTITIONS, ("FedAvg", "chain"))) | set(
        itertools.product(MODELS, PARTITIONS, METHODS[-2:])
    )
    assert {target for rounds in TABLE_III.values() for target in rounds} <= set(TARGETS)
    assert TABLE_III["cnn", "iid", METHODS[-1]] == {99: 300}
    assert TABLE_III["mlp", "shards", METHODS[-2]] == {92: 200}
    assert last_target(TABLE_III, "cnn", "shards") == 98
    assert last_target({}, "cnn", "shards") is None


def test_a_run_in_sittings_is_the_run_at_once_and_ends_at_its_target(digits, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, "mlp", fl.models.logistic)
    whole = Experiment(
        model="mlp",
        partition="iid",
        method="chain",
        size=Size(rounds=4, local_epochs=2, records=60_000, test_every=1),
        lr=0.1,
        seed=0,
        clip=0.01,
        exact_noise=False,
        data_dir=digits,
    )
    at_once = run(whole).accuracies
    assert len(at_once) == 4
    kept = replace(whole, kept=tmp_path / "run.npz")
    first = run(replace(kept, until=at_once[1]))
    reached = next(n for n, found in enumerate(at_once, 1) if found >= at_once[1])
    assert first.accuracies == at_once[:reached]
    assert run(replace(kept, ends=0.0)).accuracies == at_once[:reached], "no time: no round"
    assert run(kept).accuracies == at_once
    with refused("lr", "value", value=0.2):
        run(replace(kept, lr=0.2))
    with refused("minutes", "conflict", value=3.0):
        Sitting(minutes=3.0)


@pytest.mark.parametrize(
    ("text", "named", "code", "value"),
    [
        ("{", "published", "file", "theirs.json"),
        ("[]", "published: model", "file", []),
        ('{"vgg": {}}', "published: model", "choice", "vgg"),
        ('{"cnn": {"even": {}}}', "published: partition", "choice", "even"),
        ('{"cnn": {"iid": {"chains": {}}}}', "published: method", "choice", "chains"),
        ('{"cnn": {"iid": {"chain": {"96": 1}}}}', "published: target", "choice", "96"),
        ('{"cnn": {"iid": {"chain": {"98": 0}}}}', "published: rounds", "range", 0),
    ],
)
def test_a_file_of_published_rounds_of_another_form_is_refused(tmp_path, text, named, code, value):
    path = tmp_path / "theirs.json"
    path.write_text(text)
    with refused(named, code, value):
        published.read(path, MODELS, PARTITIONS, METHODS, TARGETS)


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("model", "vgg", "choice"), ("partition", "even", "choice"), ("device", "cuda:99", "value")],
)
def test_a_part_or_a_device_that_does_not_exist_is_refused(results, name, value, code):
    with refused(name, code, value):
        Benchmarks.call("benchmarks", "fl-accuracy", f"--{name}", value)
    assert not results.exists()


# Latency.


def uneven(clients: int) -> Network:
    """Returns links each of which has a delay and a rate of its own."""
    draws = np.random.default_rng(clients)
    pairs = itertools.permutations([*range(clients), SERVER, -2, -3], 2)
    links = {
        pair: Link(delay=draws.uniform(0.01, 0.1), bandwidth=draws.uniform(1e4, 1e6))
        for pair in pairs
    }
    return Network(links=links)


OF_FORMULAS = [scheme for scheme in SCHEMES if scheme.title not in ("masked", "Paillier")]
SHORT = ("plain", "one chain, 32 bits")
"""Whose values take four bytes; those of the others take eight."""


def beside_the_formula(
    scheme: Scheme, network: Network, training: dict[int, float], size: int
) -> tuple[float, float, float]:
    """Returns seconds as they were, by the formula, and of all else that is on the way."""
    outcome = InProcessTransport(network).run(machines_of(scheme, training, size))
    payload = size * (4 if scheme.title in SHORT else 8)
    formula, words = Formulas(network, outcome.transcript, training, payload).seconds()
    return outcome.seconds, formula, words


@pytest.mark.parametrize("scheme", OF_FORMULAS, ids=lambda scheme: scheme.title)
@pytest.mark.parametrize("slowest", [0.0, 2.0, 30.0])
def test_a_round_takes_what_the_formula_says_and_at_most_its_words_more(scheme, slowest):
    clients, size = 12, 2000
    draws = np.random.default_rng(7)
    training = dict(enumerate(draws.uniform(0.0, slowest, clients)))
    for network in (*[uneven(clients)] * 8, simulated("lan"), simulated("wan")):
        measured, formula, words = beside_the_formula(scheme, network, training, size)
        assert -1e-9 < measured - formula <= words + 1e-9
    edges = "edge" in scheme.title
    assert words < (0.042 if edges else 0.002), "two delays of the WAN, and small messages"


def test_all_that_a_chain_takes_beyond_the_formula_is_its_words():
    """All have trained before, and keys come before tokens: then each byte on the way counts."""
    chain = next(scheme for scheme in SCHEMES if scheme.title == "one chain")
    training = dict.fromkeys(range(9), 0.0)
    slow = Network(
        server=Link(delay=0.02, bandwidth=1e5),
        peers=Link(bandwidth=5e4),
    )
    measured, formula, words = beside_the_formula(chain, slow, training, 500)
    assert measured == pytest.approx(formula + words, rel=1e-12)
    assert words > 0.01 * formula
    even = simulated("wan")
    measured, formula, words = beside_the_formula(chain, even, training, 500)
    star = star_seconds([(even.server, 500 * 8)] * 9)
    assert formula == pytest.approx(10 * star, rel=1e-12)
    assert measured > star + words


def test_latency_is_recorded_with_processor_time(results):
    Benchmarks.call(
        "benchmarks", "fl-latency", "--clients=11", "--clients=16", "--values=300", "--record"
    )
    suffix = "-11-16-clients-300-values"
    written = recorded(results / f"fl-latency{suffix}.json")
    rows = {(row["links"], row["training"], row["scheme"]): row for row in written["rows"]}
    assert len(rows) == 2 * 2 * len(SCHEMES)
    for (_, training, scheme), row in rows.items():
        if scheme == "Paillier":
            assert row["11 clients, s"] == row["16 clients, s"] == "-"
            continue
        assert row["11 clients, s"] > (5.0 if training == "stragglers" else 1.0)
    wan = {scheme.title: rows["WAN", "equal", scheme.title] for scheme in SCHEMES}
    growth = wan["one chain"]["16 clients, s"] - wan["one chain"]["11 clients, s"]
    assert growth == pytest.approx(5 * (0.020 + 300 * 8 / 12.5e6), rel=0.01)
    assert wan["plain"]["16 clients, s"] == pytest.approx(wan["plain"]["11 clients, s"], rel=1e-6)
    assert wan["4 chains"]["16 clients, s"] < wan["one chain"]["11 clients, s"]
    of_cpu = recorded(results / f"fl-cpu{suffix}.json")["rows"]
    assert [row["scheme"] for row in of_cpu] == [scheme.title for scheme in SCHEMES]
    for row in of_cpu[:-1]:
        assert row["11 clients, CPU s"] > 0.0
        assert row["11 clients, MB"] < row["16 clients, MB"]
