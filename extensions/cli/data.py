"""The commands of `pea` about records alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.owners.data import RawSplit, Split, write_parts
from extensions.owners.origin import FeatureExtraction, Origin, own_features, write_features
from extensions.runs.config import TrainConfig

NO_FEATURES = "none"
NOT_OF_A_TABLE = ("data", "data_dir", "own", "download", "partition")
"""Fields of `Origin` that say nothing of one owner's file."""


def split(
    out: Annotated[Path, typer.Option(help="Folder for party-0.npz, party-1.npz, ...")],
    origin: Annotated[Origin, Options(without=("own",))],
    extraction: Annotated[FeatureExtraction, Options(without=("features",))],
    parties: Annotated[int, typer.Option(help="Number of parties.")] = TrainConfig.parties,
    features: Annotated[
        str, typer.Option(help="As in `pea train`; none: cut only, for `pea party --features`.")
    ] = FeatureExtraction.features,
) -> None:
    """Cut a data set into one file for each party, to try `pea party` with."""
    sources = origin.read(parties)
    console.classes(sources[0].names)
    raw = [source.split for source in sources]
    parts: Sequence[Split | RawSplit] = raw
    if features != NO_FEATURES:
        with console.extracting() as show:
            parts = replace(extraction, features=features).extract(raw, show)
    elif raw[0].kind == "texts":
        raise ArgumentError("features", NO_FEATURES, "an extractor for texts, such as hashed")
    for path in write_parts(parts, out):
        typer.echo(path)


def extract(
    records: Annotated[Path, typer.Option(help="One party's .npz, .csv or .parquet file.")],
    out: Annotated[Path, typer.Option(help=".npz file for the features.")],
    table: Annotated[Origin, Options(without=NOT_OF_A_TABLE)],
    features: Annotated[str, typer.Option(help="As in `pea train`.")],
    extraction: Annotated[FeatureExtraction, Options(without=("features",))],
    classes: Annotated[int, typer.Option(help="Number of classes.")] = TrainConfig.classes,
) -> None:
    """Turn one party's records into the features that `pea party` shares; runs on its own."""
    extraction = replace(extraction, features=features)
    own = extract_own(records, table, len(table.names or ()) or classes, extraction)
    path = write_features(own, out)
    typer.echo(f"{path} {len(own.train_x)}+{len(own.test_x)} x {own.train_x.shape[1]}")


def extract_own(records: Path, table: Origin, classes: int, extraction: FeatureExtraction) -> Split:
    """Returns one owner's features, of its own file."""
    with console.extracting() as show:
        return own_features(records, table, classes, extraction, show)
