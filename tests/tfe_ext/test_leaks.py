"""What the stock class gives away, and this project's does not.

The stock class runs on its own fallback randomness, as its native operations exist for one old
version of TensorFlow only. What is shown lies in its Python code, which hands the same arguments to
either. Its native operation's own fault at 8 and 16 bits (draws that are constant) cannot be shown
without it; the uniformity of ours at those widths is tested in test_tfe_randomness.py.
"""

import pytest


@pytest.mark.parametrize(
    "task",
    [
        "two_calls_of_a_function_give_a_difference_of_secrets_away",
        "outputs_of_a_broadcast_give_their_differences_away",
        "the_largest_value_is_never_a_mask",
    ],
)
def test_stock_class_leaks_and_ours_does_not(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.leaks:{task}")
