"""Plans of steps: what they say before anything is sent is what the steps take, to the byte."""

import pytest

from tests.conftest import Pools
from tests.helpers.party_tasks import plans

TASKS = "tests.helpers.party_tasks.plans"
SHORT = {"head of an mlp", "residual"}
CASES = [
    pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long]) for name in plans.CASES
]


@pytest.mark.parametrize("case", CASES)
def test_a_step_takes_the_rounds_and_bytes_of_its_plan(pools: Pools, case):
    own, other = pools.run(2, f"{TASKS}:planned", case=case, records=8)
    plan = own["plan"]
    assert own["taken"] == other["taken"] == [plan["rounds"], plan["bytes"]]
    assert plan["dealt"] > plan["bytes"] // 2


@pytest.mark.long
def test_a_batch_of_512_in_pieces_keeps_a_process_below_two_gigabytes(pools: Pools):
    own, other = pools.run(2, f"{TASKS}:memory_in_pieces", records=256, rows=64)
    for found in (own, other):
        assert found["rows"] == 512
        assert found["after"] < 2 * 10**9
        assert found["after"] - found["before"] < own["planned"]
