"""Matrix products through floating point are exact modulo 2^64, whatever the entries."""

import numpy as np
import pytest

from extensions.ring.fixed_point import wrap
from extensions.ring.integer_matmul import SMALL, matmul

SHAPES = {
    "small": ((2, 3), (3, 4)),
    "wide": ((300, 1024), (1024, 10)),
    "transposed": ((10, 700), (700, 90)),
    "stacked": ((5, 40, 70), (70, 30)),
    "both stacked": ((5, 40, 70), (5, 70, 30)),
    "blocks of both sides": ((150, 1100), (1100, 140)),
    "blocks of a stack": ((50, 40, 70), (50, 70, 30)),
    "one column": ((400, 257), (257, 1)),
}


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("first", [0, 5, 24, 40, 63])
@pytest.mark.parametrize("second", [5, 30, 63])
def test_products_are_those_of_integers(shapes, first, second):
    draws = np.random.default_rng(first + second)
    x, y = (
        draws.integers(-(2**bits), 2**bits - 1, shape, endpoint=True)
        for bits, shape in zip((first, second), shapes, strict=True)
    )
    for array, bits in ((x, first), (y, second)):
        array.flat[:2] = -(2**bits), 2**bits - 1
    np.testing.assert_array_equal(matmul(x, y), x @ y)


def test_sums_at_the_edge_of_double_precision_are_exact():
    """All products are as large, and as odd, as the limbs can be: nothing averages out."""
    inner = 2048
    for bits in (20, 21, 22, 31, 42):
        x = np.full((64, inner), 2**bits - 1)
        y = np.full((inner, 3), -(2**bits) + 1)
        assert x.size * y.shape[1] > SMALL
        np.testing.assert_array_equal(matmul(x, y), x @ y)


def test_sums_of_the_largest_limbs_are_exact():
    """Whatever the width of the limbs, some row and some column hold none but the largest."""
    inner = 2047
    entries = [sum(((1 << w - 1) - 1) << i for i in range(0, 64, w)) for w in range(12, 34)]
    largest = np.array([wrap(entry) for entry in entries])
    x = np.repeat(largest[:, None], inner, axis=1)
    for y in (x.T, -x.T >> 20):
        np.testing.assert_array_equal(matmul(x, y), x @ y)


def test_strided_and_zero_operands():
    draws = np.random.default_rng(1)
    x = draws.integers(-(2**40), 2**40, (900, 60))
    y = draws.integers(-(2**40), 2**40, (900, 30))
    np.testing.assert_array_equal(matmul(x.T, y[:, ::3]), x.T @ y[:, ::3])
    np.testing.assert_array_equal(matmul(x.T * 0, y), np.zeros((60, 30)))
