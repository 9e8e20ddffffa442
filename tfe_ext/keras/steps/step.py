"""One private step on a model's variables, as operations of the graph that is being traced."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.network.passes import Parameters, forward
from extensions.protocols.dpsgd import Sums, clipped_sums, with_noise
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.host import Batch
from extensions.protocols.updates import VELOCITY, UpdateRule
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
        raise ArgumentError("x", x.shape, f"(rows, {features})", code="shape")
    logits: Share = forward(ring, chain.network, parameters_of(ring, chain), x).logits
    return logits


def clipped(ring: ABY3Ring, chain: Chain, batch: Batch, plan: StepPlan) -> Sums:
    """Returns the sums of clipped gradients of rows, without noise.

    Args:
        ring: that of the protocol.
        chain: the model.
        batch: the rows.
        plan: of the step.
    """
    trace = forward(ring, chain.network, parameters_of(ring, chain), batch.x)
    gradients = trace.backward(batch.y, batch.squared_norms, plan.guard_shifts)
    return clipped_sums(ring, gradients, plan, batch.padding)


def finish(
    ring: ABY3Ring,
    chain: Chain,
    sums: Sums,
    rule: UpdateRule,
    source: NoiseSource,
    public: Sequence[Scalar],
    beside: Mapping[str, Sequence[ShareVariable]],
) -> None:
    """Makes one step by the sums of its rows: noise is added, and the variables change.

    Args:
        ring: that of the protocol.
        chain: the model.
        sums: of `clipped`.
        rule: what a step makes of its sums.
        source: of noise.
        public: the integers that the rule takes.
        beside: what goes on from step to step, by the rule's names; changes too.

    Cost:
        With the sums 19 rounds for a linear model, from the rows in the clear to the stored
        weights, with momentum too; 21 more with Adam.
    """
    noisy = with_noise(ring, sums, rule.plan, source)
    last = {
        name: _in_pairs(ring, chain, [share.read() for share in shares])
        for name, shares in beside.items()
    }
    updates, kept = rule.after(ring, noisy, last, public)
    after = {name: pairs for name, pairs in kept.items() if name != VELOCITY}
    moved = [
        tuple(None if change is None else own - change for own, change in zip(*both, strict=True))
        for both in zip(parameters_of(ring, chain), updates, strict=True)
    ]
    changed = [
        *_trained(chain, chain.flat),
        *(share for name in after for share in _trained(chain, beside[name])),
    ]
    before = [share_of(ring, variable) for variable in _trained(chain, chain.flat)]
    now = store(ring, changed, _shaped(ring, chain, [*moved, *itertools.chain(*after.values())]))
    velocity = _trained(chain, beside.get(VELOCITY, ()))
    for kept, was, share in zip(velocity, before, now, strict=False):
        kept.assign(was - share)


def _trained(chain: Chain, variables: Sequence[Any]) -> list[Any]:
    """Returns those that steps change, of one for each of the model's variables."""
    return [*itertools.compress(variables, chain.trained)]


def _in_pairs(
    ring: ABY3Ring, chain: Chain, shares: Sequence[Share]
) -> list[tuple[Share, Share | None]]:
    """Returns shares of the variables' shapes as weights, (out, in), and biases."""
    each = iter(shares)
    return [
        (matrix_of(ring, next(each)), None if bias is None else next(each).reshape(-1))
        for _, bias in chain.variables
    ]


def _shaped(ring: ABY3Ring, chain: Chain, pairs: Sequence[Sequence[Share | None]]) -> list[Share]:
    """Returns weights, (out, in), and biases, once or more, in the shapes of the variables.

    Those that are None are left out.
    """
    shaped: list[Share] = []
    for (weight, bias), (kernel, offset) in zip(pairs, itertools.cycle(chain.variables)):
        if weight is not None:
            shaped.append(kernel_of(ring, weight, kernel.shape.as_list()))
        if bias is not None:
            shaped.append(bias.reshape(*offset.shape.as_list()))
    return shaped


def store(ring: ABY3Ring, variables: Sequence[Any], shares: Sequence[Share]) -> list[Replicated]:
    """Stores the shares in the variables, every part on its server; returns what is stored.

    Args:
        ring: that of the protocol.
        variables: the host's, or `ShareVariable`.
        shares: one for each.

    Cost:
        One round for all shares that are not replicated yet.
    """
    replicated = ring.replicate(shares)
    for variable, share in zip(variables, replicated, strict=True):
        if isinstance(variable, ShareVariable):
            variable.assign(share)
            continue
        kept = [part for pair in variable.unwrapped for part in pair]
        for own, part, place in zip(kept, share.parts, share.PLACES, strict=True):
            with tf.device(share.servers[place]):
                own.variable.assign(part)
    return replicated


def opened(share: Share) -> tf.Tensor:
    """Returns what the script gets of a share: its value, **opened**."""
    return tf.add_n([part for part in share.additive3().parts if part is not None])
