"""Embeddings of images by a model of timm, from a file of the user's."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from extensions.data.features.extractor import Extractor
from extensions.data.features.networks.images import check_torchvision, of_images, reason_of
from extensions.errors import ArgumentError, optional


def make(argument: str | None, weights: Path | None) -> Extractor:
    """Returns the extractor ``timm:NAME``, what the model's last layer is fed.

    The weights are a file of safetensors, `weights`; nothing is downloaded. Size and means are
    those of the model's published settings.

    Raises:
        ArgumentError: no model of that name, or not its weights.
    """
    check_torchvision()
    timm = optional("timm", "timm", "encoders")
    safetensors = optional("safetensors", "safetensors", "encoders")
    tensors = optional("safetensors.torch", "safetensors", "encoders")
    if argument is None or not timm.is_model(argument):
        raise ArgumentError("features", f"timm:{argument}", "a model of timm", code="choice")
    if weights is None:
        rule = "with {features=timm:NAME}, a file of safetensors"
        raise ArgumentError("weights", None, rule, code="missing")
    network = timm.create_model(argument, pretrained=False)
    try:
        network.load_state_dict(tensors.load_file(weights))
    except (OSError, RuntimeError, safetensors.SafetensorError) as error:
        rule = f"a file of safetensors with the weights of {argument}"
        raise ArgumentError("weights", str(weights), rule, reason_of(error), code="file") from error
    network.reset_classifier(0)
    network.eval()
    known = timm.data.resolve_model_data_config(network)
    return of_images(
        f"timm:{argument}",
        network,
        tuple(known["input_size"][1:]),
        (known["mean"], known["std"]),
        {"timm": version("timm"), "weights": hashlib.sha256(weights.read_bytes()).hexdigest()},
    )
