"""What a step of a script does beside arithmetic stays little: what is proven once is not anew."""

from tests.conftest import Pools
from tests.helpers.party_tasks.calls import above_the_ring

LIMIT = 500


def test_a_second_step_calls_few_of_our_functions(pools: Pools):
    first, second = pools.run(2, "tests.helpers.party_tasks.calls:of_second_step")
    assert 0 < above_the_ring(first) <= LIMIT
    assert 0 < above_the_ring(second) <= LIMIT
