"""A task that fails takes its pool with it, and the next test gets another one."""

import numpy as np
import pytest

from extensions.errors import PeaError
from tests.conformance.arenas.arena import CrypTenArena


@pytest.mark.hosts(crypten_arena=[2])
def test_a_failed_task_is_no_trouble_to_the_next(crypten_arena: CrypTenArena):
    with pytest.raises(PeaError, match="no such recipe"):
        crypten_arena.evaluate("no such recipe", [])
    (opened,) = crypten_arena.evaluate("truncate", [np.array([3 << 20])], shifts=[20])
    assert opened.tolist() == [3]
