"""Starts from a file: known by content, kept on each host, and of this model or refused."""

from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import write_private
from extensions.layers.models.start_file import is_file, with_digest
from extensions.layers.spec import ModelSpec
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

SPEC = ModelSpec.parse("mlp:3", 4, 2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def arrays(seed: int = 1) -> dict[str, np.ndarray]:
    draws, found = np.random.default_rng(seed), {}
    for i, (outputs, inputs) in enumerate(SPEC.network.parameter_shapes):
        found[f"weight_{i}"] = draws.normal(size=(outputs, inputs))
        found[f"bias_{i}"] = draws.normal(size=outputs)
    return found


def test_a_start_is_that_of_the_file_wherever_it_lies_and_whatever_else_is_in_it(tmp_path: Path):
    given = arrays()
    write_private(tmp_path / "a.npz", **given)
    write_private(tmp_path / "b.npz", **given, header=np.array("a model's"))
    first, second = (with_digest(str(tmp_path / name)) for name in ("a.npz", "b.npz"))
    assert first == second
    assert is_file(first)
    write_private(tmp_path / "a.npz", **arrays(2))
    assert with_digest(str(tmp_path / "a.npz")) != first
    for i, (weight, bias) in enumerate(SPEC.initial_parameters(first)):
        np.testing.assert_array_equal(weight, given[f"weight_{i}"])
        np.testing.assert_array_equal(bias, given[f"bias_{i}"])
    assert TrainConfig(model="mlp:3", private=False, init=first).public_init == first


def test_other_texts_are_no_paths():
    assert [with_digest(text) for text in ("zero", "local")] == ["zero", "local"]
    for wrong in ("file:", "file:../../x", "model.pt"):
        with refused("init", "choice", wrong):
            TrainConfig(private=False, init=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"weight_0": np.ones((3, 4))},
        {"weight_0": np.ones((3, 4)), "bias_0": np.full(3, np.nan)},
        {"weight_0": np.ones((3, 4)), "bias_0": np.array(["a"] * 3)},
        {"weight_0": np.ones((3, 4)), "bias_1": np.ones(3)},
    ],
)
def test_files_of_no_weights_are_refused(tmp_path: Path, wrong: dict[str, np.ndarray]):
    write_private(tmp_path / "x.npz", **wrong)
    with refused("init", "file", str(tmp_path / "x.npz")):
        with_digest(str(tmp_path / "x.npz"))
    with refused("init", "file", str(tmp_path / "missing.npz")):
        with_digest(str(tmp_path / "missing.npz"))


def test_weights_of_another_model_or_another_host_are_refused(tmp_path: Path, cache: Path):
    write_private(tmp_path / "a.npz", **arrays())
    init = with_digest(str(tmp_path / "a.npz"))
    with refused("init", "shape", "those of shapes [(3, 4), (2, 3)]"):
        ModelSpec.parse("mlp:4", 4, 2).initial_parameters(init)
    (copy,) = (cache / "pea" / "starts").iterdir()
    copy.write_bytes((tmp_path / "a.npz").read_bytes()[:-40])
    with refused("init", "file", str(copy)):
        ModelSpec.parse("mlp:5", 4, 2).initial_parameters(init)
    copy.unlink()
    with refused("init", "file", init):
        ModelSpec.parse("mlp:5", 4, 2).initial_parameters(init)


def test_a_start_of_other_features_is_refused():
    with refused("whiten", "conflict", value=True):
        TrainConfig(private=False, init="file:" + "0" * 64, whiten=True)
