"""The hardened ABY3 computes what TF Encrypted's operations promise, and never reuses a mask."""

import pytest

from tests.tfe_ext.test_compat import needs_tensorflow, run_fresh


@pytest.mark.parametrize(
    "task",
    [
        "arithmetic",
        "comparisons",
        pytest.param("further_arithmetic", marks=pytest.mark.long),
        pytest.param("further_comparisons", marks=pytest.mark.long),
        pytest.param("functions", marks=pytest.mark.long),
        "bit_operations",
        "calls_differ",
        "steps_of_a_loop_differ",
        "outputs_are_masked_one_by_one",
        "small_types_are_masked",
        "only_public_numbers_are_sent_for_masks",
        "host_loops_compute",
        "reset_changes_the_keys",
        "protocols_take_turns",
        "operands_of_another_protocol_are_refused",
        "unsuitable_arguments_are_refused",
    ],
)
def test_property_of_aby3(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.aby3:{task}")


@pytest.mark.long
@needs_tensorflow
def test_stock_default_has_no_key_until_it_is_asked_for():
    run = run_fresh(
        """
import numpy as np
import tfe_ext
import tf_encrypted as tfe

stock = tfe.get_protocol()
assert not isinstance(stock, tfe_ext.ABY3)
try: stock._gen_zero_sharing([2])
except RuntimeError as error: assert 'reset' in str(error), error
else: raise AssertionError('a mask without a key')
stock.reset()
# The stock class replays its masks in each call of a graph; this project's own does not.
import tensorflow as tf
for protocol, replays in ((stock, True), (tfe_ext.ABY3(), False)):
    run = tf.function(lambda: protocol._gen_zero_sharing([4])[0].value, autograph=False)
    assert np.array_equal(run(), run()) is replays, protocol
"""
    )
    assert run.returncode == 0, run.stderr
