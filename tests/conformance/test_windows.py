"""Windows of images on every host: what is local, what is multiplied, and a step of a network."""

import numpy as np
import pytest

from extensions.layers.activations import relu, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import Network
from extensions.layers.stages.grid import Grid, Window
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.conformance.arenas.arena import Arena
from tests.conformance.arenas.recipes import RECIPES

F, ROWS = 16, 12
GRID = Grid(channels=2, height=6, width=5)


def test_windows_and_their_products_are_exact(arena: Arena):
    window = Window(grid=GRID, kernel=(2, 2), stride=(2, 1), padding=((1, 0), (0, 1)))
    places = window.places.reshape(window.positions, -1)
    square = places[: places.shape[1]]
    draws = np.random.default_rng(1)
    x = draws.integers(-(2**63), 2**63 - 1, (3, GRID.size))
    weight = draws.integers(-(2**63), 2**63 - 1, (4, square.shape[1]))
    want = RECIPES["windows"](ClearRing(F), x, weight, places=square)
    got = arena.evaluate("windows", [x, weight], frac_bits=F, places=square)
    for own, expected in zip(got, want, strict=True):
        np.testing.assert_array_equal(own, expected)


def network() -> Network:
    sketch = (
        NetworkBuilder(GRID).convolution(4, 3, padding=1, groups=2).activation(tanh()).average(2)
    )
    sketch.convolution(6, 2, stride=1).activation(relu()).largest((2, 1))
    sketch.linear(4).activation(tanh()).linear(3)
    return Network(stages=tuple(sketch.stages), loss="softmax", guarded=True)


PARTS = {
    "whole": [(True, True)] * 4,
    "some of it": [(False, False), (False, True), (True, False), (False, False)],
}


@pytest.mark.hosts(max_grad_norm=[0.5])
@pytest.mark.parametrize("max_grad_norm", [0.5, 64.0], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("trained", PARTS)
def test_a_step_is_that_of_the_clear_ring(arena: Arena, max_grad_norm: float, trained: str):
    """Norms of either host are rounded up by 2 % at most, and deltas within an ulp a stage."""
    chain, draws = network().training(PARTS[trained]), np.random.default_rng(2)
    plan = StepPlan(
        frac_bits=F,
        layers=chain.shapes(
            max_feature_norm=6.0, max_weight_norm=40.0, max_grad_norm=max_grad_norm
        ),
        rows=ROWS,
        learning_rate=1.0,
        expected_batch_size=ROWS,
        max_grad_norm=max_grad_norm,
        noise_multiplier=0.0,
        parties=arena.parties,
    )
    ways = {"whole": {"linear", "materialised"}, "some of it": {"frozen", "bias", "linear"}}
    assert ways[trained] <= set(plan.ways)
    assert plan.guards or (trained == "some of it" and max_grad_norm > 1.0)
    x = draws.standard_normal((ROWS, GRID.size))
    x *= 5.9 / np.linalg.norm(x, axis=1, keepdims=True)
    targets = np.eye(3)[np.arange(ROWS) % 3]
    padding = (np.arange(ROWS) % 4 == 1).astype(np.int64)
    parameters = []
    for outputs, inputs in chain.parameter_shapes:
        parameters += [draws.normal(0, 0.5, (outputs, inputs)), draws.normal(0, 0.3, outputs)]
    given = [encode(x, F), encode(targets, F), padding, *(encode(p, F) for p in parameters)]
    options = {"chain": chain, "plan": plan, "seed": 3}
    clear = ClearRing(F, parties=arena.parties, rounding="floor")
    want = [decode(part, F) for part in RECIPES["step_of_a_network"](clear, *given, **options)]
    found = arena.evaluate("step_of_a_network", given, frac_bits=F, **options)
    got = [decode(part, F) for part in found]
    assert np.abs(got[0] - want[0]).max() < 64 * 2.0**-F
    moved = [np.concatenate([part.ravel() for part in parts[1:]]) for parts in (got, want)]
    length = np.linalg.norm(moved[1])
    assert length > 0.02
    assert np.linalg.norm(moved[0] - moved[1]) < 0.02 * length
