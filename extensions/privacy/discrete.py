"""Integers drawn exactly from the discrete Gaussian and Laplace laws."""

import functools
import math
from typing import Any, cast

import numpy as np

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import SAFE_BITS, Integers

TAIL = 40.0
"""No draw leaves TAIL standard deviations but with probability below 2^-1000."""

LAPLACE_TAIL = 700.0
"""No draw of Laplace noise leaves as many scales but with probability below 2^-1000."""


def _integers() -> Any:
    """Returns OpenDP's domain of vectors; `opendp.prelude` would import scikit-learn, for 1 s."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T="i64"))


@functools.lru_cache(maxsize=64)
def _sampler(scale: float) -> Any:
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    return make_gaussian(_integers(), l2_distance(T="i64"), scale=scale)


def discrete_gaussian(scale: float, shape: tuple[int, ...]) -> Integers:
    """Returns fresh integers with P(k) proportional to exp(-k^2 / (2 scale^2)).

    Exact sampling (Canonne, Kamath and Steinke 2020) by OpenDP, from a generator that the
    operating system seeds. Integers, because the rounding of floating-point Gaussians gives the
    unnoised value away (Mironov 2012).

    Args:
        scale: standard deviation in ring units; 0 gives zeros.
        shape: shape of the result.

    Raises:
        ArgumentError: a negative or non-finite scale, or one so large that noise could leave the
            range in which the ring's truncation is right.
    """
    check_noise_scale(scale)
    if scale == 0.0 or math.prod(shape) == 0:
        return np.zeros(shape, dtype=np.int64)
    draws = _sampler(float(scale))([0] * math.prod(shape))
    return cast(Integers, np.asarray(draws, dtype=np.int64).reshape(shape))


@functools.lru_cache(maxsize=64)
def _laplace_sampler(scale: float) -> Any:
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance

    return make_laplace(_integers(), l1_distance(T="i64"), scale=scale)


def discrete_laplace(scale: float, shape: tuple[int, ...]) -> Integers:
    """Returns fresh integers with P(k) proportional to exp(-|k| / scale).

    Exact sampling by OpenDP, from a generator that the operating system seeds.

    Args:
        scale: in ring units; 0 gives zeros.
        shape: shape of the result.

    Raises:
        ArgumentError: a negative or non-finite scale, or one so large that noise could leave the
            range of the integers.

    Source:
        Canonne, Kamath and Steinke, NeurIPS 2020, Algorithm 2.
    """
    limit = 2.0**SAFE_BITS / LAPLACE_TAIL
    if not 0.0 <= scale < limit:
        raise ArgumentError("scale", scale, f"in [0, {limit:.3g}) ring units", "Lower the scale.")
    if scale == 0.0 or math.prod(shape) == 0:
        return np.zeros(shape, dtype=np.int64)
    draws = _laplace_sampler(float(scale))([0] * math.prod(shape))
    return cast(Integers, np.asarray(draws, dtype=np.int64).reshape(shape))


def check_noise_scale(scale: float) -> None:
    """Raises ArgumentError where `scale` (ring units) is no usable standard deviation."""
    limit = 2.0**SAFE_BITS / TAIL
    if not 0.0 <= scale < limit:
        raise ArgumentError(
            "scale", scale, f"in [0, {limit:.3g}) ring units", "Lower sigma or the fractional bits."
        )
