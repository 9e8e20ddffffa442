"""What all networks of images have in common: size, means, batches and precision."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.images import resized
from extensions.errors import PeaError, optional

BATCH = 16


def check_torchvision() -> None:
    """Checks that torchvision, which networks import where it is installed, loads beside torch.

    Raises:
        PeaError: it is a build for another torch.
    """
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    except (OSError, RuntimeError) as error:
        raise PeaError(
            f"torchvision {version('torchvision')} does not load with torch {version('torch')}: "
            f"{error}. Install matching builds of both."
        ) from error


def reason_of(error: Exception) -> str:
    """Returns the last line of what a library says of a file, which names what is wrong."""
    *_, reason = str(error).strip().splitlines() or [type(error).__name__]
    return reason.strip()[:200]


def of_images(
    name: str,
    network: Callable[[Any], Any],
    size: tuple[int, int],
    standard: tuple[Sequence[float], Sequence[float]],
    identity: Mapping[str, str],
) -> Extractor:
    """Returns the extractor of what a network in evaluation mode makes of images.

    Args:
        name: of the extractor.
        network: from a batch (images, 3, height, width) to an array of rows.
        size: height and width that images are resized to.
        standard: mean and deviation of each colour in [0, 1], by which pixels are standardised.
        identity: what fixes the network.
    """
    torch = optional("torch", "torch", "crypten")

    def extract(x: Raw) -> Features:
        with torch.inference_mode():
            rows = network(standardised(x, size, standard))
        return np.asarray(rows.flatten(1).float().numpy(), dtype=np.float32)

    return Extractor(
        name=name,
        kinds=("images",),
        function=extract,
        identity={"pillow": version("pillow"), **identity},
        size=size,
        batch=BATCH,
    )


def standardised(
    x: Raw, size: tuple[int, int], standard: tuple[Sequence[float], Sequence[float]]
) -> Any:
    """Returns images as networks take them, (images, 3, height, width)."""
    import torch

    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in standard)
    pixels = torch.from_numpy(resized(x, *size)).permute(0, 3, 1, 2).float() / 255
    return (pixels - mean) / deviation


def pixels_of(x: Raw, size: tuple[int, int]) -> npt.NDArray[np.float32]:
    """Returns each image's values in turn; one that is large, or no square, at the network's size.

    A network resizes those that are smaller whenever it reads them: they take less memory.
    """
    if x.shape[1] != x.shape[2] or x.shape[1] > max(size):
        x = resized(x, *size)
    return np.rint(x).reshape(len(x), -1).astype(np.float32)


def images_of(rows: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Returns the images of which `pixels_of` returned these rows."""
    width = rows.shape[1]
    square = math.isqrt(width)
    shape = (square, square) if square**2 == width else (math.isqrt(width // 3),) * 2 + (3,)
    if math.prod(shape) != width:
        shape = (*size, 3)
    return rows.astype(np.uint8).reshape(len(rows), *shape)
