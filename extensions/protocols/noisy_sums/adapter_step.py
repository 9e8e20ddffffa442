"""A step on a frozen encoder's adapters: each owner's gradients in the clear, cut in integers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from extensions.data.features.networks.adapters import Adapted
from extensions.layers.losses import WEIGHT_BITS, residual, row_weights
from extensions.layers.passes import Parameters
from extensions.privacy.sampling import row_blocks
from extensions.protocols.dpsgd import Sums
from extensions.protocols.host import Batch
from extensions.protocols.noisy_sums.second_moment import FRAC_BITS, unit_rows
from extensions.protocols.step import Step
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.ring.interface import Ring

_AT_ONCE = 1 << 23
"""Entries of gradients that are in memory at once."""
_MOST_RECORDS, _VALUES = 256, 1 << 21
"""Records that pass through the encoder at once, and their values at a layer, at most."""
_LARGEST = 2.0**20
"""Of a logit."""


@dataclass(frozen=True)
class AdapterStep(Step):
    """A step whose clipped sums are of adapters and a head, which `encoder` computes.

    Attributes:
        encoder: with adapters of all weights of the one layer that the network has.
    """

    encoder: Adapted

    @classmethod
    def behind(cls, step: Step, encoder: Adapted) -> "AdapterStep":
        """Returns the step that makes of its sums what another one does."""
        return cls(step.config, step.network, step.rule, step.mean, encoder)

    def clipped(self, ring: Ring, model: Parameters, batch: Batch) -> Sums:
        """Returns the sums of clipped gradients of rows, without noise.

        Guarantees:
            A record moves them by a vector of norm at most C, whatever floating point makes of its
            gradient: that is rounded toward zero, its norm checked in integers, and no sum of them
            is rounded.

        Cost:
            A pass of each row through the encoder, and back to its lowest adapter.
        """
        ((weight, bias),), plan = model, self.plan
        reals = decode(weight, ring.frac_bits), decode(bias, ring.frac_bits)
        counts, bits = 1 - batch.padding, FRAC_BITS
        if self.config.class_weights is not None:
            counts = counts * row_weights(ring, batch.y, self.config.class_weights)
            bits += WEIGHT_BITS
        total: Any = 0.0
        records = max(1, min(_MOST_RECORDS, _VALUES // self.encoder.size))
        at_once = min(_AT_ONCE, records * weight.size)
        for block in row_blocks((len(batch.x), weight.size), at_once):
            rows = unit_rows(self._gradients(ring, *reals, batch.part(block)), plan.max_grad_norm)
            total += counts[block].astype(np.float64) @ rows.astype(np.float64)  # below 2^53: exact
        unit = math.floor(math.ldexp(plan.max_grad_norm, ring.frac_bits + plan.factor_bits - bits))
        flat = np.zeros(weight.size, dtype=np.int64)
        sums, biases = np.split(total.astype(np.int64) * unit, [-len(bias)])
        flat[: len(sums)] = sums  # what is behind belongs to no weight
        return [(flat.reshape(weight.shape), biases)]

    def _gradients(self, ring: Ring, weight: Reals, bias: Reals, batch: Batch) -> Reals:
        """Returns each row's gradient, (rows, weights and biases)."""
        trace = self.encoder.trace(weight, bias, batch.x)
        logits = encode(np.clip(np.nan_to_num(trace.outputs), -_LARGEST, _LARGEST), ring.frac_bits)
        deltas = residual(ring, self.config.loss, logits, batch.y)
        return trace.gradients(decode(deltas, ring.frac_bits))
