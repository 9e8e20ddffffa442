"""Convolutional networks in the command: their settings, their files, and a step of plaintext."""

from pathlib import Path

import numpy as np
import pytest

from extensions.layers.passes import forward
from extensions.layers.spec import ModelSpec
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from extensions.runs.config import TrainConfig
from extensions.runs.model import OpenedModel, logits_of, read_opened, write_opened
from extensions.runs.model.export import export
from extensions.runs.model.header import Header, header_of
from tests.extensions.runs.test_model import REPORT
from tests.helpers.refused import refused


def model_of(kind: str) -> OpenedModel:
    config = TrainConfig(model=kind, classes=10, private=False, loss="softmax")
    header = header_of(config, REPORT, {}, 784)
    return OpenedModel(header=header, parameters=header.spec.initial_parameters())


@pytest.mark.parametrize("kind", ["lenet", "cnn"])
def test_a_file_holds_an_architecture_and_says_what_training_says(kind: str, tmp_path: Path):
    model = model_of(kind)
    back = read_opened(write_opened(tmp_path / "model.npz", model))
    assert back.header.spec == ModelSpec(widths=(784, 10), loss="softmax", kind=kind)
    x = np.random.default_rng(1).standard_normal((7, 784))
    x /= np.linalg.norm(x, axis=1, keepdims=True) / 9.0
    parameters = [(encode(w, 16), encode(b, 16)) for w, b in model.parameters]
    trace = forward(ClearRing(16), model.header.spec.network, parameters, encode(x, 16))
    np.testing.assert_allclose(logits_of(back, x), decode(trace.logits, 16), rtol=0, atol=1e-3)
    with refused("to", "value", value="onnx"):
        export(back, "onnx", tmp_path / "model.onnx")


def test_no_file_names_code_that_is_run():
    text = model_of("lenet").header.to_json().replace('"lenet"', '"os:abort"')
    with refused("header", "file", "another one"):
        Header.of_json(text)


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [("features", "choice", "hog"), ("whiten", "conflict", True), ("init", "choice", "zero")],
)
def test_what_takes_no_images_is_refused(name: str, code: str, value: object):
    with refused(name, code, value):
        TrainConfig(model="cnn", classes=10, private=False, **{name: value})  # type: ignore[arg-type]
