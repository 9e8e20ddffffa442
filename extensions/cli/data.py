"""The commands of `pea` about records alone."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from extensions.cli import console
from extensions.data.datasets import (
    Split,
    classes_in,
    is_table,
    read_cells,
    separator_of,
    write_parts,
    write_records,
)
from extensions.data.origin import FeatureExtraction, Origin, own_records
from extensions.data.schema import NOTICE, draft
from extensions.errors import ArgumentError
from extensions.options import Option, Options, Writes
from extensions.printing import ERR, OUT, say
from extensions.runs.config import TrainConfig, check_parties

Classes = Annotated[
    int | None,
    Option(help="Number of classes, if no names, schema or file says it."),
]
NO_FEATURES = "none"
NOT_OF_A_TABLE = ("data", "data_dir", "own", "download", "partition")
"""Fields of `Origin` that say nothing of one owner's file."""


def split(
    out: Annotated[
        Path,
        Option(help="Folder for party-0.npz, party-1.npz, ..."),
        Writes(inside=("party-*.npz",)),
    ],
    origin: Annotated[Origin, Options(without=("own",))],
    extraction: Annotated[FeatureExtraction, Options(without=("features",))],
    parties: Annotated[int, Option(help="Number of parties.")] = TrainConfig.parties,
    columns: Annotated[
        int | None,
        Option(help="Number of parties, if each gets other columns of the same records."),
    ] = None,
    features: Annotated[
        str, Option(help="Extractor, as in `pea train`; none: only cut the records.")
    ] = TrainConfig.features,
) -> None:
    """Cut a data set into one file for each party, to try `pea party`."""
    parties = parties if columns is None else columns
    check_parties(parties)
    raw = parts = origin.read(parties, by_columns=columns is not None)
    if features != NO_FEATURES:
        with console.extracting() as show:
            parts = replace(extraction, features=features).extract(raw, show)
    elif raw[0].kind == "texts":
        raise ArgumentError("features", NO_FEATURES, "an extractor for texts, such as hashed")
    console.classes(classes_in(raw[0].recipe))
    for path in write_parts(parts, out):
        say(path)


def extract(
    records: Annotated[Path, Option(help="The party's .npz, .csv or .parquet file.")],
    out: Annotated[Path, Option(help=".npz file for the features."), Writes()],
    table: Annotated[Origin, Options(without=NOT_OF_A_TABLE)],
    features: Annotated[str, Option(help="Extractor, as in `pea train`.")],
    extraction: Annotated[FeatureExtraction, Options(without=("features",))],
    classes: Classes = None,
) -> None:
    """Turn one party's records into the features that `pea party` shares; runs on its own."""
    own = features_of(own_records(records, table, classes), replace(extraction, features=features))
    path = write_records(own, out)
    say(f"{path} {len(own.train_x)}+{len(own.test_x)} x {own.train_x.shape[1]}")


def features_of(own: Split, extraction: FeatureExtraction) -> Split:
    """Returns one owner's features, of its records."""
    with console.extracting() as show:
        (features,) = extraction.extract([own], show)
    console.classes(classes_in(own.recipe))
    console.clipped(own.clipped, left_out=own.left_out)
    return features


def schema(
    records: Annotated[
        Path, Option(name="from", help="Your .csv or .parquet file, to draft the schema from.")
    ],
    target: Annotated[str, Option(help="Column to learn.")],
    unit: Annotated[
        str | None,
        Option(help="Column that names the person, if a person may have several records."),
    ] = None,
    exclude: Annotated[list[str] | None, Option(help="Column to leave out; once for each.")] = None,
    out: Annotated[
        Path | None, Option(help="File for the schema; by default it is printed."), Writes()
    ] = None,
) -> None:
    """Draft a public schema from your table. Edit it before you use it."""
    if not is_table(records):
        raise ArgumentError("from", str(records), "a .csv or .parquet file")
    if out is not None and out.exists():
        raise ArgumentError("out", str(out), "a file that does not exist yet")
    separator = separator_of(records)
    table = read_cells(records, separator)
    drafted = draft(table, target, unit, exclude=exclude or (), separator=separator)
    if out is None:
        OUT.write(drafted.text)
    else:
        with out.open("x", encoding="utf-8") as file:
            file.write(drafted.text)
    for name, why in drafted.left_out.items():
        say(f"left out: {name}, {why}", ERR)
    console.notice(NOTICE)
