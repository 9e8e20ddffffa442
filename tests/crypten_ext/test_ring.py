"""Arithmetic of one party by itself, of few elements and of as many as go row by row."""

import numpy as np
import pytest
import torch

from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.matmul import matmul
from extensions.ring.fixed_point import wrap
from extensions.ring.integer_matmul import matmul as limbs

FEW, MANY = 5, 1 << 12


def words(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng().integers(-(2**63), 2**63, shape))


@pytest.mark.parametrize("shape", [(FEW,), (MANY,), (64, 64)])
def test_linear_combinations_are_matrix_products(shape):
    x = words(7, *shape)
    rows = [[2**63 - 1, -3, 0, 1 << 61, 5, -(2**62), 2**64 - 1], [1, *[0] * 6], [0] * 7]
    found = CrypTenRing(16).linear(x, rows)
    weights = np.array([[wrap(w) for w in row] for row in rows], np.int64)
    expected = limbs(weights, x.numpy().reshape(7, -1)).reshape(3, *shape)
    assert [one.tolist() for one in found] == expected.tolist()


@pytest.mark.parametrize("size", [FEW, MANY])
@pytest.mark.parametrize("kinds", [(), (1,), (3,)])
@pytest.mark.parametrize("right", [(2, 0, 2), slice(1, 4), slice(2, 3)])
@pytest.mark.parametrize("added", [None, (1, 1, 0), slice(2, 5)])
def test_products_of_rows_are_those_of_single_words(size, kinds, right, added):
    """Whatever the axes in between are, along which public words are more."""
    own, public = words(6, *(1 for _ in kinds), size), words(5, *kinds, size)
    before = own.clone(), public.clone()
    found = CrypTenRing(16).and_xor(own, (4, 0, 5), public, right, added)
    lefts = own.numpy()[[4, 0, 5]]
    expected = lefts & public.numpy()[right if isinstance(right, slice) else [*right]]
    if added is not None:
        expected ^= own.numpy()[added if isinstance(added, slice) else [*added]]
    assert np.array_equal(found.numpy(), expected)
    assert torch.equal(own, before[0])
    assert torch.equal(public, before[1])


PRODUCTS = [
    ((3, 4), (4, 2)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
]


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
def test_matrix_products_are_torchs(left, right):
    x, y = words(*left), words(*right)
    assert torch.equal(matmul(x, y), torch.matmul(x, y))
    turned = x.mT.contiguous().mT if x.ndim > 1 else x
    assert torch.equal(matmul(turned, y), torch.matmul(x, y))
    shapes = (each.to("meta") for each in (x, y))
    assert matmul(*shapes).shape == torch.matmul(x, y).shape
