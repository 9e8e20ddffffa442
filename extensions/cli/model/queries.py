"""The commands of `pea` about a trained model: what it says of records, and in which format."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from extensions.checks import check_left_out
from extensions.cli import console
from extensions.data.datasets import Columns, is_table, read_unlabelled
from extensions.data.origin import by_rank
from extensions.errors import ArgumentError
from extensions.options import Option, Options, Writes
from extensions.printing import say
from extensions.ring.fixed_point import Reals
from extensions.runs.model import (
    Header,
    check_width,
    logits_of,
    read_opened,
    write_predictions,
)
from extensions.runs.model.backends import Computing
from extensions.runs.model.explaining import told_of
from extensions.runs.model.export import export as write_as
from extensions.runs.model.inference import NOTHING_BESIDE
from extensions.runs.model.joint_use import Request
from extensions.runs.model.pages import write_page
from extensions.runs.model.parties import LocalRows, Party, Query
from extensions.runs.model.recipe import GivenFeatures, as_in_training
from extensions.runs.options import Meeting

Model = Annotated[Path, Option(help="Opened model: model.npz of `pea train --save`.")]
Text = Annotated[str | None, Option(help="Column of texts, if it differs from the training's.")]

_Ids = Mapping[str, Sequence[str]]


def predict(
    query: Query,
    given: GivenFeatures,
    computing: Annotated[Computing, Options("From shares")],
    meeting: Annotated[Meeting | None, Options("From shares, each party by hand")],
    text: Text = None,
    explain: Annotated[
        bool, Option(help="Also write what each column adds, of an additive model.")
    ] = False,
) -> None:
    """Predict the class of each record, with its probability.

    From shares, records stay secret, and their owner alone gets the predictions.
    """
    query.check()
    check_left_out("with {model}", explain=explain and query.model is None)
    if query.shares is None:
        assert query.model is not None
        opened = read_opened(query.model)
        features, ids = _asked(opened.header, query, given, text)
        logits = logits_of(opened, features)
        beside = told_of(opened, features, logits) if explain else {}
        _write(opened.header, logits, query.out, ids, beside)
        return
    party = Party(query.shares, meeting, computing)
    if party.header.widths:
        _of_columns(party, query, given, text)
        return
    check_left_out("unless parties have other columns of each record", own=[*query.own] or None)
    query.check_answer(alone=meeting is not None)
    if query.records is None:
        party.ask(Request(task="predict"), {})
        return
    features, ids = _asked(party.header, query, given, text)
    check_width(party.header, features)
    found = party.ask(Request(task="predict"), {query.owner: LocalRows(x=features)})
    _write(party.header, found[query.owner if meeting is None else 0]["logits"], query.out, ids)


def _of_columns(party: Party, query: Query, given: GivenFeatures, text: str | None) -> None:
    """Predicts where each party has its own columns of each record, for one of them."""
    meeting, owner = party.meeting, query.owner
    files = by_rank(query.own, len(party.paths)) if meeting is None else {}
    if meeting is not None and query.records is not None:
        files = {meeting.rank: query.records}
    wanted = len(party.paths) if meeting is None else 1
    if len(files) != wanted or (owner in files) != (query.out is not None):
        rule = "the records at each party, and {out} at the party that {owner} names"
        raise ArgumentError("records, out", (sorted(files), str(query.out)), rule, code="either")
    headers = {rank: party.header_of(rank) for rank in files}
    rows, ids = {}, {}
    for rank, path in files.items():
        features, ids[rank] = _asked(headers[rank], replace(query, records=path), given, text)
        check_width(headers[rank], features)
        rows[rank] = LocalRows(x=features)
    found = party.ask(Request(task="predict", owner=owner), rows)
    if query.out is not None:
        logits = found[owner if meeting is None else 0]["logits"]
        _write(headers[owner], logits, query.out, ids[owner])


def _write(
    header: Header,
    logits: Reals,
    out: Path | None,
    ids: _Ids,
    beside: Mapping[str, Sequence[float]] = NOTHING_BESIDE,
) -> None:
    assert out is not None
    say(f"{write_predictions(header, logits, out, ids, beside)} {len(logits)} records")


def explain(
    model: Model,
    out: Annotated[Path, Option(help="File to write: .html or .png."), Writes()],
) -> None:
    """Draw what an additive model has learnt: a curve for each column, with the noise in it."""
    path = write_page(out, read_opened(model))
    say(f"{path} {path.stat().st_size} bytes")


def export(
    model: Model,
    to: Annotated[
        str, Option(help="Format: torch, onnx, keras, points, peft, safetensors or npz.")
    ],
    out: Annotated[
        Path,
        Option(help="File: .pt2, .onnx, .keras, .csv, .safetensors or .npz; for peft a folder."),
        Writes(),
    ],
) -> None:
    """Write an opened model for another framework, with all that is known of it."""
    path = write_as(read_opened(model), to, out)
    say(f"{path} {path.stat().st_size} bytes")


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
    own, ids = read_unlabelled(
        records, columns=header.columns, text=text, schema=header.schema, known_by=query.known_by
    )
    console.clipped(own.clipped)
    with console.counted("features of record", shown=header.features != "raw") as show:
        return extraction.rows(own.x, lambda done: show(done, len(own.x))), ids
