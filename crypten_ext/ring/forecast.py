"""A computation without values, which says what it would send and hold.

Nothing is drawn, dealt or sent: PyTorch's fake tensors, which have only shapes, or tensors of few
rows go through the same lines of the same protocols as shares do.
"""

import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

WORD = 8
"""Bytes of a word."""


class Counts:
    """What would be opened, dealt and held in a computation whose values mean nothing.

    Attributes:
        openings: words of each, one round each.
        rows: bytes of rows that a party sends as their owner, and receives from others.
        dealt: bytes of tuples that a party would use.
        peak: the most bytes of tensors that there are at once.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.openings: list[int] = []
        self.rows = self.dealt = self.peak = 0
        self._held: set[int] = set()
        self._present = 0

    def opened(self, words: torch.Tensor) -> torch.Tensor:
        """Returns what stands for the opened words; one round."""
        self.openings.append(words.numel())
        return torch.empty_like(words)

    @property
    def rounds(self) -> int:
        """Number of openings."""
        return len(self.openings)

    @property
    def counted(self) -> int:
        """Bytes as CrypTen counts them: 16 for each opened word, and rows of their owners."""
        return 2 * WORD * sum(self.openings) + self.rows

    def _hold(self, found: Any, kind: type[torch.Tensor]) -> None:
        for each in found if isinstance(found, list | tuple) else [found]:
            if isinstance(each, kind):
                self._count(each.untyped_storage())

    def _count(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._held:
            return
        self._held.add(key)
        self._present += size
        self.peak = max(self.peak, self._present)
        weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._held.discard(key)
        self._present -= size


class ForecastMode(Counts, FakeTensorMode):  # type: ignore[no-untyped-call]
    """Where tensors have no values; what would be opened meanwhile is counted."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = super().__torch_dispatch__(func, types, args, kwargs)
        self._hold(found, FakeTensor)
        return found


class SmallForecastMode(Counts, TorchDispatchMode):  # type: ignore[no-untyped-call]
    """As `ForecastMode`, with values that mean nothing: faster for few rows.

    Fake tensors need PyTorch's compiler, which takes a second to import.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self._hold(found, torch.Tensor)
        return found


def active() -> Counts | None:
    """Returns the mode in which values mean nothing now; None if they do."""
    mode = _get_current_dispatch_mode()
    return mode if isinstance(mode, Counts) else None


def is_valueless(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no values."""
    return isinstance(tensor, FakeTensor)


_MEMORY_FACTOR = 1.75
_MEMORY_OF_FIRST_STEP = 32 * 10**6


def process_memory(tensors: int) -> int:
    """Returns a bound of the bytes that a process takes in a step beside the model and records.

    It is three quarters more than the peak of its tensors, for messages, for whoever deals and for
    memory freed but not used again, and what the first step loads.
    """
    return round(_MEMORY_FACTOR * tensors) + _MEMORY_OF_FIRST_STEP
