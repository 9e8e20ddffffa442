"""A party's meter counts what goes to and comes from the other parties, and nothing else."""

import sys

import pytest

from extensions.protocols.host import Carried, Traffic
from tests.helpers.wire import on_wire

TASKS = "tests.helpers.party_tasks.meter"
WORDS = 1000

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted")


@linux
def test_what_else_the_process_sends_does_not_count(pools):
    for alone, beside in pools.run(3, f"{TASKS}:beside_a_stranger"):
        assert alone.rounds == beside.rounds == 1
        (one,), (other,) = alone.carried, beside.carried
        assert one.sent == other.sent == 2 * on_wire(8 * WORDS)
        assert one.dealt == other.dealt == 0


@linux
def test_what_gloo_sends_counts_with_its_headers(pools):
    for alone, beside in pools.run(3, f"{TASKS}:beside_a_stranger", over="gloo"):
        (one,), (other,) = alone.carried, beside.carried
        ring = 8 * WORDS * 4 / 3
        assert ring < one.sent == other.sent < ring + 1500


@linux
def test_the_store_s_connection_does_not_count(pools):
    for traffic in pools.run(3, f"{TASKS}:without_store", over="gloo"):
        assert traffic == Traffic(1, [Carried()])


def test_where_nothing_is_counted_there_are_rounds_alone(pools):
    assert pools.run(3, f"{TASKS}:uncounted", over="gloo") == [Traffic(1, [])] * 3


@linux
def test_what_the_dealer_sends_is_counted_apart(dealer_pool):
    for party in dealer_pool.run(f"{TASKS}:dealt"):
        (carried,) = party["since"].carried
        assert party["corrected"] > 1e6
        assert (party["since"].rounds, carried.sent, carried.received) == (0, 0, 0)
        assert party["dealt"] == pytest.approx(
            party["corrected"] / dealer_pool.world_size, rel=0.01
        )
