"""An accountant that is asked again and again keeps nothing of its arrays."""

import ctypes

import pytest

from extensions.privacy.accounting import epsilon

_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Heap(ctypes.Structure):
    """`mallinfo2` of the GNU C library."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _FIELDS.split())


def _allocated():
    """The bytes that this process has of its allocator now, whether Python knows of them or not."""
    find = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if find is None:
        pytest.skip("only the GNU C library tells what is allocated")
    find.restype = _Heap
    heap = find()
    return heap.uordblks + heap.hblkhd


def test_epsilon_of_ever_more_steps_takes_no_more_memory():
    """Arrays differ in length by the number of steps; the plan of one transform is half a MB."""

    def ask(steps):
        assert epsilon(noise_multiplier=0.8, sample_rate=0.02, steps=steps, delta=1e-5) > 0

    ask(2000)
    before = _allocated()
    for steps in range(2010, 2060, 10):
        ask(steps)
    assert _allocated() - before < 0.3e6
