"""Images and labels as MNIST's files have them."""

import gzip
import struct
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from extensions.data.datasets.mnist import MNIST_FILES


def idx(array: np.ndarray, magic: int | None = None) -> bytes:
    """Returns the content of a file, unpacked."""
    magic = 0x0800 + array.ndim if magic is None else magic
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


def write_digits(folder: Path) -> None:
    """Writes the embedded digits, 1,500 to train: each pixel thrice, two of margin."""
    x, y = load_digits(return_X_y=True)
    large = np.kron(x.reshape(-1, 8, 8), np.ones((3, 3))) * (255 / 16)
    pixels = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    parts = (slice(0, 1500), slice(1500, None))
    for (images, labels), own in zip(MNIST_FILES.values(), parts, strict=True):
        (folder / images).write_bytes(gzip.compress(idx(pixels[own])))
        (folder / labels).write_bytes(gzip.compress(idx(y[own].astype(np.uint8))))
