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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sample_rate": 0.3, "momentum": 0.5, "average": 0.5},
        {"classes": 2, "one_output": True, "loss": "hard-sigmoid"},
        {"model": "mlp:8", "loss": "softmax"},
        {"optimizer": "adam", "physical_rows": 700},
    ],
)
def test_a_step_of_all_rows_takes_what_follows_from_few(pools: Pools, settings):
    base = {"steps": 2, "sample_rate": 1.0, "noise_multiplier": 4.0, "lr": 0.01, "delta": 1e-5}
    given = {"parties": 2, "provider": "tfp", **base, **settings}
    for few, whole in pools.run(2, f"{TASKS}:of_few_rows", settings=given, sizes=[1700, 1413]):
        assert few == whole


@pytest.mark.long
def test_a_batch_of_512_in_pieces_keeps_a_process_below_two_gigabytes(pools: Pools):
    own, other = pools.run(2, f"{TASKS}:memory_in_pieces", records=256, rows=64)
    for found in (own, other):
        assert found["rows"] == 512
        assert found["after"] < 2 * 10**9
        assert found["after"] - found["before"] < own["planned"]
