"""A header whoever wrote it: what it claims costs nothing before it is refused, by one error."""

import json
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError
from extensions.layers.models.custom import PREFIX
from extensions.layers.spec import ModelSpec
from extensions.runs.model import Header, logits_of, read_opened, write_opened
from extensions.runs.model.joint_use import Request, settings_of
from tests.extensions.runs.test_model import model_of
from tests.helpers.arrays import arrays_of
from tests.helpers.bombs import LARGE, peak
from tests.helpers.refused import refused

SAID = json.loads(model_of("logistic", 12, 3).header.to_json())


def header(**changes: Any) -> str:
    return json.dumps(SAID | changes)


def network(**changes: Any) -> dict[str, Any]:
    return {"network": SAID["network"] | changes}


DEEP = "[" * 100_000
TARGET = {"column": "y", "classes": [], "weights": [], "outside": "clip"}
FACTS = {"schema basis": "public", "schema order of columns": ["x"], "schema unit": None}
FACTS |= {"schema column x": {"range": [0.0, 1.0]}}
HEADERS = {
    "no JSON": "{",
    "too deep": DEEP + "]" * 100_000,
    "a list": "[]",
    "null": "null",
    "a long number": header(frac_bits=1).replace('"frac_bits": 1', '"frac_bits": ' + "9" * 5000),
    "many classes": header(**network(widths=[12, 1 << 40])),
    "many features": header(**network(widths=[1 << 40, 3])),
    "negative": header(**network(widths=[-1, 3])),
    "no widths": header(**network(widths=[])),
    "infinite widths": header(**network(widths=[12, 3])).replace("12, 3", "1e400, 3"),
    "another architecture": header(**network(architecture="os:system")),
    "a list of layers that is none": header(**network(architecture=PREFIX + "[]")),
    "layers too deep": header(**network(architecture=PREFIX + DEEP)),
    "features that are no text": header(features={"a": 1}),
    "facts that are no names": header(facts=[1]),
    "a run that is none": header(run=None),
    "precision": header(frac_bits=1000),
    "a truth as precision": header(frac_bits=True),
    "a norm that is none": header(max_feature_norm="1"),
    "a negative norm": header(max_feature_norm=-1.0),
    "half a schema": header(facts={"schema basis": "public"}),
    "half a range": header(facts=FACTS | {"schema target": TARGET | {"range": [1]}}),
    "no range": header(facts=FACTS | {"schema target": TARGET | {"range": ""}}),
    "a whitening that is none": header(whitening=[1]),
    "half a whitening": header(whitening={"ridge": 1.0}),
    "a whitening without a ridge": header(whitening={"ridge": None, "digest": ""}),
}


@pytest.mark.parametrize("name", HEADERS)
def test_what_is_no_header_is_refused_by_one_error(name):
    def refused() -> None:
        with pytest.raises(ArgumentError) as caught:
            Header.of_json(HEADERS[name])
        assert caught.value.argument == "header"

    assert peak(refused) < LARGE // 4


@pytest.mark.parametrize(
    "run",
    [
        {"os": "system"},
        {"model": "os:system"},
        {"backend": "os"},
        {"init": "../weights.npz"},
        {"parties": 1 << 40},
        {"frac_bits": "20"},
        {"steps": None},
    ],
)
def test_settings_of_a_run_that_cannot_be_are_refused(run):
    said = Header.of_json(header(run=SAID["run"] | run))
    with pytest.raises(ArgumentError) as caught:
        settings_of(said, Request(task="open"))
    assert caught.value.argument == "header"


@pytest.mark.parametrize("widths", [(0, 3), (3, 0), (1 << 25, 3), (3, 1 << 17), (3, 1 << 60, 2)])
def test_a_model_has_widths_that_are_bounded(widths):
    with refused("widths", "range", widths):
        ModelSpec(widths=widths)


def test_records_are_computed_so_many_at_a_time_as_fit(tmp_path):
    """Windows of 2^22 values a record, which a header names, do not come with 256 records."""
    layers = json.dumps([["average", {"kernel": 64, "stride": 6}]])
    model = model_of("logistic", 256 * 256, 2)
    said = json.loads(model.header.to_json())
    said["network"] |= {"architecture": PREFIX + layers}
    weights = {"weight_0": np.ones((2, 33 * 33)), "bias_0": np.zeros(2)}
    path = write_opened(tmp_path / "model.npz", model)
    arrays = arrays_of(path) | weights | {"header": np.array(json.dumps(said))}
    np.savez(path, **arrays)
    opened, records = read_opened(path), np.ones((64, 256 * 256))
    assert opened.header.spec.network.rows_at_once(256) < len(records)
    assert peak(lambda: logits_of(opened, records)) < 4 * LARGE
