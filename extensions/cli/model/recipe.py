"""How records become the features that a model was trained on."""

from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

from extensions.cli import console
from extensions.errors import ArgumentError
from extensions.owners.origin import FeatureExtraction
from extensions.runs.model import FEATURE, Header

FROM_THE_MODEL = ("features", "max_feature_norm")
"""Fields of `FeatureExtraction` that a model says."""


def as_in_training(header: Header, given: FeatureExtraction) -> FeatureExtraction:
    """Returns the extraction of the training; another version of what it is built on is told.

    Args:
        header: of the model.
        given: weights and cache alone; the rest is the model's.

    Raises:
        ArgumentError: an extractor that differs from that of the training in more than the version
            of what it is built on.
        MissingExtraError: what the extractor needs is not installed.
    """
    said = {name: getattr(header, name) for name in FROM_THE_MODEL}
    extraction = replace(given, **said)
    _check_identity(header, extraction)
    return extraction


def _check_identity(header: Header, extraction: FeatureExtraction) -> None:
    stated = extraction.statement.items()
    here = {name.removeprefix(FEATURE): value for name, value in stated if FEATURE in name}
    for name in sorted(header.identity.keys() | here.keys()):
        then, now = header.identity.get(name), here.get(name)
        if then == now:
            continue
        if not _is_distribution(name):
            raise ArgumentError(
                "features",
                f"{extraction.features}, whose {name} is {now}",
                f"as in the training, {then}",
                "Give the same --weights, or install what the model was trained with.",
            )
        console.notice(f"features were taken with {name} {then} in the training, and {now} here.")


def _is_distribution(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
