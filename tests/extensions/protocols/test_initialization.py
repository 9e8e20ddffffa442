"""Local models: their noise, their cost beside the joint run's, and runs that start from them."""

import math
import re
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import dp_accounting as dp
import numpy as np
import pytest
from scipy.stats import chi2

from crypten_ext import nn
from crypten_ext.run.initialization import initialize as initialize_encrypted
from extensions.data.datasets import load_raw, split_among
from extensions.data.origin import FeatureExtraction
from extensions.layers.evaluation import count_misses
from extensions.layers.spec import ModelSpec
from extensions.privacy.accounting import NEIGHBOURS, Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, OwnRecords, check_records
from extensions.protocols.initialization import (
    MAX_NORM,
    candidates,
    first_smallest,
    initialize,
    number_of_candidates,
)
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, decode, encode
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_local_training, train_locally
from extensions.runs.manifest import comparable_settings
from tests.conftest import Pools
from tests.extensions.cli.test_cli_parties import parties_by_hand
from tests.helpers.commands import pea, report_of
from tests.helpers.refused import refused
from tests.helpers.rival_models import rivals
from tests.helpers.strategies import ALARM

TASK = "tests.helpers.party_tasks.initialization:start"
LOCAL: dict[str, Any] = {"init": "local", "noise_multiplier_init": 2.0}
JOINT: dict[str, Any] = {"noise_multiplier": 1.5, "delta": 1e-5}
linux = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


def config(**settings: Any) -> TrainConfig:
    return TrainConfig(**{"backend": "clear", **JOINT, **LOCAL, **settings})


def digits(parties: int) -> list[Any]:
    parts = split_among(load_raw("digits", None, 0), parties, "iid", 0)
    return FeatureExtraction(keep=False).extract(parts, lambda *_: None)


def records(rows: int, features: int, classes: int) -> OwnRecords:
    x = np.full((rows, features), 1.0 / math.sqrt(features))
    return check_records(
        x, np.arange(rows) % classes, frac_bits=20, classes=classes, max_feature_norm=1.0
    )


# --- one owner's model --------------------------------------------------------------------------


def test_a_local_model_bears_the_whole_noise_alone():
    """No record is drawn (probability 1e-5), so that the weights are lr / (q n) times the noise.

    Half of three parties' noise, what each of them adds to the joint sum, is rejected.
    """
    sigma, bound, n = 0.7, 2.0, 10
    settings = config(
        parties=3,
        noise_multiplier_init=sigma,
        max_grad_norm=bound,
        sample_rate=1e-6,
        init_steps=1,
        init_lr=1e-6 * n,
        classes=10,
    )
    ((weight, bias),) = train_locally(settings, records(n, 64, 10), owner=1, source=SystemSource())
    values = np.append(weight.ravel(), bias)
    statistic = float((values**2).sum() / (sigma * bound) ** 2)
    low, high = chi2.ppf([ALARM / 2, 1 - ALARM / 2], len(values))
    assert low < statistic < high
    assert not low < statistic / 2 < high


class Recording:
    """The system's source, which remembers whom it drew for."""

    def __init__(self) -> None:
        self.parties: set[int] = set()

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        self.parties.add(party)
        return SystemSource().gaussian(party, scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> np.ndarray:
        self.parties.add(party)
        return SystemSource().bernoulli(party, probability, size)


def test_local_training_has_draws_of_its_own():
    """A seed that is fixed for comparisons gives no two owners, and no joint step, the same."""
    source, settings = Recording(), config(classes=3, init_steps=1)
    drawn = []
    for owner in (0, 1, 63):
        source.parties.clear()
        train_locally(settings, records(9, 4, 3), owner=owner, source=source)
        drawn.append(frozenset(source.parties))
    assert all(len(parties) == 1 for parties in drawn)
    assert len(set(drawn)) == 3
    assert min(min(parties) for parties in drawn) >= 64


def test_a_local_model_that_drifts_far_is_scaled_down():
    settings = config(classes=3, init_steps=1, init_lr=1000.0, noise_multiplier_init=50.0)
    ((weight, bias),) = train_locally(settings, records(9, 4, 3), owner=0, source=SystemSource())
    assert math.hypot(np.linalg.norm(weight), np.linalg.norm(bias)) == pytest.approx(MAX_NORM)


# --- what it costs ------------------------------------------------------------------------------


def test_both_trainings_are_composed_as_dp_accounting_composes_them():
    settings = config(parties=3, steps=100, init_steps=30, sample_rate=0.1)
    ledger = Ledger()
    account_for_local_training(ledger, settings)
    (local,) = ledger.phases
    assert (local.noise_multiplier, local.sample_rate, local.steps) == (2.0, 0.1, 30)
    assert local.overflow_probability == OVERFLOW_PROBABILITY
    ledger.record("training", noise_multiplier=1.5, sample_rate=0.1, steps=100)

    def event(noise: float, steps: int) -> dp.DpEvent:
        step = dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(noise))
        return dp.SelfComposedDpEvent(step, steps)

    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-4)
    both = accountant.compose(event(2.0, 30)).compose(event(1.5, 100)).get_epsilon(1e-5)
    assert ledger.get_epsilon(1e-5) == pytest.approx(both, rel=2e-3)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_the_report_is_of_both_and_meets_the_target_of_the_whole_run(neighbours):
    settings = TrainConfig(
        backend="clear",
        **{"epsilon": 1.0, "delta": 1e-5, "init": "local", "epsilon_init": 0.7, "steps": 8},
        neighbours=neighbours,
    ).resolved()
    assert settings.local_steps == 2
    assert settings.delta == 1e-5
    report = train(settings, digits(3), lambda event: None)
    assert 0.999 < report["epsilon"] <= 1.0
    assert (report["neighbours"], report["delta"]) == (neighbours, 1e-5)
    assert report["epsilon_by_neighbours"][neighbours] == report["epsilon"]
    added, replaced = (report["epsilon_by_neighbours"][each] for each in NEIGHBOURS)
    assert 1.4 * added < replaced < 2.4 * added
    local = Ledger()
    account_for_local_training(local, settings)
    assert 0.699 < local.get_epsilon(1e-5, neighbours=neighbours) <= 0.7


def test_the_more_local_models_take_the_less_is_left():
    common = {"backend": "clear", "epsilon": 1.0, "delta": 1e-5, "steps": 8}
    plain = TrainConfig(**common).resolved()
    little, much = (
        TrainConfig(**common, init="local", epsilon_init=part).resolved() for part in (0.2, 0.7)
    )
    assert plain.noise_multiplier < little.noise_multiplier < much.noise_multiplier
    assert much.noise_multiplier_init < little.noise_multiplier_init


# --- runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "lr"), [("logistic", 5.0), ("mlp:16", 1.0)])
@pytest.mark.parametrize("init", ["local", "local-average", "local-accuracy"])
def test_runs_in_the_clear_start_from_local_models(model: str, lr: float, init: str):
    """The joint training is one tiny step, so that what is measured is the start: 0.93 or more."""
    settings = TrainConfig(
        backend="clear",
        **{"model": model, "private": False, "steps": 1, "lr": 1e-6},
        **{"init": init, "init_steps": 200, "init_lr": lr},
    )
    assert train(settings, digits(2), lambda event: None)["accuracy"] > 0.8


def test_local_models_are_compared_on_held_out_records_or_averaged():
    parts = [replace(p, test_x=p.test_x[:0], test_y=p.test_y[:0]) for p in digits(2)]
    usual = {"backend": "clear", "private": False, "steps": 1, "lr": 1e-6, "init_steps": 1}
    with refused("init", "choice", "local"):
        train(TrainConfig(**usual, init="local"), parts, lambda event: None)
    assert train(TrainConfig(**usual, init="local-average"), parts, lambda event: None)


@pytest.mark.parametrize("weighting", ["records", "uniform"])
def test_a_run_starts_from_the_average_that_it_was_asked_for(weighting: str):
    """One of two owners has 10 records; the one joint step moves weights by some ulps."""
    parts = digits(2)
    parts[1] = replace(parts[1], train_x=parts[1].train_x[:10], train_y=parts[1].train_y[:10])
    settings = TrainConfig(
        backend="clear",
        **{"private": False, "steps": 1, "lr": 1e-6, "parties": 2, "insecure_seed": 3},
        **{"init": "local-average", "init_steps": 5, "init_lr": 1.0},
        init_weighting=weighting,
    )
    report = train(settings, parts, lambda event: None)
    source, counts, models = InsecureSeededSource(3), [len(part.train_x) for part in parts], []
    for owner, part in enumerate(parts):
        own = check_records(
            part.train_x, part.train_y, frac_bits=20, classes=10, max_feature_norm=1.0
        )
        models += train_locally(settings, own, owner=owner, source=source)
    share = counts[0] / sum(counts) if weighting == "records" else 0.5
    (found,) = report["parameters"]
    for own, first, second in zip(found, *models, strict=True):
        np.testing.assert_allclose(own, share * first + (1 - share) * second, atol=2.0**-17)
    assert counts[0] > 600
    assert report["init_weighting"] == comparable_settings(settings)["init_weighting"] == weighting


def test_public_starts_are_zero_or_random():
    logistic = ModelSpec.parse("logistic", 6, 3)
    assert not np.any(logistic.initial_parameters()[0][0])
    assert not np.any(logistic.initial_parameters("zero")[0][0])
    random = logistic.initial_parameters("random")[0][0]
    assert 0.5 < np.abs(random).max() <= 1.0
    hidden = ModelSpec.parse("mlp:4", 6, 3)
    for own, other in zip(
        hidden.initial_parameters(), hidden.initial_parameters("random"), strict=True
    ):
        np.testing.assert_array_equal(own[0], other[0])


@pytest.mark.long
@linux
def test_secure_and_plaintext_runs_start_alike(tmp_path):
    """Equal noise: only rounding differs, which moves few of 359 predictions."""
    common = ("train", "--parties", 2, "--steps", 2, "--epsilon", 4, "--delta", 1e-5)
    common += ("--init", "local", "--epsilon-init", 2, "--init-steps", 8, "--lr", 0.5)
    common += ("--init-lr", 3, "--insecure-fixed-randomness", 3)
    reports = []
    for backend in ("crypten", "clear"):
        path = tmp_path / f"{backend}.json"
        done = pea(*common, "--backend", backend, "--json", path)
        assert done.returncode == 0, done.stderr
        reports.append(report_of(path))
    secure, clear = reports
    assert secure["rounds"] == 2 * 18 + 1 + 2 + 19
    assert secure["opened"] == ["the number of correct predictions on held-out records"]
    assert secure["epsilon"] == clear["epsilon"]
    assert 3.99 < secure["epsilon"] <= 4.0
    assert (secure["init"], secure["init_steps"]) == ("local", 8)
    assert secure["noise_multiplier_init"] == clear["noise_multiplier_init"] > 0
    assert abs(secure["accuracy"] - clear["accuracy"]) <= 0.01
    assert clear["accuracy"] > 0.4


@linux
@pytest.mark.long
def test_prepared_material_covers_the_start(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = ("--parties", 2, "--data", "digits", "--noise-multiplier", 1, "--delta", 1e-5)
    run += ("--steps", 2, "--init", "local-accuracy", "--epsilon-init", 1, "--init-steps", 3)
    done = pea("prepare", *run, "--out", tmp_path / "material")
    assert done.returncode == 0, done.stderr
    done = pea("train", *run, "--material", tmp_path / "material", "--json", tmp_path / "r.json")
    assert done.returncode == 0, done.stderr
    assert report_of(tmp_path / "r.json")["init"] == "local-accuracy"


@pytest.mark.long
@linux
def test_parties_started_by_hand_train_their_own_models(tmp_path):
    options = ("--steps", 2, "--init", "local", "--epsilon-init", 1)
    with ExitStack() as stack:
        for command in parties_by_hand(stack, tmp_path, 2, *options):
            done = command.finish()
            assert done.returncode == 0, done.stderr
    first, second = (report_of(tmp_path / f"report-{rank}.json") for rank in range(2))
    for each in (first, second):
        del each["seconds"], each["phases"]
    assert first == second
    assert first["rounds"] == 2 * 18 + 1 + 2 + 19


# --- in a script --------------------------------------------------------------------------------

X = np.eye(5)[[0, 1, 2, 0, 1, 2]] * 0.5
Y = np.array([0, 1, 2, 0, 1, 2])
RIGHT = [(np.eye(3, 5), np.zeros(3))]
WRONG = [(-np.eye(3, 5), np.ones(3))]


@pytest.mark.parametrize(
    ("strategy", "models", "expected"),
    [
        ("local-accuracy", (WRONG, RIGHT, WRONG), RIGHT[0][0]),
        ("local", (WRONG, WRONG, RIGHT), RIGHT[0][0]),
        ("local-average", (RIGHT, RIGHT, WRONG), np.eye(3, 5) * 0.5),
        ("local-average, uniform", (RIGHT, RIGHT, WRONG), np.eye(3, 5) / 3),
    ],
)
def test_a_script_starts_its_model(pools: Pools, strategy: str, models: Any, expected: np.ndarray):
    strategy, _, weighting = strategy.partition(", ")
    compares = strategy != "local-average"
    answers = pools.run(
        3,
        TASK,
        per_party=[
            {"local": model, "records": count, **({"x": X, "y": Y} if compares else {})}
            for model, count in zip(models, (20, 10, 10), strict=True)
        ],
        strategy=strategy,
        weighting=weighting or "records",
    )
    for found, names, opened in answers:
        assert found == ("", "")
        assert names[0] == "all_gather"
        assert set(names[1:]) == {"all_reduce"}
        np.testing.assert_allclose(opened[0], expected, rtol=0, atol=2.0**-20)


def test_candidates_are_tried_with_the_activations_that_the_model_has(pools: Pools):
    """The model has a sigmoid, with which the second party's local model is the better one.

    So it is on all records in blocks, though neither on the first nor on the last ones alone.
    """
    x, y, models = rivals()
    rounds = []
    for options in ({}, {"compared": 100}):
        answers = pools.run(
            2,
            TASK,
            per_party=[
                {"local": [(first.T, offset), (second.T, last)], "x": rows, "y": labels}
                for (first, offset, second, last), rows, labels in zip(
                    models, np.split(x, 2), np.split(y, 2), strict=True
                )
            ],
            records=1,
            strategy="local-accuracy",
            **options,
        )
        for found, names, opened in answers:
            assert found == ("", "")
            rounds.append(len(names))
            for own, part in zip(opened, models[1], strict=True):
                np.testing.assert_allclose(own, part.T, rtol=0, atol=2.0**-20)
    at_once, in_blocks = rounds[0], rounds[-1]
    assert in_blocks > 1.5 * at_once


HUGE = [(np.full((3, 5), 100.0), np.zeros(3))]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"local": HUGE}, "local = 'a layer of norm 387.3':"),
        ({"local": []}, r"local = \[\]:"),
        ({"records": 0}, "records = 0:"),
    ],
)
def test_what_is_wrong_at_one_party_stops_all_before_anything_is_shared(
    pools: Pools, second: dict[str, Any], message: str
):
    good = {"local": RIGHT, "records": 5, "strategy": "local-average"}
    own, other = pools.run(2, TASK, per_party=[good, {**good, **second}])
    for found, names, opened in (own, other):
        assert found[0] == "ArgumentError"
        assert names == ["all_gather"]
        assert not np.any(opened[0])
    assert re.search(message, other[0][1])


def test_a_model_whose_activations_are_not_known_is_refused():
    relu = nn.ReLU()
    model = nn.Sequential(nn.Linear(5, 4), relu, nn.Linear(4, 3), relu, nn.Linear(3, 2))
    with refused("model", "value", "3 layers with ['ReLU']"):
        initialize_encrypted(model, [], 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "best"}, "strategy = 'best':"),
        ({"strategy": "local"}, "held_out = None:"),
        ({"weighting": "loud"}, "weighting = 'loud':"),
        (
            {"strategy": "local-accuracy", "weighting": "uniform"},
            "weighting = 'uniform':",
        ),
    ],
)
def test_settings_that_nobody_may_have_stop_all(
    pools: Pools, settings: dict[str, Any], message: str
):
    plan = {"local": RIGHT, "records": 5, "strategy": "local-average", **settings}
    for found, names, _ in pools.run(2, TASK, per_party=[plan, plan]):
        assert found[0] == "ArgumentError"
        assert names == ["all_gather"]
        assert re.search(message, found[1])


@pytest.mark.parametrize(
    "others",
    [
        {"strategy": "local-accuracy"},
        {"strategy": "best"},
        {"strategy": "local", "weighting": "uniform"},
    ],
)
def test_parties_with_different_strategies_stop(pools: Pools, others: dict[str, Any]):
    common = {"local": RIGHT, "records": 5, "x": X, "y": Y}
    per_party = [{**common, "strategy": "local"}, {**common, **others}]
    for found, names, _ in pools.run(2, TASK, per_party=per_party):
        assert found[0] == "ArgumentError"
        assert re.search("(strategy|weighting) = .*at party 0, .* at party 1", found[1])
        assert names == ["all_gather"] * 3


def test_numbers_that_must_agree_are_compared_with_the_first_batch(pools: Pools):
    common = {"x": X, "y": Y}
    found = pools.run(
        2,
        "tests.helpers.party_tasks.batches:attempt",
        per_party=[{"attempts": [{**common, "steps": 3 + rank}]} for rank in range(2)],
    )
    for (((kind, message), collectives),) in found:
        assert kind == "ArgumentError"
        assert "steps = 3 at party 0, 4 at party 1" in message
        assert collectives == ["all_gather"] * 3


# --- errors -------------------------------------------------------------------------------------

WITHOUT = {"noise_multiplier_init": None}


@pytest.mark.parametrize(
    ("settings", "argument", "code", "value"),
    [
        ({"init": "best"}, "init", "choice", "best"),
        ({**WITHOUT, "init": "zero", "model": "mlp:4"}, "init", "choice", "zero"),
        ({"init": None}, "noise_multiplier_init", "conflict", 2.0),
        ({**WITHOUT, "init": "random", "init_steps": 3}, "init_steps", "conflict", 3),
        (WITHOUT, "epsilon_init, noise_multiplier_init", "privacy", (None, None)),
        ({"epsilon_init": 1.0}, "epsilon_init, noise_multiplier_init", "privacy", (1.0, 2.0)),
        ({**WITHOUT, "epsilon_init": -1.0}, "epsilon_init", "range", -1.0),
        ({"noise_multiplier_init": math.nan}, "noise_multiplier_init", "range", math.nan),
        (
            {**WITHOUT, "epsilon": 1.0, "noise_multiplier": None, "epsilon_init": 1.0},
            *("epsilon_init", "range", 1.0),
        ),
        ({"init_steps": 0}, "init_steps", "range", 0),
        ({"init_lr": 0.0}, "init_lr", "range", 0.0),
        ({"init_weighting": "loud"}, "init_weighting", "choice", "loud"),
        (
            {"init_weighting": "uniform", "init": "local-accuracy"},
            *("init_weighting", "conflict", "uniform"),
        ),
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any], argument, code, value):
    with refused(argument, code, value):
        config(**settings)


def test_local_models_that_spend_all_are_refused_before_the_run():
    with refused("epsilon", "value", value=1.0):
        config(epsilon=1.0, noise_multiplier=None, noise_multiplier_init=0.5).resolved()


def test_protocol_4_refuses_what_it_cannot_compare():
    ring = ClearRing(20)
    one = [(encode(np.zeros((2, 3, 5)), 20), encode(np.zeros((2, 3)), 20))]
    start = [(encode(np.zeros((3, 5)), 20), encode(np.zeros(3), 20))]
    with refused("strategy", "choice", value="best"):
        initialize(ring, "best", one, [1, 1], start=start)
    with refused("held_out", "missing", None):
        initialize(ring, "local", one, [1, 1], start=start)
    for wrong in ([1], [1, 0]):
        with refused("records", "value", wrong):
            initialize(ring, "local-average", one, wrong, start=start)
    with refused("weighting", "choice", value="loud"):
        initialize(ring, "local", one, [1, 1], start=start, weighting="loud")
    with refused("candidates", "value", value=63):
        first_smallest(ring, np.zeros(63, dtype=np.int64))


@pytest.mark.parametrize("strategy", ["local", "local-accuracy"])
def test_there_are_as_many_candidates_as_are_counted(strategy):
    ring, start = ClearRing(16, parties=3), [(encode(np.ones((2, 3)), 16), encode(np.ones(2), 16))]
    local = [tuple(np.stack([part] * 3) for part in pair) for pair in start]
    tried = candidates(ring, strategy, local, [5, 5, 5], start=start)
    assert {len(part) for pair in tried for part in pair} == {number_of_candidates(strategy, 3)}


def test_a_count_of_misses_is_exact_at_a_lead_of_one_ulp():
    targets = encode(np.eye(3)[[0, 1]], 20)
    logits = encode(np.zeros((3, 2, 3)), 20)
    logits[0, 0, 0] = logits[0, 1, 1] = 1
    logits[1, 0, 0] = 1
    logits[2] = [[0, 1, 0], [2**40, 2**40 - 1, 0]]
    ring = ClearRing(20)
    assert count_misses(ring, logits, targets, ties="wrong").tolist() == [0, 1, 2]
    assert count_misses(ring, logits, targets, ties="right").tolist() == [0, 0, 2]
    assert decode(targets, 20).max() == 1.0
