"""A model's file: its header, what it says of records, and its exports in other frameworks."""

import csv
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from extensions.layers.losses import LOSSES
from extensions.layers.spec import ModelSpec
from extensions.layers.tally import EDGES, edges_of
from extensions.protocols.noisy_sums.second_moment import pack, second_moment, unit_rows
from extensions.protocols.noisy_sums.whitening import Whitening
from extensions.runs.config import TrainConfig
from extensions.runs.model import (
    Header,
    OpenedModel,
    header_of,
    logits_of,
    read_opened,
    scores_of,
    write_opened,
    write_predictions,
)
from extensions.runs.model.export import FORMATS, export
from tests.helpers.arrays import arrays_of
from tests.helpers.people import SCHEMA
from tests.helpers.refused import refused

REPORT = dict.fromkeys(
    [
        *("epsilon", "delta", "neighbours", "epsilon_by_neighbours", "held_out_epsilon"),
        *("noise_multiplier", "sample_rate", "insecure_seed"),
    ]
) | {"manifest": {"digest": "0", "run": {}}}


def model_of(text="mlp:7,5", columns=12, classes=3, **settings) -> OpenedModel:
    """A model with large weights, so that caps are met and logits differ."""
    settings = {"private": False, **settings}
    config = TrainConfig(model=text, classes=classes, **settings)
    header = header_of(config, REPORT | {"epsilon": 2.5, "delta": 1e-5}, {}, columns)
    draws = np.random.default_rng(5)
    shapes = zip(header.spec.widths[:-1], header.spec.widths[1:], strict=True)
    parameters = [(draws.normal(0, 4, (m, n)), draws.normal(0, 1, m)) for n, m in shapes]
    return OpenedModel(header=header, parameters=parameters)


def whitened_model(text="mlp:7,5", norm=1.0) -> OpenedModel:
    """One whose features are whitened, with rows of a norm of its own."""
    draws = np.random.default_rng(7).normal(size=(60, 12)) * 0.7 ** np.arange(12)
    rows = unit_rows(np.rint(draws * 2.0**20).astype(np.int64), 2.0**21)
    whitening = Whitening(parts=pack(second_moment(rows)), ridge=0.25)
    model = model_of(text, whiten=True, whiten_ridge=0.25, max_feature_norm=norm)
    config = TrainConfig(**model.header.run, facts={})
    header = header_of(config, REPORT, {}, 12, whitening)
    return OpenedModel(header=header, parameters=model.parameters, whitening=whitening)


def records(features: int = 12) -> np.ndarray:
    x = np.random.default_rng(6).normal(size=(40, features))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_a_header_says_all_and_comes_back_as_it_was():
    facts = SCHEMA.facts() | {"features: scikit-learn": "1.7"}
    header = model_of("logistic", 6, 2, facts=facts, features="hashed").header
    back = Header.of_json(header.to_json())
    assert back.to_json() == header.to_json()
    assert back.spec == ModelSpec(widths=(6, 2))
    assert back.schema == SCHEMA
    assert back.classes == ("low", "high")
    assert back.columns == SCHEMA.features
    assert back.identity == {"scikit-learn": "1.7"}
    assert (back.frac_bits, back.features, back.max_feature_norm) == (20, "hashed", 1.0)
    assert (back.privacy["epsilon"], back.privacy["delta"]) == (2.5, 1e-5)
    assert TrainConfig(**back.run, facts=facts) == TrainConfig(
        model="logistic", classes=2, private=False, facts=facts, features="hashed"
    )
    hidden = json.loads(model_of().header.to_json())["network"]
    assert hidden["activations"] == [{"name": "relu", "max_value": 8.0}] * 2


def test_numpy_alone_reads_a_file_and_its_owner_alone_may(tmp_path):
    model = model_of()
    path = write_opened(tmp_path / "model.npz", model)
    assert path.stat().st_mode & 0o777 == 0o600
    with np.load(path, allow_pickle=False) as arrays:
        assert json.loads(str(arrays["header"]))["format"] == "pea model 1"
        np.testing.assert_array_equal(arrays["weight_2"], model.parameters[2][0])
    back = read_opened(path)
    np.testing.assert_array_equal(logits_of(back, records()), logits_of(model, records()))


def test_a_whitened_model_keeps_what_was_opened_and_maps_records_by_it(tmp_path):
    model = whitened_model(norm=2.0)
    assert model.whitening is not None
    back = read_opened(write_opened(tmp_path / "model.npz", model))
    np.testing.assert_array_equal(logits_of(back, records()), logits_of(model, records()))
    as_they_are = OpenedModel(header=model_of().header, parameters=model.parameters)
    mapped = model.whitening.rows(records(), 2.0)
    expected = logits_of(as_they_are, mapped)
    np.testing.assert_allclose(logits_of(model, records()), expected, rtol=0, atol=1e-12)
    assert np.abs(expected - logits_of(as_they_are, records())).max() > 1.0
    arrays = arrays_of(tmp_path / "model.npz")
    damaged = {
        "no diagonal": {"whitening_diagonal": None},
        "other numbers": {"whitening_upper": arrays["whitening_upper"] + 1},
        "other shapes": {"whitening_upper": np.zeros(3, dtype=np.int64)},
        "reals": {"whitening_diagonal": arrays["whitening_diagonal"].astype(np.float64)},
    }
    for change in damaged.values():
        kept = {name: value for name, value in (arrays | change).items() if value is not None}
        np.savez(tmp_path / "model.npz", **kept)
        with refused("model", "file", str(tmp_path / "model.npz")):
            read_opened(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("change", "argument", "code", "value"),
    [
        ({"header": None}, "model", "file", "model.npz, which has no header"),
        ({"header": np.array("{}")}, "header", "file", "another one"),
        ({"weight_1": None}, "model", "shape", "model.npz: [(7, 12), (7,), (5,), (3, 5), (3,)]"),
        (
            {"weight_1": np.zeros((2, 2))},
            "model",
            "shape",
            "model.npz: [(7, 12), (7,), (2, 2), (5,), (3, 5), (3,)]",
        ),
        ({"bias_0": np.full(7, np.nan)}, "model", "file", "model.npz"),
        ({"save": np.array([1])}, "model", "file", "model.npz"),
    ],
)
def test_a_file_that_is_no_opened_model_is_refused(
    tmp_path, monkeypatch, change, argument, code, value
):
    monkeypatch.chdir(tmp_path)
    path = write_opened(Path("model.npz"), model_of())
    arrays = arrays_of(path) | change
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    with refused(argument, code, value):
        read_opened(path)


def test_activations_are_capped():
    model = model_of("mlp:7", 12, 3)
    (w0, b0), (w1, b1) = model.parameters
    sums = records() @ w0.T + b0
    assert (sums > 8).any()
    expected = np.minimum(np.maximum(sums, 0), 8) @ w1.T + b1
    np.testing.assert_allclose(logits_of(model, records()), expected, rtol=0, atol=1e-12)


def test_records_of_another_width_are_refused():
    with refused("records", "shape", "11 features a record"):
        logits_of(model_of(), records(11))


@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_name_classes_and_are_probabilities(tmp_path, loss):
    facts = {f"class {place}": name for place, name in enumerate(("a", "b,c", "d"))}
    model = model_of(loss=loss, facts=facts)
    logits = logits_of(model, records())
    path = write_predictions(model.header, logits, tmp_path / "predictions.csv")
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["record"] for row in rows] == [str(number) for number in range(1, 41)]
    found = np.array([[float(row[f"logit {name}"]) for name in facts.values()] for row in rows])
    np.testing.assert_array_equal(found, logits)
    assert [row["prediction"] for row in rows] == [[*facts.values()][i] for i in logits.argmax(1)]
    scores = np.array([[float(row[f"probability {n}"]) for n in facts.values()] for row in rows])
    np.testing.assert_array_equal(scores, scores_of(loss, logits))
    if loss == "softmax":
        np.testing.assert_allclose(scores.sum(1), 1, atol=1e-12)
    elif loss == "hard-sigmoid":
        np.testing.assert_allclose(scores, np.clip(logits / 4 + 1 / 2, 0, 1), atol=1e-12)
    elif loss == "least-squares":
        np.testing.assert_allclose(scores, np.clip(logits + 1 / 3, 0, 1), atol=1e-12)
    elif loss == "squared":
        np.testing.assert_allclose(scores, np.clip(logits + 1 / 2, 0, 1), atol=1e-12)
    else:
        np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)), atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_probabilities_of_two_classes_sum_to_one_and_are_those_that_are_counted(loss):
    """A record is in the bin of its probability's log-odds, and the larger one is predicted."""
    logits = np.random.default_rng(8).normal(0, 1, (500, 2)) + 0.4
    scores = scores_of(loss, logits)
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert (scores >= 0).all()
    np.testing.assert_array_equal(scores.argmax(axis=1), logits.argmax(axis=1))
    within = (scores[:, 1] > 1e-6) & (scores[:, 1] < 1 - 1e-6)
    odds = np.log(scores[within, 1] / scores[within, 0])
    apart = (logits[:, 1] - logits[:, 0])[within]
    places = np.digitize(apart, np.array(edges_of(loss, 40)) / 2.0**40)
    np.testing.assert_array_equal(places, np.digitize(odds, EDGES))
    assert len({*places}) > 20


def test_one_output_and_its_negative_have_its_probability():
    one = np.linspace(-3, 3, 7)
    scores = scores_of("sigmoid", np.stack([-one, one], axis=1))
    np.testing.assert_allclose(scores[:, 1], 1 / (1 + np.exp(-one)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_onnx_gives_the_same_logits(tmp_path, classes):
    onnx = pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    for loss in LOSSES:
        model = model_of(loss=loss, classes=classes)
        path = export(model, "onnx", tmp_path / f"{loss}.onnx")
        logits, scores = reference.ReferenceEvaluator(str(path)).run(None, {"features": records()})
        expected = logits_of(model, records())
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(scores, scores_of(loss, expected), rtol=0, atol=1e-6)
        (kept,) = onnx.load(str(path)).metadata_props
        assert (kept.key, kept.value) == ("header", model.header.to_json())


def test_onnx_whitens(tmp_path):
    pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    model, x = whitened_model(norm=2.0), np.vstack([records(), np.zeros((1, 12))])
    path = export(model, "onnx", tmp_path / "model.onnx")
    logits, _ = reference.ReferenceEvaluator(str(path)).run(None, {"features": x})
    np.testing.assert_allclose(logits, logits_of(model, x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("model", [model_of(), whitened_model(norm=2.0)], ids=["", "whitened"])
def test_torch_gives_the_same_logits(tmp_path, model):
    torch = pytest.importorskip("torch")
    path = export(model, "torch", tmp_path / "model.pt2")
    kept = {"header.json": ""}
    program = torch.export.load(path, extra_files=kept).module()
    for rows in (1, 40):
        logits = program(torch.tensor(records()[:rows])).numpy()
        expected = logits_of(model, records()[:rows])
        np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-6)
    assert kept["header.json"] == model.header.to_json()


@pytest.mark.parametrize("model", [model_of(), whitened_model(norm=2.0)], ids=["", "whitened"])
def test_keras_gives_the_same_logits(tmp_path, tfe_process, model):
    source, path = write_opened(tmp_path / "model.npz", model), tmp_path / "model.keras"
    np.save(tmp_path / "x.npy", records())
    logits = tfe_process.run(
        "tests.helpers.tfe_tasks.exported:logits_of_an_export",
        model=str(source),
        out=str(path),
        records=str(tmp_path / "x.npy"),
    )
    np.testing.assert_allclose(logits, logits_of(model, records()), rtol=0, atol=1e-6)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("header.json").decode() == model.header.to_json()
    assert path.stat().st_mode & 0o777 == 0o600


def test_npz_is_read_by_numpy_alone(tmp_path):
    path = export(model_of(), "npz", tmp_path / "again.npz")
    back = read_opened(path)
    np.testing.assert_array_equal(logits_of(back, records()), logits_of(model_of(), records()))


def test_safetensors_hold_what_arrays_hold(tmp_path):
    model = model_of()
    path = write_opened(tmp_path / "model.safetensors", model)
    assert path.stat().st_mode & 0o077 == 0
    again = read_opened(path)
    assert again.header.to_json() == model.header.to_json()
    for ours, theirs in zip(again.parameters, model.parameters, strict=True):
        assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))
    content = path.read_bytes()
    for cut in (0, 7, 100, len(content) - 1):
        path.write_bytes(content[:cut])
        with refused("model", "file", str(path)):
            read_opened(path)


def test_a_format_and_its_suffix_are_checked_first(tmp_path):
    with refused("to", "choice", value="pickle"):
        export(model_of(), "pickle", tmp_path / "model.pkl")
    for name in FORMATS.keys() - {"points", "peft"}:  # which are of additive models and adapters
        with refused("out", "file", str(tmp_path / "model.bin")):
            export(model_of(), name, tmp_path / "model.bin")
    assert [*tmp_path.iterdir()] == []


def test_without_the_framework_the_pip_command_is_told(tmp_path):
    """A process in which no framework can be imported still exports arrays."""
    write_opened(tmp_path / "model.npz", model_of())
    program = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'tf_keras'): sys.modules[name] = None\n"
        "from pathlib import Path\n"
        "from extensions.errors import MissingExtraError\n"
        "from extensions.runs.model import read_opened\n"
        "from extensions.runs.model.export import FORMATS, export\n"
        "folder = Path(sys.argv[1])\n"
        "for name, each in FORMATS.items():\n"
        "    if name in ('points', 'peft'): continue\n"
        "    try:\n"
        "        export(read_opened(folder / 'model.npz'), name, folder / f'again{each.suffix}')\n"
        "        print(name)\n"
        "    except MissingExtraError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "torch is not installed. Type in your clone of PEA: pip install '.[fl]'",
        "onnx is not installed. Type in your clone of PEA: pip install '.[onnx]'",
        "tf_keras is not installed. Type in your clone of PEA: pip install '.[tfe]'",
        "safetensors",
        "npz",
    ]
