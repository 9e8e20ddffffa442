"""Embeddings of texts and images by a model of Hugging Face's transformers, from a local folder."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from extensions.data.datasets.records import Raw
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.networks.images import (
    BATCH,
    check_torchvision,
    of_images,
    pixels_of,
    reason_of,
)
from extensions.errors import ArgumentError, optional

MOST_TOKENS = 256
"""Of a text, beyond which nothing is read."""


@dataclass(frozen=True)
class Encoder:
    """A model of a local folder, in evaluation mode, with what it reads records by.

    Attributes:
        tokenizer: of texts; None of images, which are resized to `size`, (height, width), and
            standardised by `standard`, mean and deviation of each colour.
        identity: what fixes it: the version of transformers, and a digest of its files.
    """

    name: str
    network: Any
    tokenizer: Any
    size: tuple[int, int]
    standard: tuple[Sequence[float], Sequence[float]]
    identity: Mapping[str, str]

    @property
    def tokens(self) -> int:
        """Most tokens of a text, beyond which nothing is read."""
        return min(MOST_TOKENS, getattr(self.tokenizer, "model_max_length", MOST_TOKENS))

    def read(self, texts: Sequence[str]) -> Any:
        """Returns tokens and attention mask of texts, as the network takes them by name."""
        return self.tokenizer(
            [*texts], padding=True, truncation=True, max_length=self.tokens, return_tensors="pt"
        )

    def of_texts(self, given: Mapping[str, Any]) -> Any:
        """Returns the mean of each text's last hidden states; padding counts for nothing."""
        states = self.network(**given).last_hidden_state
        mask = given["attention_mask"][:, :, None]
        return (states * mask).sum(1) / mask.sum(1).clamp(min=1)

    def of_images(self, pixels: Any) -> Any:
        """Returns the mean over an image's patches, (images, patches, features), or its places.

        Not what a model's pooler says: where its file has none, it is random.
        """
        states = self.network(pixel_values=pixels).last_hidden_state
        return states.mean(1) if states.ndim == 3 else states.flatten(2).mean(2)


def load(argument: str | None) -> Encoder:
    """Returns the encoder of a folder, or of the user's cache by its name; never of the network.

    Weights are safetensors; no code of the model's authors is run.

    Raises:
        ArgumentError: nothing of that name is here, or it is no such model.
    """
    check_torchvision()
    transformers = optional("transformers", "transformers", "encoders")
    if not argument:
        raise ArgumentError("features", "hf", "hf:NAME or hf:FOLDER")
    name, folder = f"hf:{argument}", _folder(argument)
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer, size, standard = None, (0, 0), ((), ())
    try:
        network = transformers.AutoModel.from_pretrained(folder, use_safetensors=True, **local)
        network.eval()
        if (folder / "preprocessor_config.json").is_file():
            prepared = transformers.AutoImageProcessor.from_pretrained(folder, **local)
            size = (prepared.size["height"], prepared.size["width"])
            standard = (prepared.image_mean, prepared.image_std)
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **local)
    except (OSError, ValueError, KeyError) as error:
        rule = "a model of transformers with its weights as safetensors"
        raise ArgumentError("features", name, rule, reason_of(error), code="file") from error
    identity = {"transformers": version("transformers"), "weights": _digest(folder)}
    return Encoder(name, network, tokenizer, size, standard, identity)


def make(argument: str | None) -> Extractor:
    """Returns the extractor ``hf:NAME_OR_FOLDER``: the mean of a text's tokens, or an image's.

    Raises:
        ArgumentError: that of `load`.
    """
    encoder = load(argument)
    name, identity = encoder.name, encoder.identity
    if encoder.tokenizer is None:
        of_encoder = of_images(name, encoder.of_images, encoder.size, encoder.standard, identity)
        return replace(of_encoder, inputs=partial(pixels_of, size=encoder.size))
    return Extractor(
        name=name,
        kinds=("texts",),
        function=partial(_texts, encoder),
        identity=identity,
        batch=2 * BATCH,
        inputs=partial(_tokens, encoder),
    )


def _texts(encoder: Encoder, x: Raw) -> Features:
    """Returns the mean of each text's tokens, of norm 1."""
    import torch

    with torch.inference_mode():
        rows = encoder.of_texts(encoder.read([*x]))
    return np.asarray(torch.nn.functional.normalize(rows).numpy(), dtype=np.float32)


def _tokens(encoder: Encoder, x: Raw) -> Features:
    """Returns the numbers of each text's tokens plus 1, and 0 behind its last one."""
    given = encoder.read([*x])
    rows = np.zeros((len(x), encoder.tokens), dtype=np.float32)
    found = ((given["input_ids"] + 1) * given["attention_mask"]).numpy()
    rows[:, : found.shape[1]] = found
    return rows


def _folder(argument: str) -> Path:
    """Returns a model's folder, or that of its newest revision in the user's cache."""
    if Path(argument).is_dir():
        return Path(argument)
    hub = optional("huggingface_hub", "huggingface-hub", "encoders")
    try:
        return Path(hub.snapshot_download(argument, local_files_only=True))
    except (OSError, ValueError) as error:
        rule = "a folder, or a model in your cache of Hugging Face"
        advice = "PEA downloads no model here. Type: hf download NAME"
        raise ArgumentError("features", f"hf:{argument}", rule, advice, code="file") from error


def _digest(folder: Path) -> str:
    """Returns one digest of a model's files: weights, settings and words."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model") and path.is_file():
            digest.update(path.name.encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
