"""Extractors made of others: with their mirror image, with square roots, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from extensions.data.datasets.records import Raw, standard_rows
from extensions.data.features.extractor import Extractor, Features
from extensions.data.features.images import resized
from extensions.errors import ArgumentError, optional


def mirrored(extractor: Extractor) -> Extractor:
    """Returns an extractor of the mean of an image's features and its mirror image's."""
    if "images" not in extractor.kinds:
        name = f"{extractor.name},mirror"
        raise ArgumentError("features", name, "an extractor of images before ,mirror")

    def extract(x: Raw) -> Features:
        sides = [extractor.function(np.ascontiguousarray(side)) for side in (x, x[:, :, ::-1])]
        return np.asarray((sides[0] + sides[1]) / 2, dtype=np.float32)

    return replace(extractor, kinds=("images",), function=extract)


def rooted(extractor: Extractor) -> Extractor:
    """Returns an extractor of the square roots of the features' sizes, with the features' signs."""

    def extract(x: Raw) -> Features:
        rows = np.asarray(extractor.function(x), dtype=np.float32)
        return np.sign(rows) * np.sqrt(np.abs(rows))

    return replace(extractor, function=extract)


def bicubic(extractor: Extractor) -> Extractor:
    """Returns an extractor that is given images in its own size, by bicubic interpolation."""
    size = extractor.size
    if size is None:
        name = f"{extractor.name},bicubic"
        raise ArgumentError("features", name, "tflite or backbone before ,bicubic")
    return replace(extractor, function=lambda x: extractor.function(resized(x, *size, cubic=True)))


def half(extractor: Extractor) -> Extractor:
    """Returns an extractor whose network computes with bfloat16 on processors that have it.

    It takes 40 % of the time there and moves a row by some 6 % of its norm. On other processors,
    where it would take ten times as long, nothing changes.
    """
    torch = optional("torch", "torch", "crypten")
    there = torch.cpu._is_avx512_bf16_supported()

    def extract(x: Raw) -> Features:
        with torch.autocast("cpu", torch.bfloat16, enabled=there):
            return np.asarray(extractor.function(x), dtype=np.float32)

    return replace(extractor, function=extract)


def exact(extractor: Extractor) -> Extractor:
    """Returns an extractor of what an encoder reads, for models that adapt it (``lora:RANK``)."""
    if extractor.inputs is None:
        name = f"{extractor.name},{INPUTS}"
        raise ArgumentError("features", name, "hf:NAME_OR_FOLDER before ,inputs")
    return replace(extractor, function=extractor.inputs, exact=True)


def with_inputs(name: str) -> str:
    """Returns the name of the extractor of what an encoder of that name reads."""
    return name if name.endswith(f",{INPUTS}") else f"{name},{INPUTS}"


INPUTS = "inputs"
OPTIONS: Mapping[str, Callable[[Extractor], Extractor]] = {
    "bicubic": bicubic,
    "half": half,
    INPUTS: exact,
    "mirror": mirrored,
    "sqrt": rooted,
}


def with_option(extractor: Extractor, option: str) -> Extractor:
    """Returns an extractor named ``NAME,OPTION``, which is applied after those before it."""
    name = f"{extractor.name},{option}"
    if option not in OPTIONS:
        allowed = f"an extractor with some of the options {', '.join(OPTIONS)}"
        raise ArgumentError("features", name, allowed, code="choice")
    return replace(OPTIONS[option](extractor), name=name)


def side_by_side(parts: Sequence[Extractor]) -> Extractor:
    """Returns the extractor ``A+B``: rows of all, each centred and of norm 1/sqrt(their number)."""
    name = "+".join(part.name for part in parts)
    kinds = tuple(kind for kind in parts[0].kinds if all(kind in part.kinds for part in parts))
    if not kinds:
        takes = "; ".join(f"{part.name} takes {' and '.join(part.kinds)}" for part in parts)
        allowed = "extractors of the same kind of record"
        raise ArgumentError("features", name, allowed, f"Of these {takes}.")
    share = 1.0 / np.sqrt(len(parts))

    def extract(x: Raw) -> Features:
        rows = [standard_rows(np.asarray(part.function(x)), share) for part in parts]
        return np.concatenate(rows, axis=1).astype(np.float32)

    identities = [part.identity for part in parts]
    known = [identity for identity in identities if identity is not None]
    return Extractor(
        name=name,
        kinds=kinds,
        function=extract,
        identity=_merged(known) if len(known) == len(parts) else None,
        batch=min(part.batch for part in parts),
        checks_rows=any(part.checks_rows for part in parts),
        sources=_merged([part.sources for part in parts]),
    )


def _merged(facts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns all facts by name; those in which parts differ name the part that they are of."""
    merged = {}
    for number, own in enumerate(facts, start=1):
        for name, value in own.items():
            alike = all(other.get(name, value) == value for other in facts)
            merged[name if alike else f"{name} of part {number}"] = value
    return merged
