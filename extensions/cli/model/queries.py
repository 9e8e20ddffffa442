"""The commands of `pea` about a trained model: what it says of records, and in which format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from extensions.cli import console
from extensions.cli.model.recipe import GivenFeatures, as_in_training
from extensions.cli.model.shares import OwnRows, Party
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.options import Option, Writes
from extensions.owners.data import Columns, is_table, read_unlabelled
from extensions.ring.fixed_point import Reals
from extensions.runs.model import (
    Header,
    check_there,
    check_width,
    logits_of,
    read_opened,
    write_predictions,
)
from extensions.runs.model.backends import Computing
from extensions.runs.model.export import export as write_as
from extensions.runs.model.together import Request
from extensions.runs.options import Meeting

Model = Annotated[Path, typer.Option(help="model.npz of `pea train --evaluate opened --save`.")]
Text = Annotated[str | None, typer.Option(help="Column of texts, if not that of the training.")]

_Ids = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is asked about, and where the answer goes.

    Attributes:
        records: own .csv, .parquet or .npz file (array x, or a party's test_x), with labels or
            without them.
        out: .csv file for the predictions, a row a record.
        model: model.npz of `pea train --evaluate opened --save`.
        shares: instead of a model that was opened, the folder of all parties' shares, which then
            compute on this machine; or this party's file alone, and the others are started with
            theirs.
        owner: whose the records are, with a folder of shares.
        known_by: column of a table by which its owner knows each record; the predictions keep it.
    """

    records: Path | None = None
    out: Annotated[Path | None, Writes()] = None
    model: Path | None = None
    shares: Path | None = None
    owner: int = 0
    known_by: Annotated[str | None, Option(name="id")] = None

    def check(self) -> None:
        """Returns only if there is one model, and records if there is an answer.

        Raises:
            ArgumentError: there is not, or the model's file is not there.
        """
        if (self.model is None) == (self.shares is None):
            given = (_text(self.model), _text(self.shares))
            raise ArgumentError("model, shares", given, "exactly one of them given")
        if self.model is not None:
            check_there("model", self.model)
        elif self.shares is not None and not self.shares.is_dir():
            check_there("shares", self.shares)
        alone = self.shares is not None and self.shares.is_file()
        if (self.records is None) != (self.out is None) or not (alone or self.records):
            allowed = "both given; both left out only by a party that brings its share alone"
            given = (_text(self.records), _text(self.out))
            raise ArgumentError("records, out", given, allowed)
        if self.known_by is not None and self.records is None:
            raise ArgumentError("id", self.known_by, "given with --records")


def predict(
    query: Query,
    given: GivenFeatures,
    computing: Annotated[Computing, Options("From shares")],
    meeting: Annotated[Meeting | None, Options("From shares, each party by hand")],
    text: Text = None,
) -> None:
    """Say of each record which class a model takes it for, and how surely.

    From shares, records stay secret, and their owner alone gets the predictions.
    """
    query.check()
    if query.shares is None:
        assert query.model is not None
        opened = read_opened(query.model)
        features, ids = _asked(opened.header, query, given, text)
        _write(opened.header, logits_of(opened, features), query.out, ids)
        return
    party = Party(query.shares, meeting, computing)
    if query.records is None:
        party.ask(Request(task="predict"), {})
        return
    features, ids = _asked(party.header, query, given, text)
    check_width(party.header, features)
    found = party.ask(Request(task="predict"), {query.owner: OwnRows(x=features)})
    _write(party.header, found[query.owner if meeting is None else 0]["logits"], query.out, ids)


def _write(header: Header, logits: Reals, out: Path | None, ids: _Ids) -> None:
    assert out is not None
    typer.echo(f"{write_predictions(header, logits, out, ids)} {len(logits)} records")


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def export(
    model: Model,
    to: Annotated[str, typer.Option(help="torch, onnx, keras or npz.")],
    out: Annotated[Path, typer.Option(help="File for it: .pt2, .onnx, .keras or .npz."), Writes()],
) -> None:
    """Write an opened model for another framework, with all that is known of it."""
    path = write_as(read_opened(model), to, out)
    typer.echo(f"{path} {path.stat().st_size} bytes")


def _asked(
    header: Header, query: Query, given: GivenFeatures, text: str | None
) -> tuple[Reals, _Ids]:
    """Returns the features that a model takes of an owner's records, and their identifiers.

    Args:
        header: of the model.
        query: with the file of the records.
        given: how features are extracted here.
        text: column of a table's texts, if records are texts.

    Raises:
        ArgumentError: other records than the model takes, or of `as_in_training`.
        MissingExtraError: what the extractor needs is not installed.
    """
    assert query.records is not None
    records = query.records
    extraction = as_in_training(header, given)
    Columns(text=text).check(tables=is_table(records), schema=header.schema is not None)
    text = text or header.text
    own = read_unlabelled(
        records, columns=header.columns, text=text, schema=header.schema, known_by=query.known_by
    )
    console.clipped(own.clipped)
    with console.counted("features of record", shown=header.features != "raw") as show:
        return extraction.rows(own.x, lambda done: show(done, len(own.x))), own.ids
