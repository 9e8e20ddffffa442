"""The methods that our ABY3 has beyond the host's; ``tfe.set_protocol`` makes them functions."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from extensions import clipping
from extensions.clipping import ClipPlan
from extensions.errors import ArgumentError
from extensions.inverse_sqrt import DEFAULT_DEGREE, InverseSqrtPlan, inverse_sqrt
from extensions.noise import add_gaussian_noise
from extensions.randomness import NoiseSource, SystemSource

import tf_encrypted as tfe
from tf_encrypted.protocol.aby3.aby3_tensors import ABY3PrivateTensor, ShareType

from .ring import ABY3Ring
from .shares import Additive3, Replicated, Share

if TYPE_CHECKING:
    from .aby3 import ABY3

# AutoGraph finds nothing to convert in what follows, but looks for long.
_plain = tf.autograph.experimental.do_not_convert


class Functions:
    """What `tfe_ext.ABY3` adds to the host's protocol.

    Every method takes and returns private tensors of the protocol: arithmetic shares with its
    fractional bits, of static shape, usable in all of the host's methods. Called within a
    ``tf.function`` it adds to the graph; every run computes with fresh masks.
    """

    @_plain
    def inverse_sqrt(
        self: "ABY3", x: ABY3PrivateTensor, degree: int = DEFAULT_DEGREE
    ) -> ABY3PrivateTensor:
        """Returns 1/sqrt(x), never above it.

        Args:
            x: private tensor.
            degree: of the polynomial: 2 (0.64 % below at most), 3 (0.096 %) or 4 (0.015 %).

        **Guarantees.** One-sided in the ring, for every element; see
        `extensions.inverse_sqrt.inverse_sqrt` for the interval and for what zero, negative and
        very large inputs give (exactly 0).

        **Cost.** 16 rounds, and 1,472 bytes an element of all servers together with 16 fractional
        bits, 1,568 with 20; with degree 2, 14 rounds and 64 bytes less.

        **Raises.** ArgumentError for another degree, or what is no private tensor as above.
        """
        ring = ABY3Ring(self)
        plan = InverseSqrtPlan(frac_bits=ring.frac_bits, degree=degree)
        return _tensor(ring, inverse_sqrt(ring, _share(self, x), plan))

    @_plain
    def clip_factor(
        self: "ABY3",
        x: ABY3PrivateTensor,
        max_norm: float = 1.0,
        range_bits: int = 16,
        degree: int = 2,
    ) -> ABY3PrivateTensor:
        """Returns min(1, max_norm / sqrt(x)), never above it, for squared norms x.

        Exactly 0 from max_norm^2 2^range_bits on, and for x of -3 max_norm^2 ulp or less (the
        ratio is rounded up).

        **Cost.** 12 rounds and 1,160 bytes an element where max_norm is 1 or a smaller power of
        two, else 13 rounds and 1,208 bytes. See `extensions.clipping.clip_factor`.

        **Raises.** ArgumentError for max_norm outside 2^-16 .. 2^16 or a range that does not fit,
        or what is no private tensor.
        """
        ring = ABY3Ring(self)
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        ratio = clipping.ratio_up(ring, _share(self, x), ring.frac_bits, max_norm)
        return _tensor(ring, clipping.clip_factor(ring, ratio, plan))

    @_plain
    def clip_by_norm(
        self: "ABY3",
        x: ABY3PrivateTensor,
        max_norm: float,
        range_bits: int = 16,
        degree: int = 2,
    ) -> ABY3PrivateTensor:
        """Returns x with no row longer than max_norm (1 + eta).

        Rows are what the first axis counts; a vector is one row. See
        `extensions.clipping.clip_by_norm` for eta, the range and the edge cases.

        **Cost.** 16 rounds, 64 bytes an element and 1,256 a row; or 15 rounds and 32 bytes a row
        less where max_norm is a power of two so small that the squared norms over max_norm^2 need
        no rounding.

        **Raises.** ArgumentError for a bound out of range, a scalar, or what is no private tensor.
        """
        ring = ABY3Ring(self)
        share = _share(self, x)
        shape = share.shape
        if not shape:
            raise ArgumentError("x", "a scalar", "a tensor whose rows are to be clipped")
        plan = ClipPlan(frac_bits=ring.frac_bits, range_bits=range_bits, degree=degree)
        count, *features = (1, *shape) if len(shape) == 1 else shape
        rows = share.reshape(count, math.prod(features))
        clipped = clipping.clip_by_norm(ring, rows, max_norm, plan)
        return _tensor(ring, clipped.reshape(shape))

    @_plain
    def gaussian_noise(
        self: "ABY3",
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
                summands, in user units; 0 gives zeros.
            colluders: number of servers that may pool what they know of noise, at most 2. ABY3
                itself bears only one.
            source: where noise comes from; by default each server's operating system.

        **Guarantees.** The total variance is 1.5 sigma^2 for one colluder and 3 sigma^2 for two.

        **Cost.** One round, 24 bytes a value.

        **Raises.** ArgumentError for a negative or non-finite sigma, or one beyond the ring.

        **Source.** Ruan et al., S&P 2023, Protocol 2.
        """
        ring = ABY3Ring(self)
        size = (shape,) if isinstance(shape, int) else tuple(tf.TensorShape(shape).as_list())
        servers = [server.device_name for server in self.servers]
        zeros = []
        for server in servers:
            with tf.device(server):
                zeros.append(tf.zeros(size, tf.int64))
        (share,) = add_gaussian_noise(
            ring,
            [Additive3(servers, zeros)],
            sigma,
            frac_bits=ring.frac_bits,
            source=source or SystemSource(),
            colluders=colluders,
        )
        return _tensor(ring, share)


def register() -> None:
    """The names of `Functions` leave ``tfe`` when another protocol is set, as the host's do."""
    tfe.__all_prot_funcs__.update(name for name in vars(Functions) if not name.startswith("_"))


def _share(prot: "ABY3", x: Any) -> Replicated:
    """Returns the shares of a private tensor of the protocol.

    Raises:
        ArgumentError: it is something else, or its values are not fixed-point.
    """
    if not isinstance(x, ABY3PrivateTensor):
        raise ArgumentError(
            "x",
            type(x).__name__,
            "a private tensor of ABY3",
            "Share it with tfe.define_private_input(...); public values need no protocol.",
        )
    if x.prot is not prot:
        raise ArgumentError(
            "x",
            "a tensor of another protocol object",
            "of the protocol whose method is called",
            "Share it again under the current protocol.",
        )
    if x.share_type != ShareType.ARITHMETIC:
        raise ArgumentError(
            "x", f"a {x.share_type} sharing", "an arithmetic one", "Convert it with tfe.b2a(x)."
        )
    if not x.is_scaled:
        raise ArgumentError(
            "x", "an unscaled tensor", "fixed-point", "Share it with apply_scaling=True."
        )
    if x.backing_dtype.native_type != tf.int64:
        raise ArgumentError("x", f"of {x.backing_dtype.native_type.name}", "of 64-bit shares")
    if not tf.TensorShape(x.shape).is_fully_defined():
        raise ArgumentError(
            "x.shape", x.shape, "static", "Give the function an input signature without None."
        )
    servers = [server.device_name for server in prot.servers]
    return Replicated(servers, [share.value for pair in x.unwrapped for share in pair])


def _tensor(ring: ABY3Ring, share: Share) -> ABY3PrivateTensor:
    """Returns the share as a private tensor of the host; one round, unless it is replicated."""
    ((x0, x1, y1, y2, z2, z0),) = [r.parts for r in ring.replicate([share])]
    factory = ring.prot.default_factory
    pairs = [[factory.tensor(part) for part in pair] for pair in ((x0, x1), (y1, y2), (z2, z0))]
    return ABY3PrivateTensor(ring.prot, pairs, True, ShareType.ARITHMETIC)
