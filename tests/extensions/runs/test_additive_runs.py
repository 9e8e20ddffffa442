"""Runs of additive models: what they learn and open, and how they go on."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.schema import Number
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.protocols.noise import summand_scale
from extensions.protocols.noisy_sums.additive.basis import INTERCEPT, basis_of, sensitivity
from extensions.protocols.noisy_sums.additive.bins import Bins
from extensions.protocols.noisy_sums.additive.families import Numbers
from extensions.protocols.noisy_sums.additive.learner import Learner
from extensions.protocols.noisy_sums.additive.training import COUNTS, TITLE
from extensions.protocols.settings import TRAINING
from extensions.runs.budget import read
from extensions.runs.budget.planned_cost import planned
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_host import ClearHost
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.config.additive import bins_told
from extensions.runs.model import (
    contributions,
    logits_of,
    opened_of,
    read_opened,
    terms_of,
    write_opened,
)
from extensions.runs.options import RunOptions
from extensions.runs.training import run
from tests.helpers.refused import refused
from tests.helpers.tables import COLUMNS, schema_of, splits_of

ROWS = 3000
CHOSEN = ("steps", "lr", "sample_rate", "loss")


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def config_of(schema: Any, records: int = ROWS * 4 // 5, **settings: Any) -> TrainConfig:
    """Resolved settings of a run, for epsilon 4 unless noise is given."""
    usual: dict[str, Any] = {"model": "additive", "open": "each-step", "delta": 1e-5}
    if "noise_multiplier" not in settings:
        usual["epsilon"] = 4.0
    if schema.target.range is not None:
        usual["loss"] = "squared"
    facts = {key: value for key, value in schema.settings.items() if key != "facts"}
    given = {"backend": "clear", **usual, **facts, **settings}
    given.setdefault("chosen", tuple(name for name in CHOSEN if name not in given))
    config = TrainConfig(**given, facts=schema.facts())
    return config.resolved(records=records)


def made(config: TrainConfig, parts: Any, folder: Path | None = None, **how: Any) -> dict[str, Any]:
    """The report of a plaintext run, which may be cut off after a step."""
    cut = how.pop("cut", None)

    def progress(event: dict[str, Any]) -> None:
        if cut is not None and event["step"] == cut:
            raise KeyboardInterrupt

    options = None if folder is None else CheckpointOptions(folder=folder, every=4, **how)
    return train(config, parts, progress, options)


@pytest.mark.parametrize(
    ("classes", "given", "least"),
    [
        (2, {}, {"auc": 0.8}),
        (2, {"loss": "softmax"}, {"auc": 0.8}),
        (3, {}, {"accuracy": 0.55}),
        (1, {}, {"r2": 0.45}),
    ],
)
def test_it_learns_curves_of_classes_and_of_a_number(classes, given, least):
    schema = schema_of(classes)
    report = made(config_of(schema, insecure_seed=1, **given), splits_of(schema, ROWS))
    for name, bound in least.items():
        assert report[name] > bound
    assert report["epsilon"] <= 4.0 * (1 + 1e-4)
    if classes == 2:
        assert report["brier_skill"] > 0.2
    if classes == 3:
        assert report["loss"] == "softmax", "of more classes scores compete"


def test_scores_of_more_than_two_classes_are_not_read_apart():
    with refused("loss", code="choice"):
        config_of(schema_of(3), loss="sigmoid")


def test_what_a_file_of_a_model_says(tmp_path):
    schema = schema_of()
    parts = splits_of(schema, ROWS)
    report = made(config_of(schema), parts)
    path = write_opened(tmp_path / "model.npz", opened_of({**report}))
    model = read_opened(path)
    x = np.concatenate([part.test_x for part in parts])
    logits = logits_of(model, x)
    intercept, terms = terms_of(model)
    np.testing.assert_allclose(contributions(model, x).sum(axis=1) + intercept, logits, atol=1e-9)
    right = (logits.argmax(axis=1) == np.concatenate([part.test_y for part in parts])).mean()
    assert right == pytest.approx(report["accuracy"])
    age, income, job, town = terms
    assert [each.column for each in terms] == [each.name for each in COLUMNS]
    assert age.edges is not None
    assert (age.edges[0], age.edges[-1]) == (0.0, 100.0)
    assert age.missing is None
    assert income.missing is not None
    assert {name for each in job.labels for name in each.split(", ")} == {
        *"abc",
        "other",
        "missing",
    }
    assert town.edges is None
    for term in terms:
        bins = len(term.labels)
        assert term.values.shape == term.deviations.shape == (2, bins)
        assert term.counts.shape == term.count_deviations.shape == (bins,)
        assert (term.deviations >= 0).all()
        np.testing.assert_allclose(term.values @ term.counts, 0.0, atol=1e-3 * ROWS)
    assert age.importance[1] > 3 * income.importance[1]
    arrays = dict(np.load(path))
    for name in ("term_bins", "term_counts"):
        np.savez(tmp_path / "other.npz", **{**arrays, name: arrays[name][:-1]})
        with refused("model", code="file"):
            read_opened(tmp_path / "other.npz")


@pytest.mark.parametrize("cut", [1, 5, 29])
def test_a_run_that_goes_on_is_the_run_that_was_not_interrupted(cut, tmp_path):
    schema = schema_of()
    config, parts = config_of(schema, insecure_seed=5), splits_of(schema, ROWS)
    whole = made(config, parts, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        made(config, parts, tmp_path / "cut", cut=cut)
    again = made(config, parts, tmp_path / "cut", resume=True)
    for one, other in zip(whole["parameters"][0], again["parameters"][0], strict=True):
        np.testing.assert_array_equal(one, other)
    for name, array in whole["terms"].items():
        np.testing.assert_array_equal(array, again["terms"][name])
    assert again["epsilon"] == whole["epsilon"]
    assert again["resumed_from"]


def test_counts_and_rounds_are_in_the_ledger():
    schema = schema_of()
    config = config_of(schema)
    host = ClearHost(20, parties=3, owners=3, source=SystemSource())
    ledger = planned(host, config, 4)
    assert ledger.get_epsilon(config.delta) == pytest.approx(4.0, rel=1e-3)
    noises = {COUNTS: config.noise_multiplier_counts, TRAINING: config.noise_multiplier}
    alone = Ledger()
    for name, steps in ((COUNTS, 1), (TRAINING, config.steps)):
        alone.record(name, noise_multiplier=noises[name], sample_rate=1.0, steps=steps)
    assert alone.get_epsilon(config.delta) == pytest.approx(
        ledger.get_epsilon(config.delta), rel=1e-4
    )
    assert TITLE in str(ledger.to_json())
    report = made(config, splits_of(schema, ROWS))
    left = Ledger()
    for name, steps in ((COUNTS, 1), (TRAINING, config.steps)):
        noise = noises[name] * 0.5**0.5  # one of three parties adds half of what two are to leave
        left.record(name, noise_multiplier=noise, sample_rate=1.0, steps=steps)
    found = report["epsilon_without_noise_of"]
    assert found["2"] == pytest.approx(left.get_epsilon(config.delta), rel=1e-4)
    assert found["1"] == report["epsilon"]


class Wide:
    """A source that notes how wide the noise is that it is asked for."""

    def __init__(self) -> None:
        self._source, self.scales = SystemSource(), []

    def gaussian(self, party: int, scale: float, shape: Any) -> Any:
        self.scales.append((scale, shape))
        return self._source.gaussian(party, scale, shape)


@pytest.mark.parametrize("k", [1, 3])
def test_noise_is_as_wide_as_accounted(k):
    schema = schema_of()
    config = config_of(schema, 800, rows_per_unit=k, steps=2, chosen=("lr", "sample_rate"))
    parts = [
        replace(part, train_units=np.arange(len(part.train_x)) // k if k > 1 else None)
        for part in splits_of(schema, ROWS)
    ]
    source: Any = Wide()
    host = ClearHost(20, parties=3, owners=3, source=source)
    report = run(host, config, parts, lambda event: None, RunOptions())
    (counted, cells), *rounds = source.scales[::3]
    assert (len(rounds), cells) == (2, (config.grid.size,))
    noise = config.noise_multiplier_counts * k * 4**0.5  # of four columns
    assert counted == pytest.approx(summand_scale(3, noise, frac_bits=16))
    bins = [basis_of(own) for own in bins_in(report, config.grid)]
    noise = config.noise_multiplier * k * sensitivity(bins)
    for scale, shape in rounds:
        assert scale == pytest.approx(summand_scale(3, noise, frac_bits=30))
        assert shape == (1, 1 + sum(len(each.matrix) for each in bins))


def bins_in(report: Any, grid: Any) -> list[Bins]:
    """The bins of a model's columns."""
    found = []
    for column, of_cell in zip(
        grid.columns, grid.by_column(report["terms"]["term_bins"]), strict=True
    ):
        ordered = int(of_cell[: column.present].max()) + 1 if column.ordered else 0
        found.append(Bins(of_cell, np.ones(int(of_cell.max()) + 1), ordered))
    return found


def test_steps_are_halved_where_columns_overshoot():
    """Twenty equal columns at a step of 0.4: together they move eight times too far."""
    own = Bins(np.arange(6), np.full(6, 1000.0), 6)
    learner = Learner(
        [own] * 20, [basis_of(own)] * 20, Numbers(0.5, 0.2),
        records=6000.0, steps=40, eta=0.4, noise=0.0,
    )  # fmt: skip
    truth = np.linspace(-0.3, 0.3, 6)
    for _ in range(40):
        shape = sum(each[0] for each in learner.values)
        rest = np.clip(truth - shape - learner.intercept[0], -0.5, 0.5) * 1000 / 0.5
        parts = [basis.reals @ rest for basis in learner.bases]
        learner.update(np.concatenate([[INTERCEPT / 4096 * rest.sum()], *parts])[None])
    _, values = learner.mean()
    np.testing.assert_allclose(sum(each[0] for each in values), truth, atol=0.02)


@pytest.mark.parametrize(("steps", "parts"), [(1, [0.4]), (3, [0.2, 19 / 75, 41 / 187.5])])
def test_a_band_is_that_of_the_rounds_whose_mean_is_the_model(steps, parts):
    """Of three iterates the mean has 1/6, 2/6 and 3/6, and each moves by 0.4.

    `parts` is what it has of each round's noise, the last one's first.
    """
    own = Bins(np.arange(6), np.full(6, 1000.0), 6)
    basis = basis_of(own)
    learner = Learner(
        [own], [basis], Numbers(0.5, 0.2), records=6000.0, steps=steps, eta=0.4, noise=1.0
    )
    for _ in range(steps):
        learner.update(np.ones((1, 1 + len(basis.matrix))))
    (first,), (shape,) = learner.deviations(), learner._shapes[0]
    unit = np.linalg.norm(shape.smoother.T @ shape.matrix, axis=0) * learner._deviation
    np.testing.assert_allclose(first[0], np.linalg.norm(parts) * unit)


def test_settings_follow_from_public_facts_alone():
    schema = schema_of()
    fine, coarse, equal = (config_of(schema, epsilon=epsilon) for epsilon in (4.0, 0.3, 0.05))
    assert [each.cells for each in (fine, coarse, equal)] == ["fine", "coarse", "equal"]
    assert (fine.lr, fine.steps, fine.sample_rate) == (0.4, 30, 1.0)
    assert equal.noise_multiplier_counts is None
    many = tuple(Number(name=f"c{i}", low=0.0, high=1.0) for i in range(56))
    wide = config_of(schema_of(columns=many))
    assert (wide.lr, wide.steps) == (pytest.approx(1 / 7, rel=1e-4), 84)
    asked = config_of(schema, steps=12, chosen=("lr", "sample_rate"))
    assert asked.steps == 12
    given = config_of(schema, noise_multiplier=9.0)
    assert given.noise_multiplier_counts == pytest.approx(9.0 * (0.9 / (0.1 * 30)) ** 0.5)
    assert bins_told(fine, 2400) > 8 > bins_told(coarse, 2400) >= 2 > bins_told(equal, 2400)


@pytest.mark.parametrize(
    ("epsilon", "given", "model"),
    [
        (2.0, {}, "additive"),
        (0.05, {}, "logistic"),
        (2.0, {"momentum": 0.5}, "logistic"),
        (2.0, {"init": "zero"}, "logistic"),
        (2.0, {"features": "sines"}, "logistic"),
        (2.0, {"open": "never"}, "logistic"),
    ],
)
def test_the_model_that_nobody_names_is_chosen_by_the_rule(epsilon, given, model):
    chosen = ("model", *CHOSEN, "momentum", "average", "bias_scale", "max_grad_norm", "whiten")
    chosen = (*(name for name in chosen if name not in given), "one_output")
    settings = {"model": "logistic", "chosen": chosen, "epsilon": epsilon, **given}
    config = config_of(schema_of(), **settings)
    assert config.model == model
    assert config.private


def test_a_table_needs_a_schema():
    config = TrainConfig(
        backend="clear", model="additive", open="each-step", epsilon=1.0, delta=1e-5, chosen=CHOSEN
    )
    with refused("schema", code="missing"):
        config.resolved(records=1000)


def test_class_weights_leave_probabilities_right():
    schema = schema_of()
    weighted = replace(schema, target=replace(schema.target, weights=(0.25, 1.0)))
    parts = splits_of(weighted, 6000)
    plain, other = (made(config_of(each, 4800), parts) for each in (schema, weighted))
    x = np.concatenate([part.test_x for part in parts])
    for report in (plain, other):
        logits = logits_of(opened_of({**report}), x)
        chance = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        rate = np.mean(np.concatenate([part.test_y for part in parts]))
        assert chance.mean() == pytest.approx(rate, abs=0.08)
    assert other["brier"] == pytest.approx(plain["brier"], abs=0.03)


def test_persons_count_once_at_an_owner():
    schema = schema_of()
    parts = [
        replace(part, train_units=np.arange(len(part.train_x)) // 2)
        for part in splits_of(schema, ROWS)
    ]
    config = config_of(schema, ROWS * 2 // 5, rows_per_unit=2)
    report = made(config, parts)
    assert report["records"] == [400, 400, 400]
    assert report["auc"] > 0.75


def test_a_ledger_of_an_owner_has_the_run(tmp_path):
    schema = schema_of()
    ledgers = [tmp_path / f"{rank}.budget.json" for rank in range(3)]
    config = config_of(schema)
    train(config, splits_of(schema, ROWS), lambda event: None, None, ledgers)
    (entry,) = read(ledgers[0]).entries
    assert entry.spent
    assert TITLE in entry.opens
    assert entry.epsilon(1e-5) >= 4.0 * (1 - 1e-3)
    assert json.loads(ledgers[0].read_text())


@pytest.mark.parametrize("classes", [2, 1])
@pytest.mark.parametrize("rows", [60, 3000])
@pytest.mark.parametrize("columns", [5, 73])
def test_it_never_diverges_where_columns_repeat_each_other(classes, rows, columns):
    same = tuple(replace(COLUMNS[0], name=f"age {i}") for i in range(columns - 2))
    schema = schema_of(classes, columns=(COLUMNS[0], COLUMNS[2], *same))
    parts = splits_of(schema, rows, repeat=True)
    for epsilon in (0.5, 8.0):
        config = config_of(schema, rows * 4 // 5, epsilon=epsilon, insecure_seed=1)
        report = made(config, parts)
        weight, bias = report["parameters"][0]
        assert np.abs(weight).max() < 8
        assert np.abs(bias).max() < 8
        if rows > 60 and epsilon >= 4:
            assert report["auc" if classes == 2 else "r2"] > (0.73 if classes == 2 else 0.3)
