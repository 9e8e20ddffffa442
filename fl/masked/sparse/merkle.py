"""Merkle trees: one digest of many values, and a proof that a value is among them.

Source:
    Merkle, CRYPTO 1987; leaves and nodes hashed apart as in RFC 6962.
"""

import hashlib
from collections.abc import Iterable, Sequence

DIGEST_BYTES = 32
_EMPTY = bytes(DIGEST_BYTES)


def leaf(data: bytes) -> bytes:
    """Returns the digest of a value."""
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """A tree over digests, at least one, filled up with zeros to a power of two."""

    def __init__(self, leaves: Sequence[bytes]) -> None:
        size = 1 << (len(leaves) - 1).bit_length()
        self._levels = [[*leaves, *[_EMPTY] * (size - len(leaves))]]
        while len(row := self._levels[-1]) > 1:
            pairs = zip(row[::2], row[1::2], strict=True)
            self._levels.append([_node(*pair) for pair in pairs])

    @property
    def root(self) -> bytes:
        """The digest of all."""
        return self._levels[-1][0]

    def path(self, place: int) -> list[bytes]:
        """Returns the digests beside the way from a leaf to the root."""
        return [row[place >> depth ^ 1] for depth, row in enumerate(self._levels[:-1])]


def root_of(digest: bytes, place: int, path: Iterable[bytes]) -> bytes:
    """Returns the root of every tree that has the leaf at this place, with this path."""
    for depth, beside in enumerate(path):
        pair = (beside, digest) if place >> depth & 1 else (digest, beside)
        digest = _node(*pair)
    return digest
