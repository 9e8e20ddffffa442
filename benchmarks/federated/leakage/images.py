"""Images for an attack on gradients to rebuild, and the smooth models that clients train."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import fl
from extensions.data.datasets import find_folder
from extensions.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class Images:
    """A data set with the model for it.

    Attributes:
        x: images (records, channels, rows, columns) in [0, 1].
        y: labels (records,).
        classes: number of labels.
        make: returns a model with random weights.
    """

    x: Tensor
    y: Tensor
    classes: int
    make: Callable[[], nn.Module]

    def model(self) -> nn.Module:
        """Returns the model, with the same weights every time."""
        torch.manual_seed(0)
        return self.make()


def digits(data_dir: Path | None = None) -> Images:
    """Returns scikit-learn's 8x8 digits, with a layer of 32 sigmoids."""
    from sklearn.datasets import load_digits

    pixels, targets = load_digits(return_X_y=True)
    return Images(
        x=torch.tensor(pixels / 16, dtype=torch.float32).reshape(-1, 1, 8, 8),
        y=torch.tensor(targets),
        classes=10,
        make=lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10)
        ),
    )


def cifar100(data_dir: Path | None = None) -> Images:
    """Returns images of CIFAR-100, with the LeNet of deep leakage.

    Args:
        data_dir: folder with ``subset500.webp``, images of 32x32 below one another, and with
            ``labels.npz``, whose y has their labels; None: of
            `extensions.data.datasets.find_folder`.

    Raises:
        ArgumentError: there is no such folder, or it lacks these files.
    """
    from PIL import Image

    names = ("subset500.webp", "labels.npz")
    folder = find_folder("cifar100", data_dir, download=False, files=" and ".join(names))
    paths = [folder / name for name in names]
    if missing := [path.name for path in paths if not path.is_file()]:
        rule = f"a folder with {' and '.join(missing)}"
        raise ArgumentError("data_dir", str(folder), rule, code="file")
    strip = np.asarray(Image.open(paths[0]).convert("RGB")).reshape(-1, 32, 32, 3)
    return Images(
        x=torch.tensor(strip / 255.0, dtype=torch.float32).permute(0, 3, 1, 2),
        y=torch.tensor(np.load(paths[1])["y"].astype(np.int64)),
        classes=100,
        make=fl.models.lenet,
    )


DATA: dict[str, Callable[[Path | None], Images]] = {"digits": digits, "cifar100": cifar100}
