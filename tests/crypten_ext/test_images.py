"""Convolutional models of scripts: their steps are those of PyTorch's per-example gradients.

Weights start where PyTorch has them; a reference of PyTorch takes the same batch, with the
piecewise-linear activations that the layers have. Norms are rounded up by 2 % at most.
"""

from typing import Any

import numpy as np
import pytest
import torch

from extensions.layers.activations import relu, sigmoid, tanh
from tests.conftest import Pools
from tests.helpers.party_tasks.images import FROZEN, plaintext
from tests.helpers.reference_dpsgd import piecewise

BOUNDS = {"images": 1.14, "signals": 1.14, "parts": 1.14, "residual": 1.9, "pair": 1.14}
"""C, which some norms exceed."""
RUNS = [
    ("images", "converted"),
    ("images", "written"),
    ("signals", "converted"),
    ("parts", "converted"),
    ("residual", "converted"),
    ("pair", "converted"),
]
ROUNDS = {
    "images": [50, 21],
    "signals": [18, 13],
    "parts": [45, 20],
    "residual": [47, 21],
    "pair": [24, 19],
}
"""Of both passes, and of the step, which at the first one compares settings."""


@pytest.fixture(scope="module")
def found(pools: Pools) -> dict[str, Any]:
    everybody = pools.run(2, "tests.helpers.party_tasks.images:steps", runs=RUNS, bounds=BOUNDS)
    for name, own in everybody[0].items():
        for mine, theirs in zip(own["after"], everybody[1][name]["after"], strict=True):
            np.testing.assert_array_equal(mine, theirs)
    return everybody[0]


class Piecewise(torch.nn.Module):
    """An activation as the layers have it."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return piecewise(x, self.function)


def reference(kind: str) -> torch.nn.Sequential:
    model, _ = plaintext(kind)
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name not in FROZEN.get(kind, ())
    ours = {"Tanh": Piecewise(tanh()), "ReLU": Piecewise(relu())}
    for module in list(model.modules()):
        for name, child in module.named_children():
            module._modules[name] = ours.get(type(child).__name__, child)
    return model.double()


def clipped(
    model: torch.nn.Sequential, x: torch.Tensor, y: torch.Tensor, bound: float
) -> tuple[Any, list[Any]]:
    """Returns the sum of clipped gradients, by trained parameters, and all norms."""
    total, norms = None, []
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for row, target in zip(x, y, strict=True):
        logits = model(row[None])[0]
        residual = piecewise(logits.detach(), sigmoid()) - target
        each = torch.autograd.grad(logits, trained, residual)
        norms.append(float(torch.cat([g.ravel() for g in each]).norm()))
        scaled = [g * min(1.0, bound / norms[-1]) for g in each]
        total = scaled if total is None else [a + b for a, b in zip(total, scaled, strict=True)]
    return total, norms


@pytest.mark.parametrize(("kind", "style"), RUNS)
def test_a_step_is_that_of_per_example_gradients(found, kind, style):
    own = found[f"{kind} {style}"]
    images, targets, padding = own["batch"]
    real = padding == 0
    assert 0 < real.sum() < len(real)
    model = reference(kind)
    expected, norms = clipped(
        model, torch.from_numpy(images[real]), torch.from_numpy(targets[real]), BOUNDS[kind]
    )
    assert min(norms) < BOUNDS[kind] < max(norms)
    by_name = {name: i for i, name in enumerate(own["names"])}
    left = iter(expected)
    for name, parameter in model.named_parameters():
        i = by_name[name]
        moved = (own["before"][i] - own["after"][i]) * (0.8 * 12)
        if not parameter.requires_grad:
            assert not moved.any()
            continue
        gradient = next(left)
        length = float(gradient.norm())
        assert length > 0.05
        assert np.linalg.norm(moved - gradient.numpy()) < 0.03 * length


@pytest.mark.parametrize(("kind", "style"), RUNS)
def test_predictions_are_those_of_the_layers(found, kind, style):
    own = found[f"{kind} {style}"]
    model = reference(kind)
    by_name = dict(zip(own["names"], own["after"], strict=True))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(by_name[name]))
        expected = model(torch.from_numpy(own["batch"][0]))
    np.testing.assert_allclose(own["logits"], expected.numpy(), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("kind", "style"), RUNS)
def test_a_step_takes_these_rounds(found, kind, style):
    assert found[f"{kind} {style}"]["rounds"] == ROUNDS[kind]
