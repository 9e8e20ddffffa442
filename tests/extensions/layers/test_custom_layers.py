"""Models of one's own: lists of layers, by a function or written down, are data and checked."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from extensions.errors import ArgumentError
from extensions.layers.activations import relu, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.models.custom import PREFIX, Layers, named, stages_of, takes_images
from extensions.layers.spec import ModelSpec
from extensions.layers.stages.grid import Grid
from tests.helpers.bombs import LARGE, peak
from tests.helpers.refused import refused

MODULE = """
def net(layers):
    layers.convolution(4, (5, 3), stride=2, padding=1).activation("tanh").average(2)
    layers.linear(16).activation("relu")

def empty(layers):
    pass

NUMBER = 3

def wrong(layers):
    layers.activation("gelu")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """The current folder, with a module of models."""
    (tmp_path / "own_models_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_models_of_a_test", None)


def test_a_function_is_called_once_and_only_its_layers_are_kept(folder: Path):
    text = named("own_models_of_a_test:net")
    assert str(folder) not in sys.path
    entries = json.loads(text.removeprefix(PREFIX))
    assert entries == [
        ["convolution", {"channels": 4, "kernel": [5, 3], "stride": 2, "padding": 1}],
        ["activation", {"function": "tanh"}],
        ["average", {"kernel": 2}],
        ["linear", {"outputs": 16}],
        ["activation", {"function": "relu"}],
    ]
    (folder / "own_models_of_a_test.py").unlink()
    spec = ModelSpec.parse(text, 28 * 28, 10)
    sketch = NetworkBuilder(Grid(channels=1, height=28, width=28))
    sketch.convolution(4, (5, 3), stride=2, padding=1).activation(tanh()).average(2)
    sketch.linear(16).activation(relu()).linear(10)
    assert list(spec.network.stages) == sketch.stages
    assert spec.takes_images
    assert spec.is_deep


@pytest.mark.parametrize("text", ["logistic", "mlp:32", "mlp:3,4", "lenet", PREFIX + "[]"])
def test_other_names_stay_as_they_are(text: str):
    assert named(text) == text


def test_lists_of_rows_take_any_records():
    text = Layers().linear(7).activation("sigmoid").text()
    assert not takes_images(text)
    assert [stage.inputs for stage in stages_of(text, 13, 3)] == [13, 7, 7]
    assert not ModelSpec.parse(text, 13, 3).takes_images


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("own_models_of_a_test:nothing", "value"),
        ("no_such_module:net", "value"),
        ("own_models_of_a_test:NUMBER", "type"),
        ("own_models_of_a_test:empty", "value"),
        ("own_models_of_a_test:wrong", "value"),
    ],
)
def test_functions_that_make_no_model_are_refused(folder: Path, text: str, code: str):
    wrong = 'layers:[["activation",{"function":"gelu"}]]'
    with refused("model", code, value=wrong if text.endswith(":wrong") else text):
        named(text)


@pytest.mark.parametrize(
    "listed",
    [
        "",
        "{}",
        "[]",
        "[3]",
        '[["linear"]]',
        '[["text", {}]]',
        '[["__init__", {}]]',
        '[["linear", {"outputs": "8"}]]',
        '[["linear", {"outputs": -1}]]',
        '[["linear", {"outputs": 5000}]]',
        '[["linear", {"outputs": true}]]',
        '[["linear", {"outputs": 3, "trained": false}]]',
        '[["convolution", {"channels": 2, "kernel": [3, 3, 3]}]]',
        '[["activation", {"function": ["tanh"]}]]',
        json.dumps([["linear", {"outputs": 2}]] * 65),
        "[" * 100_000,
    ],
)
def test_what_a_stranger_wrote_is_a_list_of_layers_or_refused(listed: str):
    with refused("model", "value", PREFIX + listed):
        ModelSpec.parse(PREFIX + listed, 64, 10)


@pytest.mark.parametrize(
    "layers",
    [
        Layers().largest(3, padding=4096),
        Layers().largest(100, padding=99, stride=1),
        Layers().convolution(4096, 60, padding=30),
        Layers().convolution(2, 40),
        Layers().linear(4).average(2),
        Layers().largest(0),
    ],
)
def test_layers_that_do_not_fit_or_take_too_much_are_refused_before_memory_is(layers: Layers):
    with pytest.raises(ArgumentError):
        ModelSpec.parse(layers.text(), 256, 10).network  # noqa: B018


def repeated(times: int, **values: int) -> Layers:
    layers = Layers()
    for _ in range(times):
        layers.largest(3, stride=1, padding=1, **values)
    return layers


@pytest.mark.parametrize(
    "layers",
    [
        Layers().average(1, stride=4096, padding=4096),
        Layers().convolution(1, 1, stride=4096, padding=(4096, 0)).average(1),
        Layers().convolution(4096, 1).average(1),
        repeated(64),
        Layers().residual(lambda branch: repeated(60).entries and branch.largest(64, stride=1)),
        Layers().linear(4096).linear(4096).linear(4096).linear(4096).linear(4096),
    ],
    ids=["padding", "padding down", "channels", "many layers", "a branch", "weights"],
)
@pytest.mark.parametrize("features", [256 * 256, 3 * 144 * 144])
def test_all_layers_together_are_bounded_before_memory_is_taken(layers: Layers, features: int):
    """A list of 500 bytes, of somebody else, is refused or takes little."""
    text = layers.text()

    def parsed() -> None:
        with suppress(ArgumentError):
            ModelSpec.parse(text, features, 1 << 10).network  # noqa: B018

    assert len(text) < 4096
    assert peak(parsed) < LARGE


@pytest.mark.parametrize("model", ["lenet", "cnn"])
def test_named_networks_take_images_up_to_a_size(model: str):
    assert ModelSpec.parse(model, 512 * 512, 2).network.widths[0] == 512 * 512
    with refused("model", "value", model):
        ModelSpec.parse(model, 513 * 513, 2).network  # noqa: B018
