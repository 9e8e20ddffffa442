"""Images as extractors want them: grey, or in colour and of another size."""

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.records import Raw
from extensions.errors import optional

LUMA = (0.299, 0.587, 0.114)


def grey(x: Raw) -> npt.NDArray[np.float32]:
    """Returns brightness in [0, 1], (records, height, width)."""
    reals = x.astype(np.float32) / np.float32(255)
    return reals if x.ndim == 3 else reals @ np.asarray(LUMA, dtype=np.float32)


def resized(x: Raw, height: int, width: int, *, cubic: bool = False) -> npt.NDArray[np.uint8]:
    """Returns images in colour at that size, (records, height, width, 3), bilinear or bicubic."""
    pillow = optional("PIL.Image", "pillow", "features")
    filter_ = pillow.Resampling.BICUBIC if cubic else pillow.Resampling.BILINEAR
    bytes_ = x if x.dtype == np.uint8 else np.rint(x).astype(np.uint8)
    if bytes_.shape[1:3] == (height, width):
        return bytes_ if bytes_.ndim == 4 else np.repeat(bytes_[..., None], 3, axis=3)
    out = [
        pillow.fromarray(image).convert("RGB").resize((width, height), filter_) for image in bytes_
    ]
    return np.stack([np.asarray(image) for image in out])
