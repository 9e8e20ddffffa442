"""One private step on a model's variables, as operations of the graph that is being traced."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.network.chain import Parameters, forward
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.layers import Chain
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.scalars import Scalar
from tfe_ext.ring.shares import Share


def parameters_of(ring: ABY3Ring, chain: Chain) -> Parameters:
    """Returns the present weights, (out, in), and biases."""
    return [
        (share_of(ring, kernel).T, None if bias is None else share_of(ring, bias))
        for kernel, bias in chain.variables
    ]


def logits_of(ring: ABY3Ring, chain: Chain, x: Share) -> Share:
    """Returns the logits of rows (rows, features).

    Raises:
        ArgumentError: another number of features.
    """
    features = chain.network.widths[0]
    if x.shape[1:] != (features,):
        raise ArgumentError("x", x.shape, f"(rows, {features})")
    logits: Share = forward(ring, chain.network, parameters_of(ring, chain), x).logits
    return logits


def update(
    ring: ABY3Ring,
    chain: Chain,
    batch: Batch,
    plan: StepPlan,
    source: NoiseSource,
    ratio: Sequence[Scalar],
) -> None:
    """Makes one step on the batch: the variables change.

    Args:
        ring: that of the protocol.
        chain: the model.
        batch: its rows.
        plan: the public constants, but for the learning rate and the expected batch size.
        source: of noise.
        ratio: of these two, in the form of `StepPlan.step_ratio`.

    Cost:
        19 rounds for a linear model, from the rows in the clear to the stored weights.
    """
    numerator, shift = ratio
    parameters = parameters_of(ring, chain)
    trace = forward(ring, chain.network, parameters, batch.x)
    gradients = trace.backward(batch.y, batch.squared_norms)
    updates = dpsgd_step(ring, gradients, plan, source, batch.padding, (numerator, shift))
    variables, moved = [], []
    for pair, own, change in zip(chain.variables, parameters, updates, strict=True):
        (kernel, bias), (weight, offset), (weight_step, offset_step) = pair, own, change
        variables.append(kernel)
        moved.append((weight - weight_step).T)
        if bias is not None:
            variables.append(bias)
            moved.append(offset - offset_step)
    store(ring, variables, moved)


def store(ring: ABY3Ring, variables: Sequence[Any], shares: Sequence[Share]) -> None:
    """Stores the shares in the variables, every part on its server.

    Cost:
        One round for all shares that are not replicated yet.
    """
    for variable, share in zip(variables, ring.replicate(shares), strict=True):
        kept = [part for pair in variable.unwrapped for part in pair]
        for own, part, place in zip(kept, share.parts, share.PLACES, strict=True):
            with tf.device(share.servers[place]):
                own.variable.assign(part)


def opened(share: Share) -> tf.Tensor:
    """Returns what the script gets of a share: its value, **opened**."""
    return tf.add_n([part for part in share.additive3().parts if part is not None])
