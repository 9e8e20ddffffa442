"""A model's variables as shares in the graph that is being traced."""

from collections.abc import Iterable, Sequence

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.network.passes import Parameters, forward
from tfe_ext.keras.layers import Chain
from tfe_ext.keras.steps.kernels import matrix_of
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of
from tfe_ext.ring.shares import Replicated, Share
from tfe_ext.ring.variables import assign


def parameters_of(ring: ABY3Ring, chain: Chain) -> Parameters:
    """Returns the present weights, (out, in), and biases."""
    return matrices(ring, chain, [share_of(ring, variable) for variable in chain.flat])


def matrices(ring: ABY3Ring, chain: Chain, shares: Iterable[Share]) -> Parameters:
    """Returns shares in the shapes of a model's variables as weights, (out, in), and biases."""
    each = iter(shares)
    return [
        (matrix_of(ring, next(each)), None if bias is None else next(each).reshape(-1))
        for _, bias in chain.variables
    ]


def logits_of(ring: ABY3Ring, chain: Chain, x: Share) -> Share:
    """Returns the logits of rows (rows, features)."""
    features = chain.network.widths[0]
    if x.shape[1:] != (features,):
        raise ArgumentError("x", x.shape, f"(rows, {features})", code="shape")
    logits: Share = forward(ring, chain.network, parameters_of(ring, chain), x).logits
    return logits


def store(
    ring: ABY3Ring, variables: Sequence[Replicated], shares: Sequence[Share]
) -> list[Replicated]:
    """Stores the shares, every part on its server; returns what is stored.

    One round for all shares that are not replicated yet.
    """
    replicated = ring.replicate(shares)
    for variable, share in zip(variables, replicated, strict=True):
        assign(variable, share)
    return replicated


def opened(share: Share) -> tf.Tensor:
    """Returns what the script gets of a share: its value, **opened**."""
    return tf.add_n([part for part in share.additive3().parts if part is not None])
