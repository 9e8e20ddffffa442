"""Extractors by name."""

import re
from pathlib import Path

from extensions.errors import ArgumentError
from extensions.owners.features import (
    backbone,
    custom,
    hashed,
    hog,
    raw,
    scattering,
    tflite,
    wordllama,
)
from extensions.owners.features.extractor import Extractor

BUILT_IN = {
    "raw": raw.make,
    "hog": hog.make,
    "scattering": scattering.make,
    "tflite": tflite.make,
    "hashed": hashed.make,
    "wordllama": wordllama.make,
}
ALLOWED = (
    "raw, hog, scattering, tflite:PATH, backbone:ARCHITECTURE, hashed, wordllama, or "
    "module:function of your own"
)


def find(text: str, weights: Path | None = None) -> Extractor:
    """Returns the extractor of that name, with ``:ARGUMENT`` where it takes one.

    Args:
        text: such as "hog", "hog:9,4,2", "tflite:model.tflite" or "my_module:my_function".
        weights: file of the weights of a backbone; None: those that torchvision publishes.

    Raises:
        ArgumentError: an unknown name, an argument out of range, or weights for an extractor that
            takes none.
        MissingExtraError: what it needs is not installed; the message has the pip command.
    """
    name, colon, argument = text.partition(":")
    if weights is not None and name != "backbone":
        raise ArgumentError("weights", str(weights), "None, except for --features backbone")
    if name == "backbone":
        return backbone.make(argument or None, weights)
    if name in BUILT_IN:
        return BUILT_IN[name](argument if colon else None)
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ArgumentError("features", text, ALLOWED)
    return custom.make(text)
