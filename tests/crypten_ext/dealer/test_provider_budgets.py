"""What the dealer costs beside the first party: no round, a word for each dependent word, time."""

import statistics
import sys
from typing import Any

import pytest

from benchmarks.providers import STEP
from crypten_ext.processes.launch import Parties
from extensions.runs.providers import Provider

TASKS = "tests.helpers.party_tasks.provider_budgets:"
SMALL = {"batch": 6, "features": 5, "classes": 3}
ROUNDS = 18

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted")


def measured(pool: Parties, provider: Provider, steps: int, **sizes: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pool.run(
        "benchmarks.providers:measure",
        work=STEP,
        provider=provider,
        steps=steps,
        **sizes,
    )
    return found


@pytest.mark.parametrize("provider", ["DEALER", "INSECURE_TFP"])
def test_tuples_need_no_message_among_the_parties(dealer_pool, provider):
    assert dealer_pool.run(f"{TASKS}cost_of_tuples", provider=provider) == [(0, 0)] * 3


@pytest.mark.parametrize("provider", ["dealer", "tfp"])
def test_a_step_has_the_rounds_of_its_protocols_alone(dealer_pool, provider):
    """What the first party spends on dealing inline is nothing, so that both are equal."""
    for party in measured(dealer_pool, provider, steps=2, **SMALL):
        assert party["rounds"] == ROUNDS


def masks(kind: str, words: list[int]) -> int:
    """Returns the words of a tuple that depend on no others: uniform, and never corrected."""
    # Of scaled rows: masks of the factor, of the deltas, and of the inputs that are squared too.
    several = {"additive": 2, "layer": 3, "selection": 4, "truncations": 2, "scaled rows": 3}
    uniform = several.get(kind, len(words) // 2)
    return sum(words[:uniform])


def test_a_correction_is_a_word_for_each_word_that_depends_on_others(dealer_pool):
    for party in dealer_pool.run(f"{TASKS}words_of_step", **SMALL):
        everything = sum(sum(words) for _, words in party["asked"])
        uniform = sum(masks(kind, words) for kind, words in party["asked"])
        assert party["corrected"] == 8 * (everything - uniform)
        assert 0 < uniform < everything


@pytest.mark.long
def test_a_step_takes_no_longer_than_with_the_first_party(dealer_pool):
    """Both providers take turns in one run; the ratio of medians, on loopback, is about 0.9."""
    seconds: dict[Provider, list[float]] = {"dealer": [], "tfp": []}
    for _ in range(4):
        for provider, taken in seconds.items():
            party, *_ = measured(dealer_pool, provider, 8, batch=128, features=512, classes=10)
            taken += party["seconds"]
    dealt, first = (statistics.median(taken) for taken in seconds.values())
    assert dealt <= 1.3 * first
