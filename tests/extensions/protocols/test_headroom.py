"""Integers of an accepted step stay where truncation is right, however large what it declares."""

import itertools
import math
from contextlib import suppress

import pytest

from extensions.errors import ArgumentError
from extensions.privacy.gaussian_table import TAIL
from extensions.protocols.clipping import inverse_square_up
from extensions.ring.fixed_point import SAFE_BITS
from tests.helpers.strategies import plan_of, shape

INPUT_NORMS = [math.sqrt(2**k - 2 - 1e-9) for k in (2, 7, 10)]
DELTA_NORMS = [0.5, math.sqrt(0.5), 1.0, 2.0, 8.0]
MAX_NORMS = [math.sqrt(2**k / 1023) for k in (2, 4, 10, 16)]
"""Bounds whose squares, and that of whose inverse, all but fill their bits."""

frac_bits_of_training = pytest.mark.parametrize("frac_bits", [12, 16, 20, 24])


@frac_bits_of_training
@pytest.mark.parametrize("layers", [1, 2, 3, 4])
def test_squared_norms_over_the_squared_bound_stay_below_2_to_the_61(frac_bits, layers):
    """Both factors of a squared norm are rounded up, by two units at most."""
    largest = 0.0
    for a, d, max_norm in itertools.product(INPUT_NORMS, DELTA_NORMS, MAX_NORMS):
        with suppress(ArgumentError):
            plan = plan_of(
                (shape(5, 3, a, d),) * layers, frac_bits=frac_bits, max_grad_norm=max_norm
            )
            total = sum(
                (d**2 * 2.0**d_bits + 2) * ((a**2 + 1) * 2.0**a_bits + 2)
                for d_bits, a_bits in plan.norm_bits
            )
            largest = max(largest, total * inverse_square_up(max_norm)[0])
    assert 2.0**56 < largest < 2.0 ** (SAFE_BITS - 1)


@frac_bits_of_training
@pytest.mark.parametrize("noise_multiplier", [0.0, 1.0, 8.0])
def test_noisy_sums_times_the_rate_stay_below_2_to_the_62(frac_bits, noise_multiplier):
    largest = 0.0
    for rows, max_norm in itertools.product((1, 31, 64, 1000), (*MAX_NORMS, 1.0)):
        with suppress(ArgumentError):
            plan = plan_of(
                (shape(5, 3, 1.0, 1.0),),
                frac_bits=frac_bits,
                max_grad_norm=max_norm,
                rows=rows,
                noise_multiplier=noise_multiplier,
            )
            eta = 1 + plan.eta
            total = rows * max_norm * eta + TAIL * plan.noise_scale(eta)
            scaled = math.ldexp(total, frac_bits + plan.factor_bits) * plan.step_ratio[0]
            largest = max(largest, scaled)
    assert 2.0**40 < largest < 2.0**SAFE_BITS
