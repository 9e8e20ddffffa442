"""Integers drawn exactly from the discrete Laplace law."""

import functools
import math
from typing import Any

import numpy as np

from extensions.rules import Between
from fl.privacy.clipping import Units

LAPLACE_TAIL = 700.0
"""No draw of Laplace noise leaves as many scales but with probability below 2^-1000."""

_LARGEST = 2.0**62


@functools.lru_cache(maxsize=64)
def _sampler(scale: float) -> Any:
    """Returns OpenDP's measurement; `opendp.prelude` would import scikit-learn, for 1 s."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    return make_laplace(integers, l1_distance(T="i64"), scale=scale)


def discrete_laplace(scale: float, shape: tuple[int, ...]) -> Units:
    """Returns fresh integers with P(k) proportional to exp(-|k| / scale).

    Exact sampling by OpenDP, from a generator that the operating system seeds; the tables of
    `extensions.privacy` are of Gaussians.

    Args:
        scale: in units of the grid; 0 gives zeros.
        shape: shape of the result.

    Raises:
        ArgumentError: a negative or non-finite scale, or one so large that noise could leave the
            range of the integers.

    Source:
        Canonne, Kamath and Steinke, NeurIPS 2020, Algorithm 2.
    """
    Between(0.0, _LARGEST / LAPLACE_TAIL, below=True).check("scale", scale)
    if scale == 0.0 or math.prod(shape) == 0:
        return np.zeros(shape, dtype=np.int64)
    draws = _sampler(float(scale))([0] * math.prod(shape))
    return np.asarray(draws, dtype=np.int64).reshape(shape)
