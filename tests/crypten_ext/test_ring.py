"""Arithmetic of one party by itself, of few elements and of as many as go row by row."""

import time

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
    ((3, 4), (4, 0)),
    ((50, 70), (70, 1)),
    ((1, 70), (70, 4)),
    ((50, 1), (1, 1)),
    ((50, 70), (70, 9)),
    ((6, 50, 70), (70, 1)),
    ((6, 50, 70), (6, 70, 3)),
    ((1, 50, 70), (6, 70, 9)),
    ((0, 50, 70), (0, 70, 1)),
]
LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "every other column": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "repeated": lambda x: x[..., :1, :].expand(x.shape),
}


@pytest.mark.parametrize(("left", "right"), PRODUCTS)
@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
def test_matrix_products_are_torchs(left, right, first, second):
    x, y = (
        LAYOUTS[layout](each) if each.ndim > 1 and each.numel() else each
        for layout, each in ((first, words(*left)), (second, words(*right)))
    )
    expected = torch.matmul(x, y)
    assert torch.equal(matmul(x, y), expected)
    np.testing.assert_array_equal(expected, x.numpy() @ y.numpy())
    shapes = (each.to("meta") for each in (x, y))
    assert matmul(*shapes).shape == expected.shape


def by_numpy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    columns = np.ascontiguousarray(y.numpy().swapaxes(-1, -2))
    return torch.from_numpy(x.numpy() @ columns.swapaxes(-1, -2))


@pytest.mark.long
@pytest.mark.parametrize(
    "factors",
    [
        lambda: (words(3000, 1024), words(10, 1024).T),
        lambda: (words(3000, 1024), words(1, 1024).T),
        lambda: (words(3000, 10).T, words(3000, 1024)),
        lambda: (words(600, 784), words(128, 784).T),
        lambda: (words(64, 25, 100), words(64, 100, 1)),
    ],
    ids=["x w", "x w of one", "d x", "hidden x w", "norms"],
)
def test_matrix_products_take_about_the_time_of_the_faster_way(factors):
    """The slower way takes 1.5 to 75 times as long, with torch 2.13."""
    x, y = factors()
    ways = (matmul, torch.matmul, by_numpy)
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(7):
        for taken, way in zip(seconds, ways, strict=True):
            started = time.process_time()
            way(x, y)
            taken.append(time.process_time() - started)
    own, *others = map(min, seconds)
    assert own < 1.4 * min(others)
