"""CIFAR-10 from the folder of its binary version, or from lossless strips of images."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.download import Published, fetch_folder
from extensions.data.datasets.folders import broken, find_folder
from extensions.data.datasets.records import Labels, Split
from extensions.errors import optional
from extensions.npz import read_npz

BINARY = "cifar-10-batches-bin"
PICKLED = "cifar-10-batches-py"
BATCHES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
ARCHIVE = Published(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "md5:c32a1d4ab5d03f1284b67883e8d87530",
)


def read_cifar10(folder: Path | None, download: bool) -> Split:
    """Returns the images (records, 32, 32, 3), in their order.

    The folder is or holds ``cifar-10-batches-bin``; or it holds ``labels.npz`` (y_train, y_test)
    beside ``train_*.webp`` and ``test_*.webp``, lossless strips of images one above the other.
    """
    folder = find_folder("cifar10", folder, download=download, files=BINARY)
    if download:
        fetch_folder(ARCHIVE, folder, BINARY)
    for binary in (folder / BINARY, folder):
        if (binary / BATCHES["test"][0]).is_file():
            return _read_binary(binary)
    if (folder / "labels.npz").is_file():
        return _read_strips(folder)
    reading = f"{PICKLED} is refused: reading it runs code."
    pickled = (folder / PICKLED).is_dir() or (folder / "data_batch_1").is_file()
    advice = reading if pickled else "Or give {download=True}."
    allowed = f"a folder that holds {BINARY}, the binary version of CIFAR-10"
    raise broken(str(folder), allowed, advice)


def _read_binary(folder: Path) -> Split:
    parts: dict[str, Any] = {}
    for part, names in BATCHES.items():
        records = np.concatenate([_read_batch(folder / name) for name in names])
        images = records[:, 1:].reshape(-1, *SHAPE).transpose(0, 2, 3, 1)
        parts |= {f"{part}_x": images, f"{part}_y": records[:, 0].astype(np.int64)}
    return Split(**parts)


def _read_batch(path: Path) -> npt.NDArray[np.uint8]:
    if not path.is_file():
        raise broken(str(path.parent), f"a folder that holds {path.name}")
    raw = np.fromfile(path, dtype=np.uint8)
    records = raw[: len(raw) // RECORD * RECORD].reshape(-1, RECORD)
    if len(raw) % RECORD or not len(raw) or records[:, 0].max() > 9:
        raise broken(path.name, "an undamaged batch", "Download it again.")
    return records


def _read_strips(folder: Path) -> Split:
    pillow = optional("PIL.Image", "pillow", "features")
    parts: dict[str, Any] = {}
    for part in BATCHES:
        strips = []
        for path in sorted(folder.glob(f"{part}_*.webp")):
            try:
                with pillow.open(path) as strip:
                    strips.append(np.asarray(strip.convert("RGB")).reshape(-1, 32, 32, 3))
            except (OSError, ValueError) as error:
                allowed = "a strip of 32x32 images"
                raise broken(path.name, allowed) from error
        y = _read_labels(folder / "labels.npz", f"y_{part}")
        if sum(map(len, strips)) != len(y):
            raise broken(str(folder), f"a folder with as many {part} images as labels")
        parts |= {f"{part}_x": np.concatenate(strips), f"{part}_y": y}
    return Split(**parts)


def _read_labels(path: Path, name: str) -> Labels:
    try:
        y: Labels = read_npz(path, [name])[name].astype(np.int64)
    except (KeyError, TypeError, ValueError) as error:
        allowed = "an .npz file with arrays y_train and y_test"
        raise broken(path.name, allowed) from error
    return y
