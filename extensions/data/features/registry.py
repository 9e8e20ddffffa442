"""Extractors by name."""

import re
from pathlib import Path

from extensions.data.datasets.sources import raw_rows
from extensions.data.features import combined, custom, hog, scattering, tflite
from extensions.data.features.extractor import Extractor
from extensions.data.features.networks import backbone, efficientnet, encoder, timm_model
from extensions.data.features.texts import hashed, wordllama, words
from extensions.errors import ArgumentError


def _raw(argument: str | None) -> Extractor:
    """Returns the extractor of pixels as centred rows, and of a table's columns (`raw_rows`)."""
    if argument is not None:
        raise ArgumentError("features", f"raw:{argument}", "raw, without an argument")
    return Extractor(name="raw", kinds=("images", "table"), function=raw_rows, identity={})


BUILT_IN = {
    "raw": _raw,
    "hog": hog.make,
    "scattering": scattering.make,
    "tflite": tflite.make,
    "efficientnet": efficientnet.make,
    "hf": encoder.make,
    "hashed": hashed.make,
    "words": words.make,
    "wordllama": wordllama.make,
}
ALLOWED = (
    "raw, hog, scattering, tflite:PATH, efficientnet:KIND, backbone:ARCHITECTURE, timm:NAME, "
    "hashed, words, wordllama, hf:NAME_OR_FOLDER or your own module:function. Options such as "
    f",{' ,'.join(combined.OPTIONS)} follow it, and + joins several"
)
WEIGHED = {"backbone": backbone.make, "timm": timm_model.make}
"""Whose weights are a file that the user names apart."""
_NAMES = "|".join([*WEIGHED, *BUILT_IN])
_JOINT = re.compile(rf"(?<=.)\+(?=(?:{_NAMES})(?:[:,+]|$)|[A-Za-z_][\w.]*:)")
"""A plus before another extractor; one in a path is none."""
_MOST_PARTS = 16


def names_function(text: str) -> bool:
    """Whether `find` would import a function of somebody's own."""
    return not _heads(text) <= {*WEIGHED, *BUILT_IN}


def names_file(text: str) -> bool:
    """Whether `find` would open a file of somebody's own."""
    return not _heads(text).isdisjoint({"tflite", "hf"})


def _heads(text: str) -> set[str]:
    return {re.split("[:,]", name)[0] for name in _JOINT.split(text)}


def find(text: str, weights: Path | None = None) -> Extractor:
    """Returns the extractor of a name such as "hog:9,4,2,mirror" or "words:2048+wordllama".

    ``NAME,OPTION`` is altered by each option in turn; ``A+B`` is both, side by side. `weights` is
    the file of the weights of a backbone, by default those that torchvision publishes, or of timm.
    """
    names = _JOINT.split(text)
    if len(names) > _MOST_PARTS:
        allowed = f"at most {_MOST_PARTS} joined by +"
        raise ArgumentError("features", f"{len(names)} extractors", allowed, code="range")
    weighed = [name for name in names if re.match(rf"(?:{'|'.join(WEIGHED)})\b", name)]
    if weights is not None and len(weighed) != 1:
        allowed = "except with one extractor {features=backbone} or {features=timm:NAME}"
        raise ArgumentError("weights", str(weights), allowed, code="conflict")
    parts = [_altered(name, weights) for name in names]
    return parts[0] if len(parts) == 1 else combined.side_by_side(parts)


def _altered(text: str, weights: Path | None) -> Extractor:
    options = re.search(r"(?:,[a-z]+)*$", text)
    assert options is not None
    _, *names = options[0].split(",")
    if len(set(names)) < len(names):
        raise ArgumentError("features", text, "an extractor with each option once")
    extractor = _plain(text[: options.start()], weights)
    for name in names:
        extractor = combined.with_option(extractor, name)
    return extractor


def _plain(text: str, weights: Path | None) -> Extractor:
    name, colon, argument = text.partition(":")
    if name in WEIGHED:
        return WEIGHED[name](argument or None, weights)
    if name in BUILT_IN:
        return BUILT_IN[name](argument if colon else None)
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", text):
        raise ArgumentError("features", text, ALLOWED)
    return custom.make(text)
