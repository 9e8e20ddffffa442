"""`pea predict` and `pea export`: from records to a model, and back to other records by it."""

import csv
import importlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import (
    Columns,
    bounded_rows,
    load_own,
    load_raw,
    read_party_file,
    write_private,
)
from extensions.data.schema import to_toml
from extensions.runs.model import logits_of, read_opened
from extensions.runs.model.parties import held_out_of
from extensions.runs.model.recipe import GivenFeatures
from tests.helpers.arrays import arrays_of
from tests.helpers.commands import pea
from tests.helpers.people import SCHEMA
from tests.helpers.public_data import EXTRACTORS
from tests.helpers.refused import refused

TRAIN = ("train", "--backend", "clear", "--parties", 2, "--steps", 40, "--evaluate", "opened")
FIXED = ("--no-dp", "--insecure-fixed-randomness", 7)


def trained(folder: Path, *options: object) -> Path:
    done = pea(*TRAIN, *FIXED, *options, "--save", folder / "model")
    assert done.returncode == 0, done.stderr
    return folder / "model" / "model.npz"


def predicted(folder: Path, model: Path, records: Path, *options: object) -> list[dict[str, str]]:
    out = folder / "predictions.csv"
    done = pea("predict", "--model", model, "--records", records, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    with out.open(newline="") as file:
        return [*csv.DictReader(file)]


def table(path: Path, columns: list[str], rows: list[list[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def people(count: int) -> list[list[object]]:
    """Age, city and risk, which is high for those above 60."""
    draws = np.random.default_rng(3)
    ages = draws.integers(1, 120, count)
    cities = draws.choice(["Bern", "Genf", "Ulm"], count)
    return [
        [int(a), str(c), "high" if a > 60 else "low"] for a, c in zip(ages, cities, strict=True)
    ]


@pytest.fixture(scope="module")
def of_a_schema(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("schema")
    (folder / "schema.toml").write_text(to_toml(SCHEMA))
    own = table(folder / "own.csv", ["age", "city", "risk"], people(400))
    return trained(folder, "--data", f"csv:{own}", "--schema", folder / "schema.toml")


def test_tables_are_read_by_the_schema_of_the_model(tmp_path, of_a_schema):
    """Columns in another order, without labels, with others, missing values and unknown ones."""
    rows = [["x", "Ulm", 100], ["y", "Rom", 90], ["z", "Bern", ""], ["u", "Genf", 3]]
    new = table(tmp_path / "new.csv", ["name", "city", "age"], rows)
    found = predicted(tmp_path, of_a_schema, new)
    assert [row["record"] for row in found] == ["1", "2", "3", "4"]
    assert [found[i]["prediction"] for i in (0, 1, 3)] == ["high", "high", "low"]
    assert {*found[0]} == {
        *("record", "prediction", "probability low", "probability high"),
        *("logit low", "logit high"),
    }
    beyond = table(tmp_path / "beyond.csv", ["age", "city"], [[150, "Ulm"]])
    done = pea(
        *("predict", "--model", of_a_schema, "--records", beyond, "--out", tmp_path / "none.csv")
    )
    assert "beyond.csv, record 1, column age" in done.stderr
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize("known_by", ["name", "age", "number", "record"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_predictions_keep_a_column_that_identifies_records(tmp_path, of_a_schema, form, known_by):
    """As it is written: with zeros, quotation marks, without a value, and if it is a feature."""
    cells = {
        "number": ["007", "1e3", "", "12345678901234567890"],
        "name": ["x", 'a "b", c', "ü", "x"],
        "city": ["Ulm", "Rom", "Bern", "Genf"],
        "age": ["100", "90", "", "3"],
        "record": ["a", "b", "c", "d"],
    }
    new = tmp_path / f"new.{form}"
    if form == "csv":
        table(new, [*cells], [[*row] for row in zip(*cells.values(), strict=True)])
    else:
        pyarrow = pytest.importorskip("pyarrow")
        ages = [int(age) if age else None for age in cells["age"]]
        parquet = importlib.import_module("pyarrow.parquet")
        parquet.write_table(pyarrow.table({**cells, "age": ages}), new)
    plain = predicted(tmp_path, of_a_schema, new)
    predicted(tmp_path, of_a_schema, new, "--id", known_by)
    with (tmp_path / "predictions.csv").open(newline="") as file:
        titles, *rows = csv.reader(file)
    assert titles[:3] == [known_by, "record", "prediction"]
    assert [row[0] for row in rows] == cells[known_by]
    assert [row[1:] for row in rows] == [[*row.values()] for row in plain]


def test_identifiers_are_of_tables_with_that_column(tmp_path, of_a_schema):
    new = table(tmp_path / "new.csv", ["city", "age"], [["Ulm", 100]])
    arrays = tmp_path / "new.npz"
    np.savez(arrays, x=np.zeros((2, 5)))
    for records in (new, arrays):
        out = tmp_path / "none.csv"
        given = ("--model", of_a_schema, "--records", records, "--out", out, "--id", "name")
        done = pea("predict", *given)
        assert done.returncode == 1
        assert done.stderr.startswith("pea: --id ")
        assert not out.exists()


def test_tables_without_a_schema_are_matched_by_name(tmp_path):
    draws = np.random.default_rng(4)
    numbers = draws.uniform(-1, 1, (300, 3))
    rows = [[*row, "up" if row[1] > 0 else "down"] for row in numbers.tolist()]
    own = table(tmp_path / "own.csv", ["a", "b", "c", "side"], rows)
    model = trained(tmp_path, "--data", f"csv:{own}", "--label", "side")
    rows = [["07", 0.3, 0.9, 0.1], ["7", 0.3, -0.9, 0.1]]
    new = table(tmp_path / "new.csv", ["who", "c", "b", "a"], rows)
    found = predicted(tmp_path, model, new, "--id", "who")
    assert [(row["who"], row["prediction"]) for row in found] == [("07", "up"), ("7", "down")]
    lacking = table(tmp_path / "lacking.csv", ["a", "c"], [[1, 2]])
    done = pea("predict", "--model", model, "--records", lacking, "--out", tmp_path / "none.csv")
    assert "must be a table with the column 'b'" in done.stderr


def test_held_out_are_those_of_the_training(tmp_path):
    """Of the same records with columns in another order: the rows that training held out."""
    numbers = np.random.default_rng(4).uniform(-1, 1, (50, 2)).tolist()
    rows = [[*row, "up" if row[1] > 0 else "down"] for row in numbers]
    own = table(tmp_path / "own.csv", ["a", "b", "side"], rows)
    model = trained(tmp_path, "--data", f"csv:{own}", "--label", "side")
    header = read_opened(model).header
    turned = table(tmp_path / "turned.csv", ["side", "b", "a"], [row[::-1] for row in rows])
    columns, given = Columns(label="side"), GivenFeatures()
    found = held_out_of(header, turned, columns, given)
    (source,) = load_own([own], 0, columns=columns)
    np.testing.assert_array_equal(found.y, source.test_y)
    np.testing.assert_array_equal(found.x, bounded_rows(source.test_x))
    other = table(tmp_path / "other.csv", ["side", "c", "a"], [row[::-1] for row in rows])
    with refused("records", "value", "other.csv: c, a"):
        held_out_of(header, other, columns, given)


@pytest.mark.parametrize(
    ("features", "of", "package"),
    [("hashed:64", "sklearn", "scikit-learn"), ("words:512,sqrt", "wordfreq", "wordfreq")],
    ids=["hashed", "words"],
)
def test_texts_become_the_features_of_the_training(features, of, package, tmp_path):
    pytest.importorskip(of)
    words = ["good fine film", "bad dull film"]
    rows = [[words[i % 2] + f" number {i}", ("good", "bad")[i % 2]] for i in range(200)]
    own = table(tmp_path / "own.csv", ["said", "mood"], rows)
    model = trained(
        *(tmp_path, "--data", f"csv:{own}", "--label", "mood", "--text", "said"),
        *("--features", features, "--no-feature-cache"),
    )
    header = read_opened(model).header
    assert header.features == features
    assert package in header.identity
    new = table(tmp_path / "new.csv", ["said"], [["a dull bad one"], ["a fine good one"]])
    found = predicted(tmp_path, model, new, "--no-feature-cache")
    assert [row["prediction"] for row in found] == ["bad", "good"]


NETWORK = EXTRACTORS / "mobilenet_v1_0.25_128_quant.tflite"
NEEDED = {
    "hog": "skimage",
    "hog,mirror,sqrt+raw": "skimage",
    f"tflite:{NETWORK},bicubic+raw": "ai_edge_litert",
}


@pytest.mark.parametrize("features", NEEDED, ids=["hog", "combined", "network"])
def test_images_become_features_and_agree_with_what_was_trained_on(features, tmp_path):
    """The held-out records of a file of images; and the features that their owner would share."""
    digits = load_raw("digits", None, 0)
    raw = tmp_path / "raw.npz"
    names = ("train_x", "train_y", "test_x", "test_y")
    write_private(raw, **{name: getattr(digits, name)[:150] for name in names})
    pytest.importorskip(NEEDED[features])
    if "tflite" in features and not NETWORK.is_file():
        pytest.skip("no model here")
    options = ("--features", features, "--no-feature-cache")
    model = trained(tmp_path, "--data", f"npz:{raw}", *options)
    assert str(EXTRACTORS) not in read_opened(model).header.features
    named = ("--features", features) if "tflite" in features else ()
    found = predicted(tmp_path, model, raw, "--no-feature-cache", *named)
    ready = tmp_path / "features.npz"
    done = pea("features", "--records", raw, "--classes", 10, "--out", ready, *options)
    assert done.returncode == 0, done.stderr
    own = read_party_file(ready)
    logits = logits_of(read_opened(model), own.test_x)
    assert [int(row["prediction"]) for row in found] == logits.argmax(1).tolist()
    assert np.mean(logits.argmax(1) == own.test_y) > 0.3
    scores = [[float(row[f"logit {name}"]) for name in range(10)] for row in found]
    np.testing.assert_allclose(scores, logits, rtol=0, atol=1e-6)


def test_another_recipe_of_features_is_refused_and_another_version_told(tmp_path):
    rows = [[f"word{i % 2} number {i}", i % 2] for i in range(50)]
    own = table(tmp_path / "own.csv", ["said", "mood"], rows)
    model = trained(
        *(tmp_path, "--data", f"csv:{own}", "--label", "mood", "--text", "said"),
        *("--features", "hashed:64", "--no-feature-cache"),
    )
    arrays = arrays_of(model)
    text = str(arrays["header"])

    def asked(changed: str) -> str:
        np.savez(model, **arrays | {"header": np.array(changed)})
        done = pea(
            *("predict", "--model", model, "--records", own),
            *("--no-feature-cache", "--out", tmp_path / "predictions.csv"),
        )
        return done.stderr

    assert "Notice" not in asked(text)
    seed = '"features: seed":"20230521"'
    assert seed in text
    told = asked(text.replace(seed, '"features: seed":"1"'))
    assert told.startswith(
        "pea: --features must be as in the training: 1, not hashed:64, whose seed"
    )
    version = read_opened(model).header.identity["scikit-learn"]
    older = asked(
        text.replace(f'"features: scikit-learn":"{version}"', '"features: scikit-learn":"0.1"')
    )
    assert "features were taken with scikit-learn 0.1 in the training" in older


def test_a_model_is_exported_by_the_command(tmp_path, of_a_schema):
    pytest.importorskip("torch")
    out = tmp_path / "model.pt2"
    done = pea("export", "--model", of_a_schema, "--to", "torch", "--out", out)
    assert done.stdout.startswith(f"{out} "), done.stderr
    with zipfile.ZipFile(out) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("header.json"))
        assert archive.read(name).decode() == read_opened(of_a_schema).header.to_json()
    wrong = pea("export", "--model", of_a_schema, "--to", "onnx", "--out", out)
    assert "must be the path of a file that ends in .onnx" in wrong.stderr
