"""The rows of a layer's input take part in two products, and are opened once for both."""

import sys

import pytest

from tests.helpers.openings import COUNT, uniform_p_value
from tests.helpers.strategies import ALARM

TASKS = "tests.helpers.party_tasks.factors"
INPUTS, OUTPUTS = 5, 3
ROWS = [4, 0, 7]
N = sum(ROWS)


def opened(words: int) -> int:
    """Bytes of so many opened words by CrypTen's count: each is sent once and received once."""
    return 16 * words


TRIPLE = opened(N * INPUTS + INPUTS * OUTPUTS), opened(OUTPUTS * N + N * INPUTS)
"""Of a product x w, and d x, in which both operands are opened."""


@pytest.mark.parametrize("owners", [False, True])
@pytest.mark.parametrize("provider", ["DEALER", "INSECURE_TFP"])
def test_rows_are_opened_once_for_two_products(dealer_pool, provider, owners):
    found = dealer_pool.run(
        f"{TASKS}:products", provider=provider, owners=owners, rows=ROWS, seed=4
    )
    for rank, products in enumerate(found):
        assert all(right for right, *_ in products.values())
        assert {rounds for _, rounds, *_ in products.values()} == {1}
        bytes_of = {name: size for name, (_, _, size, _) in products.items()}
        rows = opened(N * INPUTS)
        if owners and provider == "DEALER":
            rows = 8 * INPUTS * (2 * ROWS[rank] + N - ROWS[rank])
        assert bytes_of["x w"] == rows + opened(INPUTS * OUTPUTS)
        assert bytes_of["d x"] == opened(OUTPUTS * N)
        assert bytes_of["d x, wide"] == opened((OUTPUTS + 1) * N + N * INPUTS)
        assert (bytes_of["x w again"], bytes_of["d x again"]) == TRIPLE


def test_both_products_are_dealt_at_once(dealer_pool):
    for products in dealer_pool.run(
        f"{TASKS}:products", provider="DEALER", owners=True, rows=ROWS, seed=5
    ):
        dealt = {name: words for name, (*_, words) in products.items()}
        assert dealt["x w"] == 8 * (N * OUTPUTS + OUTPUTS * INPUTS)
        assert dealt["d x"] == 0


@pytest.mark.parametrize("provider", ["DEALER", "INSECURE_TFP"])
@pytest.mark.parametrize("outputs", [OUTPUTS, OUTPUTS + 1])
def test_rows_travel_while_another_product_waits(dealer_pool, provider, outputs):
    """Masked for other columns they go once more, under fresh masks; nobody's secret do they tell.

    The first party of CrypTen deals masks that owners do not know: rows are opened as any words.
    """
    found = dealer_pool.run(
        f"{TASKS}:products_ahead", provider=provider, rows=ROWS, outputs=outputs
    )
    for own, ((right, with_first), (also_right, with_second)) in zip(ROWS, found, strict=True):
        assert right
        assert also_right
        of_w, of_x = 2 * 8 * INPUTS * OUTPUTS, 2 * 8 * INPUTS * own
        if provider == "INSECURE_TFP":
            assert with_first == with_second == of_w + 2 * 8 * INPUTS * N
            continue
        assert with_first == of_w + 2 * of_x
        assert with_second == of_w + (of_x if outputs != OUTPUTS else 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted")
def test_owners_rows_are_among_what_a_party_carries(dealer_pool):
    """Each owner sends its rows to both others; what else is opened are the inputs' few words."""
    rows, inputs = [400, 0, 700], 200
    found = dealer_pool.run(f"{TASKS}:carried_by_owners", rows=rows, inputs=inputs)
    for own, carried in zip(rows, found, strict=True):
        sent, received = 2 * own * inputs, (sum(rows) - own) * inputs
        assert carried.sent == pytest.approx(8 * sent, rel=0.01, abs=8 * 3 * inputs)
        assert carried.received == pytest.approx(8 * received, rel=0.01, abs=8 * 3 * inputs)


@pytest.mark.parametrize("unmasked", [False, True])
def test_rows_that_owners_send_are_masked_and_never_twice_by_the_same(dealer_pool, unmasked):
    """False alarms, and unmasked rows that pass, have a probability of ALARM at most."""
    for words in dealer_pool.run(f"{TASKS}:sent_by_owners", count=COUNT, unmasked=unmasked):
        assert len(words) == 2 * dealer_pool.world_size
        assert (uniform_p_value(words) > ALARM) != unmasked
