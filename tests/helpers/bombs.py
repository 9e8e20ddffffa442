"""Files of strangers that claim, or unpack to, more than whoever reads them has."""

import io
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

LARGE = 1 << 28
"""More bytes than a reader of small files ever needs."""


def claiming(shape: tuple[int, ...], descr: str = "<f8", held: bytes = bytes(64)) -> bytes:
    """Returns an array's file whose header claims a shape, and that holds other bytes."""
    file = io.BytesIO()
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue() + held


def zipped(path: Path, kind: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    """Returns an .npz file of these members."""
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def array(values: Any) -> bytes:
    """Returns an array's file."""
    file = io.BytesIO()
    np.save(file, np.asarray(values), allow_pickle=True)
    return file.getvalue()


def peak(call: Callable[[], object]) -> int:
    """Returns the most bytes that a call had at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
