"""The commands of `pea` about a trained model: what it says of records, and in which format."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.owners.data import read_unlabelled
from extensions.owners.origin import FeatureExtraction
from extensions.ring.fixed_point import Reals
from extensions.runs.model import FEATURE, Header, logits_of, read_opened, write_predictions
from extensions.runs.model.export import export as write_as

Model = Annotated[Path, typer.Option(help="model.npz of `pea train --evaluate opened --save`.")]
FROM_THE_MODEL = ("features", "max_feature_norm")
"""Fields of `FeatureExtraction` that a model says."""


def predict(
    model: Model,
    records: Annotated[
        Path,
        typer.Option(
            help="Own .csv, .parquet or .npz file (array x, or a party's test_x), without labels "
            "or with them."
        ),
    ],
    out: Annotated[Path, typer.Option(help=".csv file for the predictions, a row a record.")],
    extraction: Annotated[FeatureExtraction, Options(without=FROM_THE_MODEL)],
    text: Annotated[
        str | None,
        typer.Option(help="Column of texts, if not that of the training."),
    ] = None,
) -> None:
    """Say of each record which class an opened model takes it for, and how surely."""
    opened = read_opened(model)
    features = features_for(opened.header, records, extraction, text)
    logits = logits_of(opened, features)
    typer.echo(f"{write_predictions(opened.header, logits, out)} {len(logits)} records")


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="torch, onnx, keras or npz.")],
    out: Annotated[Path, typer.Option(help="File for it: .pt2, .onnx, .keras or .npz.")],
) -> None:
    """Write an opened model for another framework, with all that is known of it."""
    path = write_as(read_opened(model), to, out)
    typer.echo(f"{path} {path.stat().st_size} bytes")


def features_for(
    header: Header, records: Path, extraction: FeatureExtraction, text: str | None
) -> Reals:
    """Returns the features that a model takes of an owner's records.

    Args:
        header: of the model.
        records: file of the records.
        extraction: weights and cache alone; the rest is the model's.
        text: column of a table's texts, if records are texts.

    Raises:
        ArgumentError: other records than the model takes, or an extractor that differs from that
            of the training in more than the version of what it is built on.
        MissingExtraError: what the extractor needs is not installed.
    """
    extraction = FeatureExtraction(
        features=header.features,
        max_feature_norm=header.max_feature_norm,
        weights=extraction.weights,
        keep=extraction.keep,
    )
    _check_identity(header, extraction)
    text = text or header.text
    own = read_unlabelled(records, columns=header.columns, text=text, schema=header.schema)
    console.clipped(own.clipped)
    with console.counted("features of record", shown=header.features != "raw") as show:
        return extraction.rows(own.x, lambda done: show(done, len(own.x)))


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
