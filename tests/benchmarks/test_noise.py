"""Ways to draw noise are compared by the variance that each adds."""

from benchmarks.noise import FLOATS, PROTOCOL2, RANDN, total_variance


def test_the_variance_that_each_way_adds():
    assert total_variance(PROTOCOL2, 3) == total_variance(FLOATS, 3) == 1.5
    assert total_variance(PROTOCOL2, 2) == 2.0
    assert total_variance(RANDN, 3) == 1.0
