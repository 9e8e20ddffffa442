"""CrypTen's replicated protocol gives inputs away to party 1, and so we refuse to run on it.

In all of this nothing is opened, and party 1 only looks at what it holds and receives. A product's
share z_i = x_i y_i + x_i y_(i-1) + x_(i-1) y_i leaves its party without a share of zero added.
"""

from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import Pools

TASKS = "tests.helpers.party_tasks.replicated"
BITS, RING = 64, 1 << 64

View = dict[str, list[torch.Tensor]]


def view_of_party_1(pools: Pools, task: str, **arguments: Any) -> View:
    view: View = pools.run(3, f"{TASKS}:{task}", **arguments)[1]
    return view


def odd_square_root(q: int, bits: int) -> int:
    """Returns one of the roots of an odd square modulo 2^bits; the others are -r and +-r + half."""
    root = 1
    for k in range(3, bits):
        root += ((root * root - q) >> k & 1) << (k - 1)
    return root


def least_root(s: int, offset: int) -> int:
    """Returns the number of least magnitude that is `offset` plus a square root of s mod 2^64."""
    twos = ((s & -s).bit_length() - 1) // 2
    root = odd_square_root(s >> 2 * twos, BITS - 2 * twos) << twos
    modulus = 1 << (BITS - 1 - twos)
    candidates = [(offset + r + modulus // 2) % modulus - modulus // 2 for r in (root, -root)]
    return min(candidates, key=abs)


def test_squaring_shows_party_1_the_value(pools):
    """Truncation hands party 1 the share z_2 = x_2^2 + 2 x_2 x_1 as it is.

    With its own x_1, z_2 + x_1^2 = (x_1 + x_2)^2 = (x - x_0)^2, and it was sent x_0. Of the roots
    the right one makes x small. A wrong one does so with a probability below 2^-30 a value: x has
    27 bits, and the roots differ by a uniform number modulo 2^(63-t), where 2^t divides x - x_0.
    """
    x = np.random.default_rng(1).integers(-(2**26), 2**26, 12)
    view = view_of_party_1(pools, "square", x=x)
    (own,), (x_0, z_2) = view["shares"], view["received"]
    recovered = [
        least_root((z + a * a) % RING, offset)
        for z, a, offset in zip(z_2.tolist(), own.tolist(), x_0.tolist(), strict=True)
    ]
    assert recovered == x.tolist()


def test_a_product_that_is_multiplied_again_shows_party_1_both_factors(pools):
    """The second multiplication sends party 1 the share z_0 = x_0 y_0 + x_0 y_2 + x_2 y_0.

    As it holds x_0, x_1, y_0 and y_1, that is one equation x_0 y + y_0 x = c in the small secrets;
    a second solution below 2^9 exists with a probability below 2^-30 a pair.
    """
    draws = np.random.default_rng(2)
    x, y, w = (draws.integers(0, 2**9, 6) for _ in range(3))
    view = view_of_party_1(pools, "multiply_three", factors=[x, y, w])
    (x_1, y_1), (x_0, y_0, z_0, _) = view["shares"], view["received"]
    known = z_0 - x_0 * y_0 + x_0 * (y_0 + y_1) + y_0 * (x_0 + x_1)
    guesses = torch.arange(2**9)
    for i in range(len(x)):
        sums = y_0[i] * guesses[:, None] + x_0[i] * guesses
        assert (sums == known[i]).nonzero().tolist() == [[x[i], y[i]]]


@pytest.mark.parametrize("when", ["before", "after", "ring"])
def test_it_is_refused(pools, when):
    for outcomes in pools.run(3, f"{TASKS}:refused"):
        kind, message = outcomes[when]
        assert kind == "InsecureError"
        assert "'replicated'" in message
        assert "'beaver'" in message
