"""Linear layers over a ring, and what a private step must remember of them."""

from dataclasses import dataclass

from extensions.ring import Ring, Share


@dataclass(frozen=True, kw_only=True)
class LayerGradient:
    """Per-example gradients of one linear layer, unmaterialised: g_j = delta_j (x) (a_j, 1).

    Attributes:
        inputs: shares of a, (rows, in_features).
        deltas: shares of delta, (rows, out_features): the gradient of the sum-reduced loss.
        squared_norm: shares of ||a_j||^2 with 2f fractional bits, (rows,), where the owner of the
            row supplied it; None to compute it.
        has_bias: whether the layer has a bias.
    """

    inputs: Share
    deltas: Share
    squared_norm: Share | None = None
    has_bias: bool = True


def linear(ring: Ring, inputs: Share, weight: Share, bias: Share | None) -> Share:
    """Returns inputs @ weight.T + bias, rounded once; 2 rounds.

    Args:
        ring: the host.
        inputs: shares of (rows, in_features).
        weight: shares of (out_features, in_features).
        bias: shares of (out_features,), or None.
    """
    (product,) = ring.matmul([(inputs, weight.T)])
    if bias is not None:
        product = product + bias * (1 << ring.frac_bits)
    (output,) = ring.truncate([(product, ring.frac_bits)])
    return output


def backpropagate(ring: Ring, deltas: Share, weight: Share) -> Share:
    """Returns deltas @ weight, the gradient at a linear layer's input; 2 rounds."""
    (product,) = ring.matmul([(deltas, weight)])
    (result,) = ring.truncate([(product, ring.frac_bits)])
    return result
