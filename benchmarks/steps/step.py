"""One step of a model, from the rows to the update, stated once for every host."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.steps.materialised import materialised_step
from extensions.layers.chain import Network
from extensions.layers.passes import forward
from extensions.layers.spec import ModelSpec
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import flat, pairs
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import NoiseSource, Ring, Share

FRAC_BITS = 20
PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
KINDS = (PLAIN, GHOST, MATERIALISED)
PIXELS, CLASSES = 784, 10
MODELS = {"LeNet-5": "lenet", "CNN": "cnn", "MLP": "mlp:128"}
"""Models for images of MNIST's size: by the names of tables what `pea train --model` calls them."""

Sizes = dict[str, Any]
"""The "batch", and a "model" of `MODELS`, or the "features" and "classes" of a linear one."""


def spec_of(model: str) -> ModelSpec:
    """Returns a model of `MODELS`."""
    return ModelSpec.parse(MODELS[model], PIXELS, CLASSES)


def inputs(
    batch: int, features: int = PIXELS, classes: int = CLASSES, model: str | None = None
) -> list[Integers]:
    """Returns rows of norm below 1, their squared norms, targets, and each weight and bias."""
    draws = np.random.default_rng(0)
    x = encode(draws.uniform(-1.0, 1.0, (batch, features)) / np.sqrt(features), FRAC_BITS)
    y = encode(np.eye(classes)[np.arange(batch) % classes], FRAC_BITS)
    start = [draws.uniform(-0.1, 0.1, (classes, features)), np.zeros(classes)]
    if model is not None:
        start = flat(spec_of(model).initial_parameters())
    return [x, (x * x).sum(1), y, *(encode(part, FRAC_BITS) for part in start)]


def plan_of(network: Network, rows: int, parties: int, *, private: bool = True) -> StepPlan:
    """Returns the plan of a step over that many rows, with a rate, clipping norm and noise of 1."""
    return StepPlan(
        frac_bits=FRAC_BITS,
        layers=network.shapes(max_feature_norm=1.0, max_weight_norm=32.0, max_grad_norm=1.0),
        rows=rows,
        learning_rate=1.0,
        expected_batch_size=float(rows),
        max_grad_norm=1.0,
        noise_multiplier=1.0,
        parties=parties,
        private=private,
    )


def step_of(
    ring: Ring,
    kind: str,
    shares: Sequence[Share],
    source: NoiseSource | None = None,
    *,
    model: str | None = None,
    **sizes: Any,
) -> list[Share]:
    """Returns weights and biases after one step, from the rows to the update.

    All kinds share both passes and the update. Records are guarded on their way back as in
    training, where gradients are clipped without being made; only this uses the rows' norms, which
    owners supply.

    Args:
        ring: the host.
        kind: of step.
        shares: of what `inputs` returns.
        source: of noise; by default the operating system.
        model: of `MODELS`, or a linear one.
        sizes: others, which the shares have.
    """
    x, norms, y, *parts = shares
    widths = (x.shape[1], y.shape[1])
    linear = Network.dense(widths=widths, activations=(), has_bias=(True,))
    network = linear if model is None else spec_of(model).network
    plan = plan_of(network, x.shape[0], ring.parties, private=kind != PLAIN)
    trace = forward(ring, network, pairs(parts), x)
    guards = plan.guard_shifts if kind == GHOST else ()
    gradients = trace.backward(y, norms if kind == GHOST else None, guards)
    step = materialised_step if kind == MATERIALISED else dpsgd_step
    updates = step(ring, gradients, plan, source or SystemSource())
    return [part - taken for part, taken in zip(parts, flat(updates), strict=True)]
