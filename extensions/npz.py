"""Arrays of an .npz file, whoever wrote it: nothing is executed, and what it takes is bounded."""

import math
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy.typing as npt
from numpy.lib import format as npy

MOST_BYTES = 64 << 20
MOST_TIMES = 32
"""A file unpacks to `MOST_BYTES`, or to that many times its own size where this is more."""

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
Arrays = dict[str, npt.NDArray[Any]]


def read_npz(source: Path | BinaryIO, names: Collection[str] | None = None) -> Arrays:
    """Returns the arrays of an .npz file by their names: those that are named, or all.

    Guarantees:
        No object is unpickled. Before memory is taken for an array, the size that it claims is
        compared with the bytes that the file holds for it. A file of n bytes unpacks to at most
        max(`MOST_BYTES`, `MOST_TIMES` n) bytes; what NumPy's `savez` writes, it holds as it is.

    Raises:
        ValueError: it is no such file, it is damaged, or it would unpack to more.
    """
    try:
        with ZipFile(source) as archive:
            _check_total(archive)
            members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
            wanted = members if names is None else members.keys() & {*names}
            return {name: _array(archive, members[name]) for name in members if name in wanted}
    except Exception as error:  # zipfile and NumPy have a dozen kinds for what is damaged
        raise ValueError(f"it is no .npz file that can be read: {error}") from error


def _check_total(archive: ZipFile) -> None:
    assert archive.fp is not None
    total = sum(one.file_size for one in archive.infolist())
    most = max(MOST_BYTES, MOST_TIMES * archive.fp.seek(0, os.SEEK_END))
    if total > most:
        raise ValueError(f"it unpacks to {total} bytes, more than {most}: write it by numpy.savez")


def _array(archive: ZipFile, member: ZipInfo) -> npt.NDArray[Any]:
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is compressed otherwise than NumPy does")
    with archive.open(member) as file:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
        if dtype.hasobject or not dtype.itemsize:
            raise ValueError(f"{member.filename} holds objects, or nothing")
        held = member.file_size - file.tell()
        if (claimed := math.prod(shape) * dtype.itemsize) != held:
            raise ValueError(f"{member.filename} claims {claimed} bytes, and holds {held}")
    with archive.open(member) as file:
        return npy.read_array(file, allow_pickle=False)
