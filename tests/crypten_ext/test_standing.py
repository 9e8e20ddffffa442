"""A matrix that stays the same is sent once, under a mask of its own, for many products."""

import pytest

from tests.helpers.claims import claim
from tests.helpers.openings import COUNT, uniform_p_value
from tests.helpers.party_tasks.standing import INPUTS, OUTPUTS
from tests.helpers.strategies import ALARM

TASKS = "tests.helpers.party_tasks.standing"
SIZES = [4, 0, 7]
N = sum(SIZES)


def opened(words: int) -> int:
    """Bytes of so many opened words by CrypTen's count: each is sent once and received once."""
    return 16 * words


@pytest.mark.parametrize("by_columns", [False, True])
def test_a_product_opens_and_is_dealt_what_the_other_operand_has(dealer_pool, by_columns):
    """Opened are the words of w or d, dealt those of the product; x is sent to all others once."""
    found = dealer_pool.run(
        f"{TASKS}:products", provider="DEALER", sizes=SIZES, by_columns=by_columns
    )
    rows, inputs = (INPUTS, N) if by_columns else (N, INPUTS)
    left, right = inputs * OUTPUTS, OUTPUTS * rows
    for own, products in zip(SIZES, found, strict=True):
        assert all(right_ for right_, *_ in products.values())
        once = 8 * INPUTS * (2 * own + N - own)
        assert products["x w"][1:] == [1, once + opened(left), 8 * rows * OUTPUTS]
        assert products["d x"][1:] == [1, opened(right), 8 * inputs * OUTPUTS]
        assert products["x w again"][1:] == [1, opened(left), 8 * rows * OUTPUTS]
        assert products["x w, one column"][1:] == [1, opened(inputs), 8 * rows]
        assert products["d x again"][1:] == products["d x"][1:]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("provider", ["INSECURE_TFP", "PARTIES"])
def test_products_are_right_whoever_deals(dealer_pool, provider, by_columns):
    found = dealer_pool.run(
        f"{TASKS}:products", provider=provider, sizes=SIZES, by_columns=by_columns
    )
    assert all(right for products in found for right, *_ in products.values())


@claim(
    "Without a dealer a party multiplies its own X by the others' "
    "encrypted masks, so that no row is sent, masked or not."
)
@pytest.mark.parametrize("by_columns", [False, True])
def test_without_a_dealer_no_row_is_sent(dealer_pool, by_columns):
    left = (N if by_columns else INPUTS) * OUTPUTS
    for products in dealer_pool.run(
        f"{TASKS}:products", provider="PARTIES", sizes=SIZES, by_columns=by_columns
    ):
        assert products["x w"][1:3] == products["x w again"][1:3] == [1, opened(left)]


@claim("All that is sent and opened is uniform over a mask that serves again.")
@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("fault", ["", "mask", "fresh"])
def test_all_that_is_sent_and_opened_is_uniform_over_a_mask_that_serves_again(
    dealer_pool, fault, by_columns
):
    """Of zeros. False alarms, and faults that pass, have a probability of ALARM at most."""
    for sent, words in dealer_pool.run(
        f"{TASKS}:seen", count=COUNT, fault=fault, by_columns=by_columns
    ):
        assert (len(sent), len(words)) == (2 * 3, 2 * 2 * 3)
        assert (uniform_p_value(sent) > ALARM) == (fault != "mask")
        assert (uniform_p_value(words) > ALARM) == (fault != "fresh")


LINEAR = {"noise_multiplier": 4.0, "delta": 1e-6, "lr": 10.0, "max_grad_norm": 0.25}
LINEAR |= {"classes": 10, "momentum": 0.5, "average": 0.4, "bias_scale": 0.0, "steps": 3}
BARRIER = 5_000
"""Bytes of what is waited for between two steps, and of headers of each of their rounds."""


def check_steps(found, records, features):
    (plan,) = [own["planned"] for own in found if own["planned"]]
    rows = 16 * 2 * records * features
    assert plan["once"] == rows
    for own in found:
        for rounds, carried, _ in own["each"]:
            assert rounds == plan["rounds"] + 2
            assert carried == pytest.approx(plan["bytes"], rel=0.01, abs=BARRIER)
        rounds, carried, _ = own["first"]
        assert carried == pytest.approx(plan["bytes"] + rows, rel=0.01, abs=2 * BARRIER)


def test_steps_of_a_run_send_rows_once(dealer_pool):
    found = dealer_pool.run(f"{TASKS}:run_of_steps", records=400, features=64, settings=LINEAR)
    check_steps(found, 400, 64)


def test_rows_in_pieces_are_sent_once_too(dealer_pool):
    """A piece's masks of w are its own: four pieces open w four times."""
    settings = LINEAR | {"physical_rows": 300}
    found = dealer_pool.run(f"{TASKS}:run_of_steps", records=400, features=64, settings=settings)
    (plan,) = [own["planned"] for own in found if own["planned"]]
    for own in found:
        first, (rounds, carried, _), *_ = own["first"], *own["each"]
        assert rounds == plan["rounds"] + 2
        assert carried == pytest.approx(plan["bytes"], rel=0.01, abs=BARRIER)
        assert first[1] - carried == pytest.approx(16 * 2 * 400 * 64, rel=0.02)


@claim("A step of 12,000 rows of 1,024 features and 10 classes takes 30 MB instead of 159.")
@pytest.mark.long
def test_a_step_of_twelve_thousand_rows_takes_30_megabytes(dealer_pool):
    found = dealer_pool.run(f"{TASKS}:run_of_steps", records=4000, features=1024, settings=LINEAR)
    check_steps(found, 4000, 1024)
    for own in found:
        for _, carried, dealt in own["each"]:
            assert carried <= 30e6
            assert dealt <= 42.1e6


def test_every_piece_and_every_run_has_a_mask_of_its_own(dealer_pool):
    """Whoever goes on with a run masks its records anew, as other records are."""
    for words in dealer_pool.run(f"{TASKS}:batches", count=COUNT, pieces=2):
        assert len(words) == 2 * 2 * 3
        assert uniform_p_value(words) > ALARM
