"""What an additive model has learnt, in files that people and other programs read."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

from extensions.estimator import PrivateClassifier, PrivateRegressor
from extensions.runs.model.explaining import effects_of, told_of
from extensions.runs.model.export import export
from extensions.runs.model.pages import BAND, write_page
from extensions.runs.model.terms import terms_of
from tests.helpers.commands import call
from tests.helpers.refused import refused

DRAWS = np.random.default_rng(0)
SIZE = 6000
FRAME = pd.DataFrame(
    {
        "age": DRAWS.uniform(18, 80, SIZE),
        "pay": np.exp(DRAWS.uniform(0, 11, SIZE)) - 1,
        "dose": np.exp(DRAWS.uniform(-3, 3, SIZE)),
        "job": DRAWS.choice(["nurse", "cook", "pilot", "judge"], SIZE),
        "seen": DRAWS.choice(["yes", "no"], SIZE),
    }
)
FRAME.loc[::7, "age"] = np.nan
SCHEMA = {
    "age": {"range": [18, 80], "missing": "indicator"},
    "pay": {"range": [0, 60_000], "scale": "log1p", "outside": "clip"},
    "dose": {"range": [0.01, 30], "scale": "log", "outside": "clip"},
    "job": ["nurse", "cook", "pilot"],
    "seen": {"categories": ["yes", "no"], "outside": "clip"},
}
SCORE = (
    np.sin(FRAME["age"].fillna(0) / 8) + (FRAME["job"] == "cook") + np.log1p(FRAME["pay"]) / 5 - 1
)
SETTINGS = {"insecure_seed": 1}


@pytest.fixture(scope="module", params=["two classes", "three classes", "softmax", "a number"])
def fitted(request):
    if request.param == "a number":
        estimator = PrivateRegressor(
            4.0, schema=SCHEMA, target=(-3, 3), model="additive", settings=SETTINGS
        )
        return estimator.fit(FRAME, SCORE)
    y = np.digitize(SCORE, [0.0] if request.param == "two classes" else [-0.5, 0.7])
    softmax = {"loss": "softmax"} if request.param == "softmax" else {}
    estimator = PrivateClassifier(
        4.0, schema=SCHEMA, model="additive", settings={**SETTINGS, **softmax}
    )
    return estimator.fit(FRAME, y)


def raw(frame, schema):
    """A frame's columns as exported models take them."""
    columns = []
    for each in schema.columns:
        if hasattr(each, "categories"):
            places = {name: i for i, name in enumerate(each.categories)}
            columns.append([float(places.get(name, -1)) for name in frame[each.name]])
        else:
            columns.append(frame[each.name].to_numpy(float))
    return np.stack(columns, axis=1)


def logits(fitted, frame):
    return fitted._logits(frame)


def test_what_columns_add_is_the_score(fitted):
    model = fitted.model_
    effects = effects_of(model)
    own = FRAME[:500]
    features = fitted.known_.rows(own)
    columns = np.array([*told_of(model, features, logits(fitted, own)).values()]).T
    total = columns.sum(axis=1)
    found = logits(fitted, own)
    if isinstance(fitted, PrivateRegressor):
        inside = (fitted.predict(own) > -3) & (fitted.predict(own) < 3)
        expected, total = fitted.predict(own)[inside], total[inside]
    elif len(effects.outputs) == 1:
        expected = np.log(fitted.predict_proba(own)[:, 1] / fitted.predict_proba(own)[:, 0])
    else:
        expected = found.max(axis=1)
    np.testing.assert_allclose(total, expected, atol=1e-9)


def test_bins_say_what_is_in_them(fitted):
    labels = {term.column: ", ".join(term.labels) for term in terms_of(fitted.model_)[1]}
    assert "missing" in labels["age"]
    assert "other" in labels["seen"]
    assert "missing" not in labels["seen"]
    assert "other" not in labels["age"] + labels["pay"]


def test_deviations_are_in_the_unit_of_values(fitted):
    effects, (_, terms) = effects_of(fitted.model_), terms_of(fitted.model_)
    for shown, term in zip(effects.terms, terms, strict=True):
        ratio = np.abs(shown.values).max() / np.abs(term.values).max()
        assert shown.deviations.max() / term.deviations.max() == pytest.approx(ratio)


@pytest.mark.parametrize("to", ["onnx", "torch"])
def test_exported_models_say_what_ours_says(fitted, tmp_path, to):
    model = fitted.model_
    x = raw(FRAME[:1000], model.header.schema)
    expected = logits(fitted, FRAME[:1000])
    if to == "onnx":
        onnx = pytest.importorskip("onnx")
        from onnx.reference import ReferenceEvaluator

        graph = onnx.load(export(model, to, tmp_path / "model.onnx"))
        found, scores = ReferenceEvaluator(graph).run(None, {"features": x})
        if not isinstance(fitted, PrivateRegressor):
            own = fitted.predict_proba(FRAME[:1000])
            shared = scores / scores.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(shared, own, atol=1e-5)
    else:
        torch = pytest.importorskip("torch")
        program = torch.export.load(export(model, to, tmp_path / "model.pt2"))
        found = program.module()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_points_are_whole_and_near(fitted, tmp_path):
    path = export(fitted.model_, "points", tmp_path / "points.csv")
    effects = effects_of(fitted.model_)
    rows = list(csv.reader(path.read_text().splitlines()))
    outputs = len(effects.outputs)
    unit = float(rows[-1][1].split()[3])
    most = 0
    for row in rows[1:-1]:
        for points, value in zip(row[2 : 2 + outputs], row[2 + outputs :], strict=True):
            assert abs(int(points) * unit - float(value)) <= 0.51 * unit
            most = max(most, abs(int(points)) if row[0] else 0)
    assert most == 20
    assert len(rows) - 3 == sum(len(term.labels) for term in effects.terms)
    with refused("to", "value", "keras"):
        export(fitted.model_, "keras", tmp_path / "model.keras")


def test_pages_name_every_column(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    page = write_page(tmp_path / "page.html", fitted.model_).read_text()
    assert (tmp_path / "page.html").stat().st_mode & 0o077 == 0
    assert page.count("<img") == len(SCHEMA)
    assert all(f">{name}</h2>" in page for name in SCHEMA)
    assert "http" not in page
    assert "missing value adds" in page
    picture = write_page(tmp_path / "page.png", fitted.model_).read_bytes()
    assert picture.startswith(b"\x89PNG")
    with refused("out", "file"):
        write_page(tmp_path / "page.pdf", fitted.model_)


def test_a_figure_shows_the_curve_and_its_band(fitted):
    pytest.importorskip("matplotlib")
    effects = effects_of(fitted.model_)
    above, below = fitted.plot("age").axes
    (term,) = (each for each in effects.terms if each.column == "age")
    steps = [patch.get_data() for patch in above.patches]
    bins = len(term.edges) - 1
    np.testing.assert_allclose(steps[0].values, term.values[0, :bins])
    np.testing.assert_allclose(
        steps[1].values, term.values[0, :bins] + BAND * term.deviations[0, :bins]
    )
    assert below.get_xlabel() == "age"
    low, high = above.get_ylim()
    for each in effects.terms:  # nothing is cut off, and a curve of noise is not stretched
        assert (each.values - BAND * each.deviations).min() > low
        assert (each.values + BAND * each.deviations).max() < high
        assert fitted.plot(each.column).axes[0].get_ylim() == (low, high)
    with refused("column", "choice", "height"):
        fitted.plot("height")


def test_the_commands(tmp_path):
    estimator = PrivateClassifier(4.0, schema=SCHEMA, model="additive", settings=SETTINGS)
    estimator.fit(FRAME, (SCORE > 0).astype(int)).save(tmp_path / "model.npz")
    FRAME[:20].to_csv(tmp_path / "new.csv", index=False)
    told = ["--model", tmp_path / "model.npz"]
    call("explain", *told, "--out", tmp_path / "page.html")
    call(
        *("predict", *told, "--records", tmp_path / "new.csv", "--explain"),
        *("--out", tmp_path / "told.csv"),
    )
    found = pd.read_csv(tmp_path / "told.csv")
    assert [name for name in found if name.startswith("adds ")] == [f"adds {n}" for n in SCHEMA]
    odds = np.log(found["probability 1"] / found["probability 0"])
    total = found.filter(like="adds ").sum(axis=1) + found["starts at"]
    np.testing.assert_allclose(total, odds, atol=1e-6)
    call("export", *told, "--to", "points", "--out", tmp_path / "points.csv")
    assert json.loads(estimator.model_.header.to_json())["columns"]


def test_a_linear_model_has_no_terms(tmp_path):
    estimator = PrivateClassifier(4.0, schema=SCHEMA, model="logistic", settings=SETTINGS)
    estimator.fit(FRAME, (SCORE > 0).astype(int))
    with refused("model", "choice", "linear"):
        estimator.plot("age")
    with refused("to", "value", "points"):
        export(estimator.model_, "points", tmp_path / "points.csv")
