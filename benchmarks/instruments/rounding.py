"""The coins by which a host rounds: kept of a run on shares, and tossed again in the clear."""

from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from extensions.ring.fixed_point import Integers


def keep_coins(ring: Any, file: BinaryIO) -> None:
    """A ring adds to a file, from here on, the coins of all that it truncates.

    They are uniform words that every party sees, and tell nothing of what is truncated.

    Args:
        ring: of a host, as `extensions.ring.masked_opening.MaskedOpening` truncates.
        file: which has one array behind the other, of words of as many bytes as they need.
    """
    shift_opened = ring.shift_opened

    def kept(c: Any, shift: int, *mask: Any) -> Any:
        if shift:
            low = (1 << shift) - 1
            np.save(file, np.asarray(c & low).astype(np.min_scalar_type(low)))
        return shift_opened(c, shift, *mask)

    ring.shift_opened = kept


class Again:
    """`extensions.ring.clear.Coins` from a file of `keep_coins`, each once.

    Args:
        file: at its beginning.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def integers(self, low: int, high: int, size: Sequence[int]) -> Integers:
        """Returns the next coins.

        Raises:
            EOFError: there are no more.
            ValueError: they were of another number of values.
        """
        if high - low == 1:
            return np.zeros(size, np.int64)
        coins: Integers = np.load(self._file).astype(np.int64).reshape(size)
        return coins
