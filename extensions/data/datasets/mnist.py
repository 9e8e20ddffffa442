"""MNIST from its four idx files, gzipped or not."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.download import Published, fetch
from extensions.data.datasets.folders import broken, find_folder
from extensions.data.datasets.records import Split

MNIST_FILES = {
    "train": ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    "test": ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"),
}
IDX_MAGIC = {1: 0x0801, 3: 0x0803}
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
DIGESTS = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read_mnist(folder: Path | None, download: bool) -> Split:
    """Returns the images (records, 28, 28), in their order."""
    folder = find_folder("mnist", folder, download=download, files="the four MNIST idx files")
    if download:
        for name, digest in DIGESTS.items():
            fetch(Published(f"{MIRROR}{name}.gz", f"sha256:{digest}"), folder)
    parts: dict[str, Any] = {}
    for part, (images, labels) in MNIST_FILES.items():
        x, y = _read_idx(folder, images, 3), _read_idx(folder, labels, 1)
        if len(x) != len(y):
            raise broken(str(folder), "a folder with as many images as labels")
        parts |= {f"{part}_x": x, f"{part}_y": y.astype(np.int64)}
    return Split(**parts)


def _read_idx(folder: Path, name: str, dimensions: int) -> npt.NDArray[np.uint8]:
    path, plain = folder / name, folder / name.removesuffix(".gz")
    if not path.is_file() and not plain.is_file():
        raise broken(str(folder), f"a folder that holds {name}")
    damaged = broken(name, "an undamaged idx file", "Download it again.")
    header = 4 * (1 + dimensions)
    try:
        raw = gzip.decompress(path.read_bytes()) if path.is_file() else plain.read_bytes()
        magic, *shape = struct.unpack_from(f">{1 + dimensions}I", raw)
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise damaged from error
    if magic != IDX_MAGIC[dimensions] or len(raw) != header + math.prod(shape):
        raise damaged
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)
