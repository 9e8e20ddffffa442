"""What an optimizer of scripts counts is kept, and states of before are read."""

import pytest

from extensions.protocols.optimizer.counted import Counted
from extensions.protocols.settings import ScriptTraining


@pytest.mark.parametrize("key", ["shift", "momentum"])
def test_a_state_counts_as_done_also_by_the_name_of_before(key):
    optimizer = Counted(ScriptTraining(noise_multiplier=1.0), None)
    optimizer.load_state_dict({"drift": [3, 0.25, 0.5], key: 5})
    assert optimizer.iterations == 3
    assert optimizer.state_dict() == {"drift": [3, 0.25, 0.5], "shift": 5}
