"""One pair of parties for all tests of a file: keys take a tenth of a second."""

import numpy as np
import pytest

pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")

from extensions.two_party.lattice.product import KeyOwner, Multiplier


@pytest.fixture(scope="module")
def key_owner():
    return KeyOwner()


@pytest.fixture(scope="module")
def multiplier(key_owner):
    return Multiplier(key_owner.public_key())


@pytest.fixture
def words():
    """Returns a function that draws integers of so many bits, with both ends among them."""
    draws = np.random.default_rng(24)

    def draw(shape, bits=64):
        low, top = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        drawn = draws.integers(low, top, shape, dtype=np.int64, endpoint=True)
        drawn.flat[:2] = [low, top][: drawn.size]
        return drawn

    return draw
