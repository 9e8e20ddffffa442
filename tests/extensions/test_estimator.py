"""The estimators: what scikit-learn asks of one, owners, frames, schemas, files and ledgers."""

import doctest
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from extensions.data.schema import encode_table, to_toml
from extensions.errors import PrivacyWarning
from extensions.estimator import (
    PrivateClassifier,
    PrivateRegressor,
    Schema,
    encode_frame,
    estimators,
)
from extensions.runs.config import TrainConfig
from extensions.runs.config.defaults import rate_of
from tests.helpers.commands import call
from tests.helpers.paths import ROOT
from tests.helpers.refused import refused

SEEDED = {"insecure_seed": 1}
SKIPPED = {
    "check_dtype_object": "a column that holds neither texts nor numbers is left out by a schema",
}
"""Checks of scikit-learn that do not fit a schema; all others pass."""


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        PrivateClassifier(epsilon=100.0, settings=SEEDED),
        PrivateRegressor(epsilon=100.0, schema="from-data", settings=SEEDED),
    ],
    expected_failed_checks=lambda each: SKIPPED if isinstance(each, PrivateRegressor) else {},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", ["PrivateClassifier", "PrivateRegressor"])
def test_examples_run(name):
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(getattr(estimators, name), name)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.fixture(scope="module")
def cancer():
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return x, y, {name: (0.0, float(np.ceil(2 * x[name].median()))) for name in x}


def test_a_person_with_arrays_gets_what_the_command_gives(tmp_path, cancer):
    x, y, ranges = cancer
    entries = "".join(
        f'[columns."{name}"]\nrange = [{low}, {high}]\noutside = "clip"\n'
        for name, (low, high) in ranges.items()
    )
    (tmp_path / "schema.toml").write_text(
        'basis = "public"\n[target]\ncolumn = "y"\nclasses = ["0", "1"]\n' + entries
    )
    x.assign(y=y).to_csv(tmp_path / "all.csv", index=False)
    options = {"steps": 5, "lr": 3.0, "delta": 1e-4, **SEEDED}
    call(
        *[
            "train",
            "--backend",
            "clear",
            "--parties",
            "1",
            "--epsilon",
            "2",
            "--delta",
            "1e-4",
            "--steps",
            "5",
            "--lr",
            "3",
        ],
        *["--open", "each-step", "--evaluate", "none", "--insecure-fixed-randomness", "1"],
        *("--data", f"csv:{tmp_path / 'all.csv'}", "--schema", tmp_path / "schema.toml"),
        *("--save", tmp_path / "saved", "--budget", "none"),
    )
    command = PrivateClassifier.load(tmp_path / "saved" / "model.npz")
    # The command shuffles and holds a fifth out: the same rows in the same order.
    draw = np.random.default_rng(0)
    order = draw.permutation(len(x))[round(0.2 * len(x)) :]
    delta = options.pop("delta")
    here = PrivateClassifier(delta=delta, schema=tmp_path / "schema.toml", settings=options)
    here.fit(x.iloc[order], y.iloc[order])
    assert (here.predict_proba(x) == command.predict_proba(x)).all()
    assert here.epsilon_ == command.epsilon_ <= 2


def test_defaults_are_the_rules_of_the_command(cancer):
    x, y, ranges = cancer
    linear = PrivateClassifier(schema=ranges, model="logistic")
    found = linear.fit(x, y, groups=np.arange(len(x)) % 3)
    config = TrainConfig(**json.loads(json.dumps(found.model_.header.run)), facts={})
    assert found.report_["epsilon"] == found.epsilon_ <= 2
    assert config.delta == 1 / (10 * len(x))
    assert (config.parties, config.steps, config.sample_rate) == (3, 20, 1.0)
    assert config.lr == rate_of(config, len(x))
    assert found.score(x, y) > 0.9


@pytest.mark.parametrize("mode", ["open", "hidden"])
def test_owners_are_a_mapping_or_groups(cancer, mode):
    x, y, ranges = cancer
    north = np.arange(len(x)) < 300
    options = {"schema": ranges, "mode": mode, "settings": {"steps": 3, **SEEDED}}
    apart = {"north": (x[north], y[north]), "south": (x[~north], y[~north])}
    mapped = PrivateClassifier(**options).fit(apart)
    grouped = PrivateClassifier(**options).fit(x, y, groups=np.where(north, "north", "south"))
    assert mapped.report_["parties"] == 2
    assert (mapped.predict_proba(x) == grouped.predict_proba(x)).all()


def test_frames_of_all_kinds_are_one(cancer):
    x, y, ranges = cancer
    options = {"schema": ranges, "settings": {"steps": 2, **SEEDED}}
    found = PrivateClassifier(**options).fit(x, y)
    shuffled = x[x.columns[::-1]]
    for frame in (x, pa.Table.from_pandas(x), shuffled):
        assert (found.predict_proba(frame) == found.predict_proba(x)).all()
        again = PrivateClassifier(**options).fit(frame, y)
        if frame is not shuffled:
            assert (again.predict_proba(x) == found.predict_proba(x)).all()


def test_a_schema_of_ranges_categories_and_tables():
    draws = np.random.default_rng(0)
    job = draws.choice(["nurse", "cook", "pilot"], 900)
    frame = pd.DataFrame({"age": draws.uniform(20, 60, 900), "job": job})
    y = np.where(job == "cook", "yes", "no")
    frame.loc[3, "age"] = np.nan
    schema = {
        "age": {"range": [18, 70], "missing": "indicator"},
        "job": ["nurse", "cook"],
    }
    found = PrivateClassifier(schema=schema).fit(frame, y)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.score(frame, y) > 0.95
    assert found.known_.schema.columns[1].outside == "other"
    whole = PrivateClassifier(schema=found.known_.schema).fit(frame, y)
    assert isinstance(found.known_.schema, Schema)
    assert whole.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_a_table_gets_curves_where_each_step_is_opened(tmp_path, suffix):
    draws = np.random.default_rng(0)
    job = draws.choice(["nurse", "cook", "pilot"], 6000)
    frame = pd.DataFrame({"age": draws.uniform(18, 80, 6000), "job": job})
    y = (np.sin(frame["age"] / 8) + 0.5 * (job == "cook") > 0).astype(int)
    schema = {"age": (18, 80), "job": ["nurse", "cook", "pilot"]}
    opened, hidden = (
        PrivateClassifier(schema=schema, mode=mode).fit(frame, y) for mode in ("open", "hidden")
    )
    assert opened.model_.header.run["model"] == "additive"
    assert hidden.model_.header.run["model"] == "logistic"
    assert 1.999 < opened.epsilon_ <= 2
    assert opened.score(frame, y) > hidden.score(frame, y) + 0.05
    again = PrivateClassifier.load(opened.save(tmp_path / f"model.{suffix}"))
    assert (again.predict_proba(frame) == opened.predict_proba(frame)).all()


def test_what_is_read_off_the_records_is_told_and_stated(cancer):
    x, y, _ = cancer
    with pytest.warns(PrivacyWarning):
        found = PrivateClassifier(schema="from-data").fit(x, y)
    assert found.known_.schema.basis == "data"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateClassifier().fit(x, y)


def test_scripts_take_frames_through_a_schema(tmp_path):
    frame = pd.DataFrame({"age": [20, 50], "job": ["cook", "pilot"], "ill": ["no", "yes"], "id": 7})
    said = {
        "basis": "public",
        "target": {"column": "ill", "classes": ["no", "yes"]},
        "columns": {"age": {"range": [0, 100]}, "job": {"categories": ["cook", "pilot"]}},
    }
    schema = Schema.of(said)
    (tmp_path / "schema.toml").write_text(to_toml(schema))
    for given in (frame, pa.Table.from_pandas(frame)):
        x, y = encode_frame(given, tmp_path / "schema.toml")
        assert y.tolist() == [0, 1]
        assert (x == encode_table(schema, {n: frame[n].to_numpy(object) for n in frame}).x).all()
    with refused("records", "data"):
        encode_frame(frame.drop(columns="age"), schema)
    with refused("frame", "type", "ndarray"):
        encode_frame(frame.to_numpy(), schema)


def test_images_are_learnt_from():
    x, y = load_digits(return_X_y=True)
    images = x.reshape(-1, 8, 8) * 255 / 16
    assert PrivateClassifier(epsilon=8.0).fit(images, y).score(images, y) > 0.9


def flattened(images):
    return images.reshape(len(images), -1) / 255


def test_layers_of_ones_own_are_named(tmp_path, monkeypatch):
    source = "def own(layers):\n    layers.convolution(4, 3, stride=2).activation('tanh')\n"
    (tmp_path / "layers_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    x, y = load_digits(return_X_y=True)
    model = PrivateClassifier(model="layers_of_mine:own", settings={**SEEDED, "steps": 1})
    assert model.fit(x.reshape(-1, 8, 8), y).model_.header.spec.kind.startswith("layers:")


def test_a_function_or_a_module_extracts_features():
    torch = pytest.importorskip("torch")
    x, y = load_digits(return_X_y=True)
    images = x.reshape(-1, 8, 8) * 255 / 16
    own = PrivateClassifier(features=flattened, settings=SEEDED).fit(images, y)
    module = torch.nn.Flatten().eval()
    same = PrivateClassifier(features=module, settings=SEEDED).fit(images, y)
    assert own.score(images, y) > 0.8
    np.testing.assert_allclose(own.predict_proba(images), same.predict_proba(images), atol=1e-4)
    assert own.model_.header.features == "encoder flattened"
    mixing = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(64))
    with refused("features", "value", "Sequential"):
        PrivateClassifier(features=mixing).fit(images, y)
    PrivateClassifier(features=mixing.eval()).fit(images, y)


def test_a_number_is_learnt_in_its_unit():
    draws = np.random.default_rng(0)
    x = draws.uniform(-1, 1, (3000, 2))
    y = 300 + 50 * x[:, 0]
    found = PrivateRegressor(schema=[(-1, 1)] * 2, target=(200, 400)).fit(x, y)
    assert found.score(x, y) > 0.8
    assert 240 < found.predict(np.array([[-1.0, 0.0]]))[0] < 280
    with refused("target", "missing", None):
        PrivateRegressor(schema=[(-1, 1)] * 2).fit(x, y)
    with refused("schema", "missing", None):
        PrivateRegressor().fit(x, y)


def test_files_are_those_of_the_command(tmp_path, cancer):
    x, y, ranges = cancer
    names = np.where(y == 1, "benign", "malign")
    found = PrivateClassifier(schema=ranges).fit(x, names)
    path = found.save(tmp_path / "model.npz")
    assert path.stat().st_mode & 0o077 == 0
    loaded = PrivateClassifier.load(path)
    assert loaded.classes_.tolist() == ["benign", "malign"]
    assert (loaded.predict_proba(x) == found.predict_proba(x)).all()
    assert loaded.epsilon_ == found.epsilon_
    with refused("model", "file"):
        PrivateRegressor.load(path)
    x.to_csv(tmp_path / "new.csv", index=False)
    call("predict", "--model", path, "--records", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].tolist() == found.predict(x).tolist()


def test_a_ledger_is_charged_and_its_cap_holds(tmp_path, cancer):
    x, y, ranges = cancer
    ledger = tmp_path / "all.budget.json"
    estimator = PrivateClassifier(schema=ranges, ledger=ledger)
    assert estimator.plan(x, y)["epsilon"] == 2
    assert not ledger.exists()
    estimator.fit(x, y)
    call("budget", ledger, "--cap", "3", "--delta", "1e-3")
    with refused("budget", "range"):
        estimator.fit(x, y)


def test_a_plan_says_what_a_run_does(cancer):
    x, y, ranges = cancer
    estimator = PrivateClassifier(schema=ranges)
    told = estimator.plan(x, y, groups=np.arange(len(x)) % 3)
    report = estimator.fit(x, y, groups=np.arange(len(x)) % 3).report_
    assert told["noise_multiplier"] == report["noise_multiplier"]
    assert told["steps"] == report["steps"]


def test_bad_records_are_refused(cancer):
    x, y, ranges = cancer
    few = {name: ranges[name] for name in [*ranges][1:]}
    with refused("schema", "value"):
        PrivateClassifier(schema=few).fit(x, y)
    with refused("records", "data"):
        PrivateClassifier(schema=ranges).fit({"a": (x, y), "b": (x.drop(columns="mean area"), y)})
    with refused("schema", "missing"):
        PrivateClassifier().fit(np.array([["a", 1], ["b", 2]], dtype=object), [0, 1])
    with refused("X", "value"):
        PrivateClassifier().fit({"a": (x, y)}, y)
    with refused("mode", "choice", "secret"):
        PrivateClassifier(mode="secret").fit(x, y)
    with refused("settings", "value", "stepz"):
        PrivateClassifier(settings={"stepz": 3}).fit(x, y)
    with refused("labels", "data"):
        PrivateClassifier(target=[0, 2]).fit(x, y)
    with pytest.raises(TypeError):
        PrivateClassifier().fit(csr_array(np.eye(4)), [0, 1, 0, 1])
    unknown = pd.DataFrame({"job": ["cook", "nurse"] * 20})
    strict = {"job": {"categories": ["cook", "pilot"]}}
    with refused("records", "data"):
        PrivateClassifier(schema=strict).fit(unknown, [0, 1] * 20)
    holes = x.astype(float).mask(x > 1000)
    with refused("records", "data"):
        PrivateClassifier(schema=ranges).fit(holes, y)


def test_mlflow_takes_the_report_as_the_page_says(tmp_path, monkeypatch, cancer):
    mlflow = pytest.importorskip("mlflow")
    x, y, ranges = cancer
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path / 'runs'}")
    model = PrivateClassifier(schema=ranges).fit(x, y)
    page = (ROOT / "docs/how-to/data/estimators.md").read_text()
    _, _, text = page.partition("import mlflow\n")
    exec(text.partition("```")[0], {"mlflow": mlflow, "model": model, "X": x, "y": y})
    (report,) = tmp_path.glob("runs/*/*/artifacts/report.json")
    kept = json.loads(report.read_text())
    assert kept["epsilon"] == model.epsilon_
    assert kept["manifest"]
    assert len([*tmp_path.glob("runs/*/*/artifacts/model.npz")]) == 1
