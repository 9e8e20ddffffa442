"""Embeddings of images by a vision backbone of torchvision, pretrained on public images."""

import hashlib
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from extensions.data.features.extractor import Extractor
from extensions.data.features.networks.images import check_torchvision, of_images, reason_of
from extensions.errors import ArgumentError, optional
from extensions.rules import one_of

ARCHITECTURE = "resnet18"
HEADS = ("fc", "classifier", "head", "heads")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIDE = 224


def make(argument: str | None, weights: Path | None) -> Extractor:
    """Returns the extractor ``backbone`` or ``backbone:ARCHITECTURE``, what its last layer is fed.

    Images are resized to 224 x 224 and standardised by ImageNet's published means. The architecture
    is a classifier of torchvision, such as resnet18 (the default) or vit_b_16; `weights` is the
    file of its state dictionary, or None for those that torchvision downloads.
    """
    check_torchvision()
    models = optional("torchvision", "torchvision", "crypten").models
    import torch

    name = argument or ARCHITECTURE
    network, identity = _load(models, name, weights)
    head = next(each for each in HEADS if hasattr(network, each))
    setattr(network, head, torch.nn.Identity())
    network.eval()
    facts = {"torchvision": version("torchvision"), "weights": identity}
    return of_images(f"backbone:{name}", network, (SIDE, SIDE), (MEAN, DEVIATION), facts)


def _load(models: Any, name: str, weights: Path | None) -> tuple[Any, str]:
    """Returns torchvision's classifier of that name, and which weights it has."""
    import torch

    known = models.list_models(module=models)
    if name not in known:
        raise ArgumentError("features", f"backbone:{name}", one_of(known))
    try:
        if weights is None:
            network = models.get_model(name, weights="DEFAULT")
            identity = f"{models.get_model_weights(name)['DEFAULT'].url}"
        else:
            network = models.get_model(name, weights=None)
            network.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
            identity = hashlib.sha256(weights.read_bytes()).hexdigest()
    except (OSError, RuntimeError, UnpicklingError, AttributeError, TypeError) as error:
        raise ArgumentError(
            "weights",
            None if weights is None else str(weights),
            f"a file with the state dictionary of {name}",
            reason_of(error),
            code="file",
        ) from error
    return network, identity
