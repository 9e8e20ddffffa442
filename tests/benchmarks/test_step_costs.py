"""What privacy adds to a step, and what ghost norms save, in both hosts at a user's size."""

import statistics
import sys
from typing import Any

import pytest

from benchmarks.steps.hosts import measure
from benchmarks.steps.step import GHOST, MATERIALISED, PLAIN

SIZES = {"batch": 128, "features": 512, "classes": 10}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted"),
]


@pytest.fixture(scope="module", params=["CrypTen", "ABY3"])
def found(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    return measure(request.param, 1, SIZES)


def test_privacy_adds_eight_rounds_and_few_bytes(found):
    assert found[PLAIN]["rounds"] == 10
    assert found[GHOST]["rounds"] == 18
    assert found[GHOST]["bytes"] <= 1.2 * found[PLAIN]["bytes"]


def test_ghost_norms_save_ten_times_the_bytes_of_materialised_clipping(found):
    assert 10 * found[GHOST]["bytes"] <= found[MATERIALISED]["bytes"]


def test_ghost_norms_save_time():
    """Measured: 5.6 times less in ABY3, with the compiled generator."""
    found = measure("ABY3", 8, SIZES)
    ghost, made = (statistics.median(found[kind]["seconds"]) for kind in (GHOST, MATERIALISED))
    assert 4 * ghost < made
