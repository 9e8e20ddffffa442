"""One step of a model for images, from the rows to the update, stated once for every host."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.steps.linear_step import FRAC_BITS, GHOST, MATERIALISED, PLAIN, plan_of
from benchmarks.steps.materialised import materialised_step
from extensions.network.passes import forward
from extensions.network.spec import ModelSpec
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.host import flat, pairs
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import NoiseSource, Ring, Share

PIXELS, CLASSES = 784, 10
MODELS = {"LeNet-5": "lenet", "CNN": "cnn", "MLP": "mlp:128"}
"""By the names of tables what `pea train --model` calls them."""
SPU_PARTY = "benchmarks.steps.models.spu_party"


def spec_of(model: str) -> ModelSpec:
    """Returns the model of that name, of `MODELS`, for images of MNIST's size."""
    return ModelSpec.parse(MODELS[model], PIXELS, CLASSES)


def inputs(batch: int, model: str) -> list[Integers]:
    """Returns rows of norm below 1, their squared norms, targets, and each weight and bias."""
    draws = np.random.default_rng(0)
    x = encode(draws.uniform(-1.0, 1.0, (batch, PIXELS)) / np.sqrt(PIXELS), FRAC_BITS)
    y = encode(np.eye(CLASSES)[np.arange(batch) % CLASSES], FRAC_BITS)
    start = flat(spec_of(model).initial_parameters())
    return [x, (x * x).sum(1), y, *(encode(part, FRAC_BITS) for part in start)]


def step_of(
    ring: Ring,
    kind: str,
    shares: Sequence[Share],
    source: NoiseSource | None = None,
    *,
    model: str,
    **sizes: Any,
) -> list[Share]:
    """Returns weights and biases after one step, from the rows to the update.

    All kinds share both passes and the update. Records are guarded on their way back as in
    training, where gradients are clipped without being made.

    Args:
        ring: the host.
        kind: of step.
        shares: of what `inputs` returns.
        source: of noise; by default the operating system.
        model: of `MODELS`.
        sizes: others, which the shares have.
    """
    x, norms, y, *parts = shares
    parameters, network = pairs(parts), spec_of(model).network
    plan = plan_of(network, x.shape[0], ring.parties, private=kind != PLAIN)
    trace = forward(ring, network, parameters, x)
    guards = plan.guard_shifts if kind == GHOST else ()
    gradients = trace.backward(y, norms if kind == GHOST else None, guards)
    step = materialised_step if kind == MATERIALISED else dpsgd_step
    updates = step(ring, gradients, plan, source or SystemSource())
    return [part - taken for part, taken in zip(parts, flat(updates), strict=True)]
