"""The methods that our ABY3 has beyond the host's; ``tfe.set_protocol`` makes them functions."""

import math
from collections.abc import Sequence

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.privacy.randomness import SystemSource
from extensions.protocols import clipping
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import DEFAULT_DEGREE, InverseSqrtPlan, inverse_sqrt
from extensions.protocols.noise import NoiseSplit, add_gaussian_noise
from extensions.ring.interface import NoiseSource
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of, tensor_of
from tfe_ext.ring.roles import by_rows
from tfe_ext.ring.shares import Additive3
from tfe_ext.streams.devices import on_each

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor


class Functions:
    """What `tfe_ext.ABY3` adds to the host's protocol.

    Every method takes and returns private tensors of the protocol: arithmetic shares with its
    fractional bits, of static shape, usable in all of the host's methods. Called within a
    ``tf.function`` it adds to the graph; every run computes with fresh masks.
    """

    ring: ABY3Ring
    """Of the protocol's servers, with its fractional bits."""

    def inverse_sqrt(self, x: ABY3PrivateTensor, degree: int = DEFAULT_DEGREE) -> ABY3PrivateTensor:
        """Returns 1/sqrt(x), never above it.

        Args:
            x: private tensor.
            degree: of the polynomial: 2 (0.64 % below at most), 3 (0.096 %) or 4 (0.015 %).

        Guarantees:
            One-sided for every element as it is shared. Encoding rounds it before: 0.01 is shared
            as 655 / 2^16, whose inverse root is 10.0027. Zero, negative and very large inputs give
            exactly 0 (`extensions.protocols.inverse_sqrt.inverse_sqrt`).

        Cost:
            13 rounds, and 1,280 bytes an element of all servers together with 16 fractional bits,
            1,376 with 20; with degree 2, 12 rounds and 112 bytes less.
        """
        ring = self.ring
        plan = InverseSqrtPlan(frac_bits=ring.frac_bits, degree=degree)
        share = share_of(ring, x)
        return tensor_of(self, by_rows(ring, share, lambda own, x: inverse_sqrt(own, x, plan)))

    def clip_factor(
        self, x: ABY3PrivateTensor, max_norm: float = 1.0, range_bits: int = 16, degree: int = 2
    ) -> ABY3PrivateTensor:
        """Returns min(1, max_norm / sqrt(x)), never above it, for squared norms x.

        Exactly 0 from max_norm^2 2^range_bits on, and for x of -3 max_norm^2 ulp or less (the ratio
        is rounded up). The norm is in 2^-16 .. 2^16.

        Cost:
            7 rounds, and 860 bytes an element where max_norm is 1 or a smaller power of two, else
            1,020; a little more for few elements. See `extensions.protocols.clipping.clip_factor`.
        """
        ring = self.ring
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        ratio, shift = clipping.ratio_up(
            share_of(ring, x), ring.frac_bits, max_norm, bits=ring.frac_bits
        )
        factor = by_rows(ring, ratio, lambda own, r: clipping.clip_factor(own, r, plan, shift))
        return tensor_of(self, factor)

    def clip_by_norm(
        self, x: ABY3PrivateTensor, max_norm: float, range_bits: int = 16, degree: int = 2
    ) -> ABY3PrivateTensor:
        """Returns x with no row longer than max_norm (1 + eta).

        Rows are what the first axis counts; a vector is one row. See
        `extensions.protocols.clipping.clip_by_norm` for eta, the range and the edge cases.

        Cost:
            9 rounds, 80 bytes an element and 1,060 a row; 160 a row less where max_norm is a power
            of two so small that the squared norms over max_norm^2 need no rounding.
        """
        ring = self.ring
        share = share_of(ring, x)
        shape = share.shape
        if not shape:
            raise ArgumentError("x", "a scalar", "a tensor with rows to clip", code="shape")
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        count, *features = (1, *shape) if len(shape) == 1 else shape
        rows = share.reshape(count, math.prod(features))
        clipped = by_rows(ring, rows, lambda own, x: clipping.clip_by_norm(own, x, max_norm, plan))
        return tensor_of(self, clipped.reshape(shape))

    def gaussian_noise(
        self,
        shape: int | Sequence[int],
        sigma: float,
        *,
        colluders: int = 1,
        source: NoiseSource | None = None,
    ) -> ABY3PrivateTensor:
        """Returns fresh private noise: a discrete Gaussian on the fixed-point grid.

        Every run of a graph draws anew; nothing is drawn while a function is traced.

        Args:
            shape: shape of the result.
            sigma: standard deviation that remains after any `colluders` servers subtract their own
                summands, in user units: 0, which gives zeros, or at least 46 units of the last
                place (`extensions.protocols.noise.least_sigma`).
            colluders: number of servers that may pool what they know of noise, at most 2. ABY3
                itself bears only one.
            source: where noise comes from; by default each server's operating system.

        Guarantees:
            The total variance is 1.5 sigma^2 for one colluder, the paper's, and 3 sigma^2 for two.

        Cost:
            One round, 24 bytes a value.

        Source:
            Ruan et al., S&P 2023, Protocol 2.
        """
        ring = self.ring
        size = (shape,) if isinstance(shape, int) else tuple(tf.TensorShape(shape).as_list())
        servers = ring.servers.devices
        zeros = on_each(servers, lambda: tf.zeros(size, tf.int64))
        (share,) = add_gaussian_noise(
            ring,
            [Additive3(servers, zeros)],
            sigma,
            frac_bits=ring.frac_bits,
            source=source or SystemSource(),
            split=NoiseSplit(colluders=colluders),
        )
        return tensor_of(self, share)


def register() -> None:
    """Makes ``tfe`` drop the names of `Functions` when another protocol is set, as the host's."""
    tfe.__all_prot_funcs__.update(name for name in vars(Functions) if not name.startswith("_"))
