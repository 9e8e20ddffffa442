"""A computation without values, which says what it would send and hold: tensors have shapes alone.

Nothing is computed, drawn, dealt or sent, and no memory is taken: PyTorch's fake tensors go through
the same lines of the same protocols as shares do.
"""

import weakref
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import _get_current_dispatch_mode

WORD = 8
"""Bytes of a word."""


class Foreseen(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Where tensors have no values; what would be opened meanwhile is counted.

    Attributes:
        openings: words of each, one round each.
        rows: bytes of rows that a party sends as their owner, and receives from others.
        dealt: bytes of tuples that a party would use.
        peak: the most bytes of tensors that there are at once.
    """

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.openings: list[int] = []
        self.rows = self.dealt = self.peak = 0
        self._held: set[int] = set()
        self._present = 0

    def opened(self, words: torch.Tensor) -> torch.Tensor:
        """Returns what stands for the opened words; one round."""
        self.openings.append(words.numel())
        return torch.empty_like(words)

    def sent_rows(self, size: int) -> None:
        """Counts bytes of rows that owners send beside an opening."""
        self.rows += size

    @property
    def rounds(self) -> int:
        """Number of openings."""
        return len(self.openings)

    @property
    def counted(self) -> int:
        """Bytes as CrypTen counts them: 16 for each opened word, and rows of their owners."""
        return 2 * WORD * sum(self.openings) + self.rows

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Does what PyTorch's mode does, and counts what there is then."""
        found = super().__torch_dispatch__(func, types, args, kwargs)
        for each in found if isinstance(found, list | tuple) else [found]:
            if isinstance(each, FakeTensor):
                self._count(each.untyped_storage())
        return found

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


def active() -> Foreseen | None:
    """Returns the mode in which tensors have no values now; None if they have."""
    mode = _get_current_dispatch_mode()
    return mode if isinstance(mode, Foreseen) else None


def is_foreseen(tensor: torch.Tensor) -> bool:
    """Whether the tensor has no values."""
    return isinstance(tensor, FakeTensor)
