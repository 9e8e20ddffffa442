"""A model of PyTorch that CrypTen converts to another function is rejected, and its layer named."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

import crypten_ext
from extensions.errors import UnsupportedLayerError

import crypten
from crypten.nn import onnx_converter

IMAGES, SIGNALS, ROWS = (1, 2, 7, 7), (1, 2, 9), (1, 6)


@pytest.fixture(autouse=True)
def one_party() -> Iterator[None]:
    """CrypTen runs as a single party, with our methods."""
    started = not crypten.communicator.is_initialized()
    if started:
        crypten.init()
    crypten_ext.enable()
    yield
    crypten_ext.disable()
    if started:
        crypten.uninit()


def behind(layer: nn.Module) -> tuple[nn.Module, ...]:
    return nn.Conv2d(2, 4, 1), nn.ReLU(), layer


OTHERS = {
    "dilation of pooling": (behind(nn.MaxPool2d(2, dilation=2)), IMAGES, "2"),
    "window of a maximum": (behind(nn.MaxPool2d((2, 3), stride=2)), IMAGES, "2"),
    "padding of a maximum": (behind(nn.MaxPool2d(3, 2, padding=(0, 1))), IMAGES, "2"),
    "window of a mean": (behind(nn.AvgPool2d((3, 2), stride=2)), IMAGES, "2"),
    "padding of a mean": (behind(nn.AvgPool2d(3, 2, padding=(1, 0))), IMAGES, "2"),
    "what counts": (behind(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), IMAGES, "2"),
    "divisor": (behind(nn.AvgPool2d(2, divisor_override=3)), IMAGES, "2"),
    "mean of signals": ((nn.Conv1d(2, 4, 1), nn.AvgPool1d(2)), SIGNALS, "1"),
    "maximum of signals": ((nn.Conv1d(2, 4, 1), nn.MaxPool1d(2)), SIGNALS, "1"),
    "padding of a convolution": ((nn.Conv2d(2, 4, (3, 1), padding=(1, 0)),), IMAGES, "0"),
    "padding and stride": ((nn.Conv2d(2, 4, 3, stride=(1, 3), padding=(1, 0)),), IMAGES, "0"),
    "padding of many": ((nn.Conv2d(2, 4, 3, padding=(0, 1), groups=2),), IMAGES, "0"),
    "what fits no more": (
        (nn.Conv2d(2, 4, 3, padding=(1, 0)), nn.ReLU(), nn.Flatten(), nn.Linear(140, 3)),
        IMAGES,
        "0",
    ),
    "inner layer": (
        (nn.Sequential(nn.Conv2d(2, 4, 1), nn.Sequential(nn.MaxPool2d(2, dilation=2))),),
        IMAGES,
        "0.1.0",
    ),
    "after one in place": (
        (nn.Conv2d(2, 4, 1), nn.ReLU(inplace=True), nn.MaxPool2d((2, 3), stride=2)),
        IMAGES,
        "2",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("start", ["random", "zeros"])
def test_a_layer_that_becomes_another_function_is_named(name, start):
    layers, shape, place = OTHERS[name]
    model = copy.deepcopy(nn.Sequential(*layers))
    if start == "zeros":
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    kind = type(model.get_submodule(place)).__name__
    with pytest.raises(UnsupportedLayerError, match=re.escape(f"'{place}', {kind}(")):
        crypten.nn.from_pytorch(model, torch.zeros(shape))


def test_all_attributes_of_the_layer_are_told():
    model = nn.Sequential(nn.AvgPool2d(3, 2, 1, count_include_pad=False))
    with pytest.raises(UnsupportedLayerError, match="count_include_pad=False"):
        crypten.nn.from_pytorch(model, torch.zeros(IMAGES))


SAME = {
    "strides": ((nn.Conv2d(2, 4, 3, stride=(1, 2)),), IMAGES),
    "kernel": ((nn.Conv2d(2, 4, (3, 1), bias=False),), IMAGES),
    "dilations": ((nn.Conv2d(2, 4, 2, dilation=(1, 2), groups=2),), IMAGES),
    "signals": ((nn.Conv1d(2, 4, 3, stride=2, padding=1, dilation=2),), SIGNALS),
    "padded mean": (behind(nn.AvgPool2d(3, 2, padding=1)), IMAGES),
    "what counts of no padding": (behind(nn.AvgPool2d(2, count_include_pad=False)), IMAGES),
    "padded maximum": (behind(nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)), IMAGES),
    "global mean": (behind(nn.AdaptiveAvgPool2d(1)), IMAGES),
    "activations": ((nn.Linear(6, 4), nn.Tanh(), nn.Sigmoid(), nn.ReLU6(), nn.GELU()), ROWS),
    "classes": ((nn.Linear(6, 4), nn.LogSoftmax(1)), ROWS),
    "dropout": ((nn.Linear(6, 4, bias=False), nn.Dropout(), nn.Linear(4, 2)), ROWS),
    "normalised": ((nn.Linear(6, 4), nn.BatchNorm1d(4, eps=0.5, affine=False)), (3, 6)),
    "flat": ((nn.Flatten(1, 2), nn.Conv1d(14, 3, 2), nn.Flatten()), IMAGES),
    "in place": ((nn.Linear(6, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)), ROWS),
}


@pytest.mark.parametrize("name", SAME)
def test_what_computes_the_same_is_converted(name):
    layers, shape = SAME[name]
    model = copy.deepcopy(nn.Sequential(*layers))
    before, drawn = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    example = torch.zeros(shape)
    converted = crypten.nn.from_pytorch(model, example)
    assert converted.not_compared == ""
    assert converted.training
    assert model.training
    assert not example.any()
    assert torch.equal(torch.random.get_rng_state(), drawn)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    for key, parameter in converted.named_parameters():
        if (known := before.get(key.removesuffix(".data"))) is not None:
            assert torch.equal(parameter, known), key


class Calling(nn.Module):
    """Calls a function behind its layer."""

    def __init__(self, function: Callable[..., torch.Tensor], *options: Any) -> None:
        super().__init__()
        self.layer, self.function, self.options = nn.Conv2d(2, 4, 1), function, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x), *self.options)


@pytest.mark.parametrize(
    "options",
    [(nn.functional.max_pool2d, 2, None, 0, 2), (torch.clamp, -0.25, 2.5)],
    ids=["dilation", "bounds"],
)
def test_functions_that_a_model_calls_are_compared_too(options):
    with pytest.raises(UnsupportedLayerError, match="Calling"):
        crypten.nn.from_pytorch(Calling(*options), torch.zeros(IMAGES))
    with pytest.raises(UnsupportedLayerError, match="'0', Calling"):
        crypten.nn.from_pytorch(nn.Sequential(Calling(*options)), torch.zeros(IMAGES))


def test_functions_that_stay_what_they_are_may_be_called():
    for function, *options in ((nn.functional.max_pool2d, 2), (torch.relu,), (torch.flatten, 1)):
        model = crypten.nn.from_pytorch(Calling(function, *options), torch.zeros(IMAGES))
        assert model.not_compared == ""


class Adding(nn.Module):
    """Takes two inputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.layer(y)


def test_models_of_several_inputs_are_compared():
    examples = torch.zeros(IMAGES), torch.zeros(IMAGES)
    assert crypten.nn.from_pytorch(Adding(nn.MaxPool2d(2)), examples).not_compared == ""
    with pytest.raises(UnsupportedLayerError, match="'layer', MaxPool2d"):
        crypten.nn.from_pytorch(Adding(nn.MaxPool2d(2, dilation=2)), examples)


# What an optimizer takes


def optimizer(model: Any) -> None:
    crypten_ext.optim.DPSGD(model.encrypt(), 1.0, 1.0, 1.0, 1.0)


class WithConstant(nn.Module):
    """Its bias is no buffer, so that the model does not compute in double precision."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(3, 6)), torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight, self.bias)


def test_what_cannot_be_compared_is_not_trained():
    model = crypten.nn.from_pytorch(WithConstant(), torch.zeros(ROWS))
    assert model.not_compared
    with pytest.raises(UnsupportedLayerError, match=re.escape(model.not_compared)):
        optimizer(model)


def test_what_was_converted_without_a_comparison_is_not_trained():
    linear, example = nn.Sequential(nn.Linear(6, 3)), torch.zeros(ROWS)
    crypten_ext.disable()
    before = crypten.nn.from_pytorch(linear, example)
    crypten_ext.enable()
    file = onnx_converter._from_pytorch_to_bytes(linear, example)
    within = crypten.nn.Sequential(crypten.nn.from_onnx(file), crypten_ext.nn.Linear(3, 2))
    for model in (before, within):
        with pytest.raises(UnsupportedLayerError, match=r"from_pytorch after crypten_ext.enable"):
            optimizer(model)


def test_copies_of_a_compared_model_and_models_of_it_are_trained():
    model = crypten.nn.from_pytorch(nn.Sequential(nn.Linear(6, 3)), torch.zeros(ROWS))
    optimizer(copy.deepcopy(model))
    optimizer(crypten.nn.Sequential(model, crypten_ext.nn.Tanh(), crypten_ext.nn.Linear(3, 2)))
