"""One private step on a model's variables, as operations of the graph that is being traced."""

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.network.passes import Parameters, forward
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.kernels import kernel_of, matrix_of
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.scalars import Scalar
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.variables import ShareVariable


def parameters_of(ring: ABY3Ring, chain: Chain) -> Parameters:
    """Returns the present weights, (out, in), and biases."""
    return [
        (
            matrix_of(ring, share_of(ring, kernel)),
            None if bias is None else share_of(ring, bias).reshape(-1),
        )
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
    last: Sequence[ShareVariable] | None = None,
) -> None:
    """Makes one step on the batch: the variables change.

    Args:
        ring: that of the protocol.
        chain: the model.
        batch: its rows.
        plan: the public constants, but for the learning rate and the expected batch size.
        source: of noise.
        ratio: of these two, in the form of `StepPlan.step_ratio`.
        last: with momentum, what the last step subtracted from each variable; changes too.

    Cost:
        19 rounds for a linear model, from the rows in the clear to the stored weights, with
        momentum too.
    """
    numerator, shift = ratio
    parameters = parameters_of(ring, chain)
    trace = forward(ring, chain.network, parameters, batch.x)
    gradients = trace.backward(batch.y, batch.squared_norms, plan.guard_shifts)
    velocity = None if last is None else _in_pairs(ring, chain, [share.read() for share in last])
    updates = dpsgd_step(
        ring,
        gradients,
        plan,
        source,
        batch.padding,
        ratio=(numerator, shift),
        velocity=velocity,
    )
    variables, moved = [], []
    for pair, own, change in zip(chain.variables, parameters, updates, strict=True):
        (kernel, bias), (weight, offset), (weight_step, offset_step) = pair, own, change
        if weight_step is not None:
            variables.append(kernel)
            moved.append(kernel_of(ring, weight - weight_step, kernel.shape.as_list()))
        if offset_step is not None:
            variables.append(bias)
            moved.append((offset - offset_step).reshape(*bias.shape.as_list()))
    if last is not None:
        last = [*itertools.compress(last, chain.trained)]
    before = [share_of(ring, variable) for variable in variables]
    now = store(ring, variables, moved)
    if last is not None:
        for kept, was, share in zip(last, before, now, strict=True):
            kept.assign(was - share)


def _in_pairs(
    ring: ABY3Ring, chain: Chain, shares: Sequence[Share]
) -> list[tuple[Share, Share | None]]:
    """Returns shares of the variables' shapes as weights, (out, in), and biases."""
    each = iter(shares)
    return [
        (matrix_of(ring, next(each)), None if bias is None else next(each).reshape(-1))
        for _, bias in chain.variables
    ]


def store(ring: ABY3Ring, variables: Sequence[Any], shares: Sequence[Share]) -> list[Replicated]:
    """Stores the shares in the variables, every part on its server; returns what is stored.

    Cost:
        One round for all shares that are not replicated yet.
    """
    replicated = ring.replicate(shares)
    for variable, share in zip(variables, replicated, strict=True):
        kept = [part for pair in variable.unwrapped for part in pair]
        for own, part, place in zip(kept, share.parts, share.PLACES, strict=True):
            with tf.device(share.servers[place]):
                own.variable.assign(part)
    return replicated


def opened(share: Share) -> tf.Tensor:
    """Returns what the script gets of a share: its value, **opened**."""
    return tf.add_n([part for part in share.additive3().parts if part is not None])
