"""One step of Pencil: what the model's owner is told of the data owner's records.

The model's owner has the weights in the clear and gives none of them away; the data owner has the
records. All values in between are shared by the two. What they share is multiplied by the weights
by Algorithm 1, and by each other by Algorithm 2 (`extensions.two_party.owned`); clipping and all
that is not linear are the protocols of any two parties. What the model's owner gets to see of the
records is the sum of a step's clipped gradients, to which the data owner has added noise before.

Source:
    Liu et al., Pencil, NDSS 2024.

Deviation:
    Examples are clipped, and the noise is the data owner's: the authors clip none, and in their
    implementation the model's owner adds noise to an exact gradient that it has seen by then.
"""

from collections.abc import Iterable
from functools import partial, reduce

from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.layers.linear_layers import parameter_norm
from extensions.layers.passes import Parameters, forward
from extensions.protocols.dpsgd import Sums, added, clipped_sums, parts_of, with_noise
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.protocols.host import Batch
from extensions.ring.fixed_point import Integers, Reals, encode
from extensions.ring.interface import NoiseSource, Ring, Share


def weight_bits(frac_bits: int) -> int:
    """Returns how many bits a weight has whose norm is at most `DEFAULT_WEIGHT_NORM`."""
    return frac_bits + int(DEFAULT_WEIGHT_NORM).bit_length() + 1


def noisy_sums(
    ring: Ring,
    network: Network,
    plan: StepPlan,
    parameters: Parameters,
    pieces: Iterable[Batch],
    source: NoiseSource,
) -> list[Share]:
    """Returns shares of the sum of a batch's clipped gradients, with the data owner's noise.

    Args:
        ring: whose products with weights are those of Algorithm 1.
        plan: of the step; of two parties, each of which must do without the other's noise.
        parameters: the weights, and shares of the biases.
        pieces: of the data owner's batch, one after the other; memory is that of one.
        source: of the noise: the data owner's draws all of it, the other party's none.

    Returns:
        Of each layer its weight's and its bias's sum, f + `plan.factor_bits` fractional bits.
    """

    def clipped(batch: Batch) -> Sums:
        trace = forward(ring, network, parameters, batch.x)
        gradients = trace.backward(batch.y, batch.squared_norms, plan.guard_shifts)
        return clipped_sums(ring, gradients, plan, batch.padding)

    sums = reduce(partial(added, plan=plan), map(clipped, pieces))
    return parts_of(with_noise(ring, sums, plan, source))


def encoded_layer(weight: Reals, bias: Reals, frac_bits: int) -> tuple[Integers, Integers]:
    """Returns a layer's weight and bias as ring integers."""
    norm = parameter_norm(weight, bias)
    if not norm <= DEFAULT_WEIGHT_NORM:
        raise ArgumentError(
            "weights",
            f"of norm {norm:.4g} with their bias",
            f"of norm {DEFAULT_WEIGHT_NORM:g} at most, the proven limit of clipping",
            "Lower the learning rate.",
            code="range",
        )
    return encode(weight, frac_bits, name="weights"), encode(bias, frac_bits, name="biases")
