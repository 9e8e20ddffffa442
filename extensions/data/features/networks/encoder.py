"""Embeddings of texts and images by a model of Hugging Face's transformers, from a local folder."""

import hashlib
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.networks.images import BATCH, check_torchvision, of_images, reason_of
from extensions.errors import ArgumentError, optional

MOST_TOKENS = 256
"""Of a text, beyond which nothing is read."""


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``hf:NAME_OR_FOLDER``: the mean of a text's tokens, or an image's.

    It reads a folder, or the user's cache by the model's name, and never the network. Weights are
    safetensors; no code of the model's authors is run.

    Raises:
        ArgumentError: nothing of that name is here, or it is no such model.
    """
    check_torchvision()
    transformers = optional("transformers", "transformers", "encoders")
    if not argument:
        raise ArgumentError("features", "hf", "hf:NAME or hf:FOLDER")
    name, folder = f"hf:{argument}", _folder(argument)
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        network = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, **local)
        network.eval()
        if (folder / "preprocessor_config.json").is_file():
            prepared = transformers.AutoImageProcessor.from_pretrained(folder, **local)
            tokenizer = None
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
    except (OSError, ValueError, KeyError) as error:
        rule = "a model of transformers with its weights as safetensors"
        raise ArgumentError("features", name, rule, reason_of(error), code="file") from error
    identity = {"transformers": version("transformers"), "weights": _digest(folder)}
    if tokenizer is None:
        size = (prepared.size["height"], prepared.size["width"])
        standard = (prepared.image_mean, prepared.image_std)
        return of_images(name, partial(_images, network), size, standard, identity)

    def extract(x: Raw) -> Features:
        return _texts(network, tokenizer, [*x])

    return Extractor(
        name=name, kinds=("texts",), function=extract, identity=identity, batch=2 * BATCH
    )


def _texts(network: Any, tokenizer: Any, texts: list[str]) -> Features:
    """Returns the mean of each text's last hidden states, of norm 1; padding counts for nothing."""
    import torch

    most = min(MOST_TOKENS, getattr(tokenizer, "model_max_length", MOST_TOKENS))
    given = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    with torch.inference_mode():
        states = network(**given).last_hidden_state
    mask = given["attention_mask"][:, :, None]
    rows = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
    return np.asarray(torch.nn.functional.normalize(rows).numpy(), dtype=np.float32)


def _images(network: Any, pixels: Any) -> Any:
    """Returns the mean over an image's patches, (images, patches, features), or over its places.

    Not what a model's pooler says: where its file has none, it is random.
    """
    states = network(pixel_values=pixels).last_hidden_state
    return states.mean(1) if states.ndim == 3 else states.flatten(2).mean(2)


def _folder(argument: str) -> Path:
    """Returns a model's folder, or that of its newest revision in the user's cache."""
    if Path(argument).is_dir():
        return Path(argument)
    hub = optional("huggingface_hub", "huggingface-hub", "encoders")
    try:
        return Path(hub.snapshot_download(argument, local_files_only=True))
    except (OSError, ValueError) as error:
        rule = "a folder, or a model in your cache of Hugging Face"
        advice = "Nothing is downloaded here: `hf download NAME` puts it there."
        raise ArgumentError("features", f"hf:{argument}", rule, advice, code="file") from error


def _digest(folder: Path) -> str:
    """Returns one digest of a model's files: weights, settings and words."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            digest.update(path.name.encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
