"""One step on a linear model, from the rows to the update, stated once for every host."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.steps.materialised import materialised_step
from extensions.network.chain import Network
from extensions.network.passes import forward
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.ring.fixed_point import Integers, encode
from extensions.ring.interface import NoiseSource, Ring, Share

FRAC_BITS = 20
PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
KINDS = (PLAIN, GHOST, MATERIALISED)

Sizes = dict[str, Any]
"""The "batch", the number of "features" of a row and of "classes"."""
SPU_PARTY = "benchmarks.steps.spu_step"


def inputs(batch: int, features: int, classes: int) -> list[Integers]:
    """Returns rows of norm below 1, their squared norms, targets, a weight and a bias."""
    draws = np.random.default_rng(0)
    x = encode(draws.uniform(-1.0, 1.0, (batch, features)) / np.sqrt(features), FRAC_BITS)
    y = encode(np.eye(classes)[np.arange(batch) % classes], FRAC_BITS)
    weight = encode(draws.uniform(-0.1, 0.1, (classes, features)), FRAC_BITS)
    return [x, (x * x).sum(1), y, weight, np.zeros(classes, dtype=np.int64)]


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
    **sizes: Any,
) -> list[Share]:
    """Returns the weight and the bias after one step, from the rows to the update.

    All kinds share the forward pass, the sigmoid and the update; owners supply the norms of their
    rows, which only ghost clipping can use.
    """
    x, norms, y, weight, bias = shares
    (rows, features), classes = x.shape, y.shape[1]
    network = Network.dense(widths=(features, classes), activations=(), has_bias=(True,))
    plan = plan_of(network, rows, ring.parties, private=kind != PLAIN)
    trace = forward(ring, network, [(weight, bias)], x)
    gradients = trace.backward(y, norms if kind == GHOST else None)
    step = materialised_step if kind == MATERIALISED else dpsgd_step
    ((of_weight, of_bias),) = step(ring, gradients, plan, source or SystemSource())
    return [weight - of_weight, bias - of_bias]
