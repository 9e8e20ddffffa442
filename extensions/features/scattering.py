"""The scattering transform: wavelet features that small shifts hardly move."""

from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from extensions.data.records import Raw
from extensions.errors import ArgumentError, MissingExtraError
from extensions.features.extractor import Extractor, Features
from extensions.features.images import grey

SCALE = 2
ANGLES = 8
CHANNELS_OF_A_GROUP = 3


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``scattering`` of brightness: second order, 2^2 pixels, 8 angles.

    An image of height h and width w has 81 (h // 4) (w // 4) features: 3,969 for 28 x 28. Each
    record's 81 channels are standardised in groups of three (group normalisation), which learns
    nothing from other records.

    **Source**: Bruna and Mallat, 2013; for DPSGD, with that normalisation, Tramer and Boneh, ICLR
    2021; Kymatio's numpy frontend for images, loaded by itself: others need an older scipy.

    Raises:
        ArgumentError: an argument.
        MissingExtraError: Kymatio is not installed.
    """
    if argument is not None:
        raise ArgumentError("features", f"scattering:{argument}", "scattering, without an argument")
    try:
        from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D
    except ImportError:
        raise MissingExtraError("kymatio", "features") from None

    @cache
    def transform(height: int, width: int) -> Any:
        return ScatteringNumPy2D(J=SCALE, shape=(height, width), L=ANGLES)

    def extract(x: Raw) -> Features:
        height, width = x.shape[1:3]
        if min(height, width) < 2**SCALE:
            raise ArgumentError(
                "records", f"{height}x{width} pixels", f"at least {2**SCALE} on either side"
            )
        return _standardised(transform(height, width)(grey(x)))

    return Extractor(
        name="scattering",
        kinds=("images",),
        function=extract,
        identity={"kymatio": version("kymatio"), "scale": str(SCALE), "angles": str(ANGLES)},
    )


def _standardised(scattered: Features) -> Features:
    records, channels = scattered.shape[:2]
    groups = scattered.reshape(records, channels // CHANNELS_OF_A_GROUP, -1)
    centred = groups - groups.mean(axis=2, keepdims=True)
    deviations = centred.std(axis=2, keepdims=True)
    standard = centred / np.where(deviations > 0.0, deviations, 1.0)
    return np.asarray(standard.reshape(records, -1), dtype=np.float32)
