"""How records become the features that a model was trained on."""

from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

from extensions.data.features import names_file, names_function
from extensions.data.features.combined import with_inputs
from extensions.data.origin import FeatureExtraction
from extensions.errors import ArgumentError
from extensions.layers.models.lora import lora_sizes
from extensions.options import Options
from extensions.printing import ERR, say
from extensions.runs.model.header import FEATURE, Header

FROM_THE_MODEL = ("features", "max_feature_norm")
"""Fields of `FeatureExtraction` that a model says."""


@dataclass(frozen=True, kw_only=True)
class GivenFeatures:
    """How the features that a model takes are extracted here.

    Attributes:
        features: the model's extractor, if it is your own module:function or a file, tflite:PATH.
            You must name it, because a model's file never says what runs here.
        extraction: weights and cache alone.
    """

    features: str | None = None
    extraction: Annotated[FeatureExtraction, Options(without=FROM_THE_MODEL)] = field(
        default_factory=FeatureExtraction
    )


def as_in_training(header: Header, given: GivenFeatures) -> FeatureExtraction:
    """Returns the extraction of the training; another version of what it is built on is told.

    Guarantees:
        No function is imported, and no file opened, that a header names: the user names it too.
        None is called whose digest is not the header's.
    """
    theirs = header.features
    if given.features is None and (names_function(theirs) or names_file(theirs)):
        raise ArgumentError(
            "features",
            None,
            f"because the model's are {theirs!r}, which a model's file may not run",
            "If you trust it, give {features=module:function} or {features=tflite:PATH}.",
            code="missing",
        )
    features = theirs if given.features is None else given.features
    if lora_sizes(header.spec.kind) is not None:
        features = with_inputs(features)
    extraction = replace(
        given.extraction,
        features=features,
        max_feature_norm=header.max_feature_norm,
    )
    _check_identity(header, extraction)
    return extraction


def _check_identity(header: Header, extraction: FeatureExtraction) -> None:
    stated = extraction.statement
    if stated["features"] != header.features:
        allowed = f"{header.features!r}, from which the model learnt"
        raise ArgumentError("features", stated["features"], allowed)
    parts = stated.items()
    here = {name.removeprefix(FEATURE): value for name, value in parts if FEATURE in name}
    for name in sorted(header.identity.keys() | here.keys()):
        then, now = header.identity.get(name), here.get(name)
        if then == now:
            continue
        if not _is_distribution(name):
            raise ArgumentError(
                "features",
                f"{extraction.features}, whose {name} is {now}",
                f"as in the training: {then}",
                "Give the same {weights}, or install the version of the training.",
            )
        say(f"Notice: features were taken with {name} {then} in the training, and {now} here.", ERR)


def _is_distribution(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
