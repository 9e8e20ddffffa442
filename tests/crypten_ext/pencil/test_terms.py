"""What the other side of a turn states: bounded before any memory is taken for it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crypten_ext.pencil.model import read_model, write_model
from crypten_ext.pencil.terms import MESSAGE_BYTES, Offer, Terms
from crypten_ext.pencil.turn import _pieces
from extensions.errors import ArgumentError
from extensions.layers.models.custom import PREFIX
from tests.helpers.arrays import arrays_of
from tests.helpers.bombs import LARGE, array, claiming, peak, zipped
from tests.helpers.refused import refused

GOOD = {"model": "logistic", "features": 64, "classes": 3}
WIDE = asdict(Terms(model="logistic", features=1 << 16, classes=1 << 10))


def layers(*entries: Any) -> dict[str, Any]:
    return {"model": PREFIX + json.dumps(entries)}


def message(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode().ljust(MESSAGE_BYTES)


TERMS = {
    "padding": layers(["average", {"kernel": 1, "stride": 4096, "padding": 4096}]),
    "channels": layers(
        ["convolution", {"channels": 4096, "kernel": 1}], ["average", {"kernel": 1}]
    ),
    "windows": layers(*[["largest", {"kernel": 9, "stride": 1, "padding": 4}]] * 60),
    "weights": layers(*[["linear", {"outputs": 4096}]] * 60),
    "hidden": {"model": "mlp:" + ",".join(["9999"] * 700)},
    "a function": {"model": "os:system"},
}


@pytest.mark.parametrize("name", TERMS)
def test_terms_of_a_model_that_is_too_large_are_refused_before_it_is_made(name):
    said = message(WIDE | {"loss": "softmax"} | TERMS[name])
    assert len(said) == MESSAGE_BYTES

    def refused() -> None:
        with pytest.raises(ArgumentError):
            Terms.unpack(said)

    assert peak(refused) < LARGE


@pytest.mark.parametrize(
    "text",
    ["[" * MESSAGE_BYTES, '{"features": ' + "9" * 4000 + "}"],
    ids=["too deep", "a long number"],
)
@pytest.mark.parametrize("kind", [Terms, Offer])
def test_what_is_no_message_is_refused_by_one_error(kind, text):
    with refused("terms", "value", "in another"):
        kind.unpack(text.encode())


@pytest.mark.parametrize("number", [10**400, -1, float("nan")])
@pytest.mark.parametrize("name", ["max_grad_norm", "max_feature_norm"])
def test_bounds_that_are_none_are_refused(name, number):
    with pytest.raises(ArgumentError):
        Terms.unpack(message(asdict(Terms(**GOOD)) | {name: number}))


def test_an_offer_of_many_rows_takes_memory_for_a_piece_alone():
    """The model's owner has no records: what a data owner states does not make it take any."""
    terms = Terms(**{**GOOD, "features": 1 << 12})
    offer = Offer(rows=1 << 20, expected=1.0, noise_multiplier=1.0, steps=1)
    pieces = _pieces(terms, offer.rows, None)
    assert peak(lambda: next(pieces)) < LARGE // 4
    assert sum(1 for _ in _pieces(Terms(**GOOD), 600, None)) == 3


def test_rows_of_wide_windows_are_computed_a_few_at_a_time():
    wide = layers(["average", {"kernel": 64, "stride": 6}])
    assert Terms(**{**GOOD, "features": 1 << 16, **wide}).piece < 32
    assert Terms(**GOOD).piece == 256


@pytest.mark.parametrize(
    ("forged", "code", "value"),
    [
        ({"weight_0": claiming((1 << 37,))}, "file", "model.npz"),
        ({"weight_0": array(np.full((3, 64), np.nan))}, "file", "model.npz"),
        ({"bias_0": array(0.0)}, "shape", "model.npz: [(3, 64), ()]"),
        ({"bias_0": array(np.zeros((3, 1)))}, "shape", "model.npz: [(3, 64), (3, 1)]"),
        ({"bias_0": array(np.zeros(2))}, "shape", "model.npz: [(3, 64), (2,)]"),
        ({"bias_0": array(["1.0"] * 3)}, "file", "model.npz"),
        ({"terms": array("null")}, "file", "model.npz"),
        ({"terms": array('{"model": "cnn"}')}, "file", "model.npz"),
        ({"terms": array("[" * 100_000)}, "file", "model.npz"),
    ],
)
def test_a_models_file_is_read_so(forged, code, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("model.npz")
    write_model(path, Terms(**GOOD), [(np.zeros((3, 64)), np.zeros(3))])
    assert read_model(path)[0] == Terms(**GOOD)
    held = {name: array(each) for name, each in arrays_of(path).items()}
    zipped(path, **held | forged)

    def rejected() -> None:
        with refused("start", code, value):
            read_model(path)

    assert peak(rejected) < LARGE
