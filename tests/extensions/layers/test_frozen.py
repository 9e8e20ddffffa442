"""Layers of which something, or nothing, is trained: what is computed of them, and what is not."""

import itertools
from typing import Any

import numpy as np
import pytest

from extensions.layers.activations import relu, tanh
from extensions.layers.builder import NetworkBuilder
from extensions.layers.chain import Network
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.passes import Parameters, forward
from extensions.layers.stages.grid import Grid
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.updates import SGDRule
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from tests.helpers.refused import refused

F, ROWS, OUTPUTS = 16, 5, 3
FULL, WEIGHT, BIAS, NONE = (True, True), (True, False), (False, True), (False, False)


def network() -> Network:
    sketch = NetworkBuilder(Grid(channels=2, height=6, width=5)).convolution(
        4, 3, padding=1, groups=2
    )
    sketch.activation(tanh()).average(2).convolution(6, 2, stride=1).activation(relu())
    sketch.linear(4).activation(tanh()).linear(OUTPUTS)
    return Network(stages=tuple(sketch.stages), loss="softmax", guarded=True)


class Counting(ClearRing):
    """Counts products and truncations, each of which is rounds and words of a host."""

    products = 0
    truncations = 0

    def matmul(self, pairs: Any) -> Any:
        self.products += len(pairs)
        return super().matmul(pairs)

    def truncate(self, items: Any) -> Any:
        self.truncations += len(items)
        return super().truncate(items)


def model() -> Parameters:
    draws = np.random.default_rng(1)
    return [
        (encode(draws.normal(0, 0.5, shape), F), encode(draws.normal(0, 0.3, shape[0]), F))
        for shape in network().parameter_shapes
    ]


def gradients(chain: Network, ring: Counting, guards: Any = ()) -> list[LayerGradient]:
    draws = np.random.default_rng(2)
    x, y = draws.normal(0, 0.4, (ROWS, chain.widths[0])), np.eye(OUTPUTS)[np.arange(ROWS) % OUTPUTS]
    trace = forward(ring, chain, model(), encode(x, F))
    ring.products = ring.truncations = 0
    return trace.backward(encode(y, F), None, guards)


CHOICES = {
    "last": (NONE, NONE, NONE, FULL),
    "first": (FULL, NONE, NONE, NONE),
    "biases": (BIAS, BIAS, BIAS, BIAS),
    "middle": (NONE, WEIGHT, NONE, BIAS),
}


@pytest.mark.parametrize("parts", CHOICES.values(), ids=CHOICES)
def test_what_is_trained_has_the_gradients_of_a_model_that_is_trained_whole(parts):
    whole = gradients(network(), Counting(F, rounding="floor"))
    chain = network().training(parts)
    own = gradients(chain, Counting(F, rounding="floor"))
    trained = [part for part, s in zip(parts, chain.trained, strict=True) for _ in range(s.layers)]
    for found, every, (weight, bias) in zip(own, whole, trained, strict=True):
        assert (found.has_weight, found.has_bias) == (weight, bias)
        if weight:
            np.testing.assert_array_equal(found.inputs, every.inputs)
            np.testing.assert_array_equal(found.deltas, every.deltas)
        elif bias:
            by_position = every.deltas.reshape(ROWS, -1, found.deltas.shape[1])
            np.testing.assert_array_equal(found.deltas, by_position.sum(1))
        else:
            assert found.deltas is None


def test_the_way_back_ends_at_the_lowest_layer_that_is_trained():
    products, truncations = [], []
    for lowest in range(4):
        parts = [FULL if i == lowest else NONE for i in range(4)]
        ring = Counting(F, rounding="floor")
        gradients(network().training(parts), ring)
        products.append(ring.products)
        truncations.append(ring.truncations)
    assert products == [3, 2, 1, 0]
    assert all(more > less for more, less in itertools.pairwise(truncations))


def plan_of(chain: Network, **options: Any) -> StepPlan:
    norms = {"max_feature_norm": 6.0, "max_weight_norm": 40.0, "max_grad_norm": 0.5}
    settings = {"learning_rate": 1.0, "expected_batch_size": ROWS, "max_grad_norm": 0.5}
    settings |= {"noise_multiplier": 0.0, "parties": 3} | options
    return StepPlan(frac_bits=F, rows=ROWS, layers=chain.shapes(**norms), **settings)


def test_the_plan_says_what_is_trained_and_counts_nothing_else():
    parts = CHOICES["middle"]
    plan, whole = plan_of(network().training(parts)), plan_of(network())
    assert plan.ways == ["frozen", "frozen", "ghost", "frozen", "bias"]
    assert plan.parameters == 6 * 16 + OUTPUTS
    assert [i for i, _ in whole.guards] == [2, 3, 4]
    assert [i for i, _ in plan.guards] == [3], "none at what is at or below the lowest"
    assert plan.eta < whole.eta
    assert plan.largest_noise == whole.largest_noise == 0.0
    some, every = (
        plan_of(of, noise_multiplier=1.0).largest_noise
        for of in (network().training(parts), network())
    )
    assert some < 0.9 * every


def test_the_sum_of_deltas_of_a_convolution_may_be_longer_than_they_are():
    """Of P deltas that are alike by sqrt(P), which is what a bias's gradient is."""
    norms = {"max_feature_norm": 6.0, "max_weight_norm": 40.0}
    whole, biases = (of.shapes(**norms) for of in (network(), network().training([BIAS] * 4)))
    for every, own in zip(whole, biases, strict=True):
        assert own.positions == 1
        assert own.delta_norm == pytest.approx(every.delta_norm * every.positions**0.5)
        assert (own.weights, own.reach) == (own.out_features, 1.0)


def test_weights_move_no_bound_where_the_last_layer_alone_is_trained():
    """The head of a model may be trained for any number of steps, as a linear model may."""
    rates = [1e4] * 100
    last = plan_of(network().training(CHOICES["last"]))
    SGDRule(last).check_moved(rates, 40.0)
    for parts in ("first", "biases", "middle"):
        plan = plan_of(network().training(CHOICES[parts]))
        with refused("learning_rate", "value", value=1.0):
            SGDRule(plan).check_moved(rates, 40.0)


@pytest.mark.parametrize("parts", CHOICES.values(), ids=CHOICES)
def test_a_step_leaves_what_is_frozen_and_clips_what_is_trained(parts):
    chain = network().training(parts)
    plan = plan_of(chain, max_grad_norm=2.0**-6)
    own = gradients(chain, Counting(F, rounding="floor"), plan.guard_shifts)
    updates = dpsgd_step(ClearRing(F, rounding="floor"), own, plan, SystemSource())
    moved = [[part is not None for part in pair] for pair in updates]
    assert moved == [[s.has_weight, s.has_bias] for s in plan.layers]
    length = np.sqrt(sum((decode(p, F) ** 2).sum() for u in updates for p in u if p is not None))
    assert 0.1 * 2.0**-6 < length <= 2.0**-6 * (1 + plan.eta) + 2.0**-8


def test_a_model_of_which_nothing_is_trained_is_refused():
    with refused("stages", "value", "all frozen"):
        network().training([NONE] * 4)
    with refused("parts", "shape", value=2):
        network().training([NONE] * 2)
