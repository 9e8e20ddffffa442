"""Which features are taken where nobody names any: by what the records are."""

import importlib.util
import math

from extensions.data.datasets.folders import folders_of
from extensions.data.datasets.records import Raw, kind_of
from extensions.data.features.tflite import FOLDER

RAW = "raw"
SMALL = 256
"""Pixels of an image that is learnt from as it is, at most."""
NETWORKS = (
    "mobilenet_v1_1.0_224_quant_embedding_extractor.tflite",
    "mobilenet_v2_1.0_224_quant.tflite#MobilenetV2/Logits/AvgPool",
)
"""Public networks, whose features side by side tell more of small images than those of one."""
WORDS, MORE_WORDS = "words:4096", "words:8192"
"""Of texts; columns cost little where records are not shared."""
SCATTERING = "scattering:1024"


def default_features(x: Raw, *, linear: bool, hidden: bool) -> tuple[str, str | None]:
    """Returns the name of an extractor, and what is to be said of that choice, if anything.

    A model that is not linear learns its own features of images; `hidden` is whether records are
    shared.
    """
    kind = kind_of(x)
    if kind == "texts":
        return (WORDS if hidden else MORE_WORDS), None
    if kind != "images" or not linear or math.prod(x.shape[1:]) <= SMALL:
        return RAW, None
    if x.ndim == 3:
        return SCATTERING, None
    if importlib.util.find_spec("ai_edge_litert") is None or not all(map(_is_installed, NETWORKS)):
        files = " and ".join(name.partition("#")[0] for name in NETWORKS)
        note = (
            f"features are {SCATTERING}; those of {files} in PEA_DATA/{FOLDER}, with the extra "
            "`features` installed, are far better of images in colour."
        )
        return SCATTERING, note
    return "+".join(f"tflite:{name},bicubic,mirror,sqrt" for name in NETWORKS), None


def _is_installed(network: str) -> bool:
    file = network.partition("#")[0]
    return any((folder / file).is_file() for folder in folders_of(FOLDER))
