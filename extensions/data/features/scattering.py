"""The scattering transform: wavelet features that small shifts hardly move."""

from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np

from extensions.data.datasets.records import Raw, standard_rows
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.images import grey
from extensions.data.features.sines import SEED, RandomSines, width_in
from extensions.errors import ArgumentError, optional

SCALE = 2
ANGLES = 8
CHANNELS_OF_A_GROUP = 3
SINE_SCALE = 1.25


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``scattering`` of brightness: second order, 2^2 pixels, 8 angles.

    An image of height h and width w has 81 (h // 4) (w // 4) features: 3,969 for 28 x 28. Each
    record's 81 channels are standardised in groups of three (group normalisation), which learns
    nothing from other records. ``scattering:WIDTH`` turns them into that many `RandomSines`, for
    training whose cost grows with the number of features.

    Source:
        Bruna and Mallat, 2013; for DPSGD, with that normalisation, Tramer and Boneh, ICLR 2021;
        Kymatio's numpy frontend for images, loaded by itself: others need an older scipy.
    """
    width = None if argument is None else width_in("scattering", argument)
    module = "kymatio.scattering2d.frontend.numpy_frontend"
    kymatio = optional(module, "kymatio", "features")

    @cache
    def transform(rows: int, columns: int) -> Any:
        return kymatio.ScatteringNumPy2D(J=SCALE, shape=(rows, columns), L=ANGLES)

    @cache
    def sines(inputs: int) -> RandomSines:
        assert width is not None
        return RandomSines(inputs, width, SINE_SCALE)

    def extract(x: Raw) -> Features:
        rows, columns = x.shape[1:3]
        if min(rows, columns) < 2**SCALE:
            allowed = f"images of at least {2**SCALE} pixels on either side"
            raise ArgumentError("records", f"{rows}x{columns} pixels", allowed, code="shape")
        standard = _standardised(transform(rows, columns)(grey(x)))
        return standard if width is None else sines(standard.shape[1])(standard_rows(standard))

    return Extractor(
        name="scattering" if argument is None else f"scattering:{argument}",
        kinds=("images",),
        function=extract,
        identity={
            "kymatio": version("kymatio"),
            "scale": str(SCALE),
            "angles": str(ANGLES),
            "sines": "" if width is None else f"{SEED}, {SINE_SCALE}",
        },
    )


def _standardised(scattered: Features) -> Features:
    records, channels = scattered.shape[:2]
    groups = scattered.reshape(records, channels // CHANNELS_OF_A_GROUP, -1)
    centred = groups - groups.mean(axis=2, keepdims=True)
    deviations = centred.std(axis=2, keepdims=True)
    standard = centred / np.where(deviations > 0.0, deviations, 1.0)
    return np.asarray(standard.reshape(records, -1), dtype=np.float32)
