"""Branches whose results are added: gradients, bounds of both ways, and what is refused."""

import numpy as np
import pytest
import torch

from extensions.layers.activations import relu, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import GUARD_BITS, Network
from extensions.layers.models.custom import Layers, stages_of
from extensions.layers.passes import forward
from extensions.layers.stages.branches import Fork, Join, Turn
from extensions.layers.stages.grid import Grid
from extensions.layers.stages.stage import Activation
from extensions.layers.stages.trained import Linear
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.helpers.refused import refused

F = 24
LONGEST = np.sqrt(5)
"""Bound of a residual of "sigmoid" at five outputs."""


def residual() -> Network:
    """Returns 8 -> 6, a residual of 6 -> 4 -> 6 with another one inside, -> 5."""
    sketch = NetworkBuilder(8).linear(6).activation(tanh())

    def inner(branch: NetworkBuilder) -> None:
        branch.linear(4).activation(tanh())
        branch.add_branches(lambda same: same, lambda deep: deep.linear(4).activation(relu()))
        branch.linear(6)

    sketch.add_branches(lambda same: same, inner).activation(relu()).linear(5)
    return Network(stages=tuple(sketch.stages), guarded=True)


def low_rank() -> Network:
    """Returns 8 -> 7 frozen beside 8 -> 2 -> 7, -> 5."""
    sketch = NetworkBuilder(8)
    sketch.add_branches(lambda frozen: frozen.linear(7), lambda thin: thin.linear(2).linear(7))
    sketch.activation(tanh()).linear(5)
    network = Network(stages=tuple(sketch.stages), guarded=True)
    return network.training([(False, False), (True, False), (True, False), (True, True)])


def in_floats(network: Network, weights, x: torch.Tensor) -> torch.Tensor:
    """Returns the logits, by the stages' own meaning: an independent walk with PyTorch."""
    left, waiting = iter(weights), []
    for stage in network.stages:
        match stage:
            case Fork():
                waiting.append(x)
            case Turn():
                x, waiting[-1] = waiting[-1], x
            case Join():
                x = x + waiting.pop()
            case Activation():
                x = pieces(x, stage.function)
            case Linear():
                weight, bias = next(left)
                x = x @ weight.T + bias
    return x


def pieces(x: torch.Tensor, function) -> torch.Tensor:
    slopes = torch.tensor(function.slopes, dtype=torch.float64) * 2.0**-function.slope_bits
    t = torch.tensor(function.thresholds, dtype=torch.float64)
    value = function.offset + slopes[0] * (x - t[0])
    for threshold, change in zip(t, slopes[1:] - slopes[:-1], strict=True):
        value = value + change * torch.clamp(x - threshold, min=0.0)
    return value


def drawn(network: Network, seed: int, norm: float = 1.5):
    draws, weights = np.random.default_rng(seed), []
    for stage in network.trained:
        weight = draws.normal(size=(stage.out_features, stage.in_features))
        bias = draws.normal(size=stage.out_features) / 4 * stage.has_bias
        weights.append((weight * norm / np.linalg.norm(weight), bias))
    return weights


@pytest.mark.parametrize("network", [residual(), low_rank()], ids=["residual", "low rank"])
def test_gradients_are_those_of_differentiation(network: Network):
    weights, draws = drawn(network, 1), np.random.default_rng(2)
    x = draws.uniform(-1, 1, (9, 8))
    ring = ClearRing(F)
    shares = [(encode(w, F), encode(b, F)) for w, b in weights]
    trace = forward(ring, network, shares, encode(x, F))
    leaves = [tuple(torch.tensor(p, requires_grad=True) for p in pair) for pair in weights]
    logits = in_floats(network, leaves, torch.from_numpy(x))
    np.testing.assert_allclose(decode(trace.logits, F), logits.detach(), atol=1e-5)
    deltas = draws.normal(size=(9, 5))
    found = trace.from_logits(encode(deltas, F), None)
    assert len(found) == len(network.trained)
    for row in range(9):
        for pair in leaves:
            for leaf in pair:
                leaf.grad = None
        (logits[row] @ torch.from_numpy(deltas[row])).backward(retain_graph=True)
        for stage, (weight, bias), gradient in zip(network.trained, leaves, found, strict=True):
            if not stage.is_trained:
                assert gradient.inputs is None
                continue
            delta, given = decode(gradient.deltas[row], F), decode(gradient.inputs[row], F)
            np.testing.assert_allclose(np.outer(delta, given), weight.grad, atol=1e-4)
            if stage.has_bias:
                np.testing.assert_allclose(delta, bias.grad, atol=1e-4)


@pytest.mark.parametrize("norm", [0.7, 3.0])
@pytest.mark.parametrize("network", [residual(), low_rank()], ids=["residual", "low rank"])
def test_inputs_and_deltas_are_within_their_bounds(network: Network, norm: float):
    """Without guards, of weights at their bound; both signs of all deltas."""
    open_ended = Network(stages=network.stages, guarded=False)
    shapes = open_ended.shapes(max_feature_norm=1.0, max_weight_norm=norm)
    ring, draws = ClearRing(F), np.random.default_rng(3)
    for seed in range(20):
        weights = drawn(network, seed, norm)
        x = draws.normal(size=(30, 8))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        deltas = draws.normal(size=(30, 5))
        deltas *= LONGEST / np.linalg.norm(deltas, axis=1, keepdims=True)
        shares = [(encode(w, F), encode(b, F)) for w, b in weights]
        trace = forward(ring, network, shares, encode(x, F))
        gradients = trace.from_logits(encode(deltas, F), None)
        for shape, gradient in zip(shapes, gradients, strict=True):
            if gradient.inputs is not None:
                for share, bound in (
                    (gradient.inputs, shape.input_norm),
                    (gradient.deltas, shape.delta_norm),
                ):
                    longest = np.linalg.norm(decode(share, F), axis=1).max()
                    assert longest <= bound * (1 + 1e-6)


@pytest.mark.parametrize("network", [residual(), low_rank()], ids=["residual", "low rank"])
def test_behind_guards_every_gradient_has_the_stated_bound(network: Network):
    """Both branches at their limits add up to no more than what the layer before them may have."""
    bound = 0.25
    shapes = network.shapes(max_feature_norm=1.0, max_weight_norm=400.0, max_grad_norm=bound)
    assert any(shape.guard is not None for shape in shapes)
    for shape in shapes[:-1]:
        if shape.has_weight:
            assert shape.reach * shape.delta_norm <= 2.0**GUARD_BITS * bound * (1 + 1e-9)


def test_images_are_added_where_they_lie_alike():
    sketch = NetworkBuilder(Grid(channels=1, height=8, width=8)).convolution(4, 3, padding=1)
    sketch.add_branches(lambda same: same, lambda inner: inner.convolution(4, 3, padding=1))
    assert sketch.grid == Grid(channels=4, height=8, width=8)
    with refused("stages", "shape"):
        sketch.add_branches(lambda same: same, lambda inner: inner.convolution(4, 3))


def test_a_list_of_ones_own_has_residuals():
    layers = Layers().convolution(2, 3, padding=1)
    layers.residual(lambda inner: inner.activation("tanh").convolution(2, 3, padding=1))
    kinds = [type(stage).__name__ for stage in stages_of(layers.text(), 36, 3)]
    assert kinds == [
        *("Convolution", "Fork", "Turn", "Activation", "Convolution", "Join", "Linear")
    ]
    for wrong in ('[["residual", {"layers": []}]]', '[["residual", {}]]', '[["residual", 3]]'):
        with refused("model", "value", "layers:" + wrong):
            stages_of("layers:" + wrong, 36, 3)


@pytest.mark.parametrize(
    ("stages", "code", "value"),
    [
        ([Fork(4)], "value", "a Fork without its Join"),
        ([Turn(4, 4), Join(4)], "value", "a Turn alone"),
        ([Join(4)], "value", "a Join alone"),
        ([Fork(4), Turn(4, 3), Linear(3, 4), Join(4)], "shape", "branches of 4 and 3 values"),
        (
            [Fork(4), Linear(4, 3), Turn(3, 4), Linear(4, 4), Join(4)],
            "shape",
            "branches of 3 and 4 values",
        ),
    ],
)
def test_branches_that_are_open_or_do_not_fit_are_refused(stages, code, value):
    with refused("stages", code, value):
        Network(stages=(*stages, Linear(4, 2)))
