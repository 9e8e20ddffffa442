"""The parties that have shares of a model: all on this machine, or one that meets the others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from extensions.checks import check_left_out
from extensions.data.datasets import Columns, Labels, columns_in, in_memory, is_table, load_own
from extensions.data.datasets.by_columns import load_columns
from extensions.data.origin import by_rank
from extensions.errors import ArgumentError
from extensions.options import Option, Writes
from extensions.ring.fixed_point import Reals
from extensions.rules import POSITIVE
from extensions.runs.config import TrainConfig
from extensions.runs.model.backends import Computing, find_model_backend
from extensions.runs.model.charges import has_run
from extensions.runs.model.files import check_there
from extensions.runs.model.header import Header
from extensions.runs.model.joint_use import PartyFiles, Request, settings_of
from extensions.runs.model.recipe import GivenFeatures, as_in_training
from extensions.runs.model.shares import paths_in, read_own, read_shares
from extensions.runs.options import Meeting


@dataclass(frozen=True, kw_only=True)
class LocalRows:
    """What one party brings beside its share: features and labels of records, and their ledger."""

    x: Reals | None = None
    y: Labels | None = None
    ledger: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Holders:
    """Who has shares, and whose records are used.

    Attributes:
        shares: folder of all parties' shares, which then compute on this machine; or this party's
            file alone, and the others are started with theirs.
        own: party R's own .npz, .csv or .parquet file, R=PATH, with a folder of shares.
        records: this party's own file, with its share alone.
    """

    shares: Path
    own: Annotated[Sequence[str], Option(name="data-for-party")] = ()
    records: Path | None = None

    def files(self, party: "Party") -> dict[int, Path]:
        """Returns the files of records by the ranks of their owners."""
        if party.meeting is None:
            check_left_out("with a folder of shares", records=self.records)
            return by_rank(self.own, len(party.paths))
        check_left_out("with one share alone", own=list(self.own) or None)
        return {} if self.records is None else {party.meeting.rank: self.records}


@dataclass(frozen=True, kw_only=True)
class Query:
    """What is asked about, and where the answer goes.

    Attributes:
        records: your .csv, .parquet or .npz file (array x, or a party's test_x), with or without
            labels.
        out: file for the predictions, a .csv file with a row for each record.
        model: opened model: model.npz of `pea train --evaluate opened --save`.
        shares: instead of an opened model, the folder of all parties' shares, to compute on this
            machine. Or this party's file only, if each party runs this command with its own.
        own: with a folder of shares, party R's file, as R=PATH, if parties have other columns of
            each record. Otherwise each party gives its own records, and one of them gives out.
        owner: rank of the owner of the records, with a folder of shares. If parties have other
            columns of each record, rank of the party that gets the predictions, the same at all
            parties.
        known_by: column of a table that names each record; the predictions keep it.
    """

    records: Path | None = None
    out: Annotated[Path | None, Writes()] = None
    model: Path | None = None
    shares: Path | None = None
    own: Annotated[Sequence[str], Option(name="data-for-party")] = ()
    owner: int = 0
    known_by: Annotated[str | None, Option(name="id")] = None

    def check(self) -> None:
        """Checks that there is one model, and records if there is an answer."""
        if (self.model is None) == (self.shares is None):
            given = (_text(self.model), _text(self.shares))
            raise ArgumentError("model, shares", given, "{model} or {shares}", code="either")
        if self.model is not None:
            check_there("model", self.model)
        elif self.shares is not None and not self.shares.is_dir():
            check_there("shares", self.shares)
        alone = self.shares is not None and self.shares.is_file()
        if alone or self.own:
            return
        self.check_answer()

    def check_answer(self, *, alone: bool = False) -> None:
        """Checks that there are records if there is an answer, and for one party alone neither."""
        if (self.records is None) != (self.out is None) or not (alone or self.records):
            allowed = "{records} and {out}, or neither if this party brings its share only"
            given = (_text(self.records), _text(self.out))
            raise ArgumentError("records, out", given, allowed, code="either")
        if self.known_by is not None and self.records is None:
            raise ArgumentError("known_by", self.known_by, "{records}", code="needs")


@dataclass(frozen=True, kw_only=True)
class Counting:
    """How correct predictions are counted.

    Attributes:
        noisy: count with accounted noise.
        count_noise: its standard deviation, in records.

    Raises:
        ArgumentError: noise that is not positive.
    """

    noisy: bool = False
    count_noise: float = TrainConfig.count_noise

    def __post_init__(self) -> None:
        POSITIVE.check("count_noise", self.count_noise)


class Party:
    """All parties on this machine, or one that meets the others.

    Shares are in a folder, or one party's file. `paths` are those that are here, by rank or this
    party's. A meeting is needed for one party, and refused for all.
    """

    def __init__(self, shares: Path, meeting: Meeting | None, computing: Computing) -> None:
        all_here = shares.is_dir()
        self.paths = paths_in(shares) if all_here else [shares]
        first = read_shares(self.paths[0])
        if all_here == (meeting is not None):
            given = None if meeting is None else meeting.rendezvous
            allowed = "a folder of all shares, or one party's file with {rank} and {rendezvous}"
            raise ArgumentError("rank, rendezvous", given, allowed, code="either")
        if meeting is not None and not 0 <= meeting.rank < len(first.save):
            raise ArgumentError("rank", meeting.rank, f"in 0..{len(first.save) - 1}")
        if meeting is not None:
            read_own(shares, meeting.rank)
        self.meeting, self.header, self._computing = meeting, first.header, computing
        self.whitening = first.whitening
        self._engine = find_model_backend(computing.backend)

    def header_of(self, rank: int) -> Header:
        """Returns the header of a party's share, that of this party's where it meets the others."""
        return read_shares(self.paths[0 if self.meeting is not None else rank]).header

    def strangers(self, ledgers: Mapping[int, Path]) -> Iterator[str]:
        """Yields, of each ledger that lacks the run of the shares, what that means.

        Ledgers are by rank; with one share that of this party, whatever its rank.
        """
        for rank, ledger in ledgers.items():
            path = self.paths[0 if self.meeting is not None else rank]
            if not has_run(ledger, read_shares(path)):
                yield (
                    f"{ledger} lacks the run of {path}, and is charged with all of it. If other "
                    "records were trained on, name those, because their ledger needs the opening."
                )

    def ask(self, request: Request, own: Mapping[int, LocalRows]) -> list[dict[str, Any]]:
        """Returns what each party gets, or this one alone.

        The request is the same at all parties. What they bring is by rank; with one share that of
        this party, whatever its rank.
        """
        settings_of(self.header, request)  # before any process starts
        if self.meeting is None:
            if not own.keys() <= {*range(len(self.paths))}:
                raise ArgumentError("owner", max(own), f"in 0..{len(self.paths) - 1}")
            rows = [own.get(rank, LocalRows()) for rank in range(len(self.paths))]
        else:
            rows = [next(iter(own.values()), LocalRows())]
        with in_memory([{"x": each.x, "y": each.y} for each in rows]) as files:
            given = [
                PartyFiles(
                    shares=shares, records=None if each.x is None else file, ledger=each.ledger
                )
                for shares, each, file in zip(self.paths, rows, files, strict=True)
            ]
            if self.meeting is None:
                return self._engine.use(request, given, self._computing)
            return [self._engine.use_party(request, given[0], self.meeting, self._computing)]


def held_out_of(
    header: Header, path: Path, columns: Columns, given: GivenFeatures, ledger: Path | None = None
) -> LocalRows:
    """Returns the held-out records of a file as the training of the model saw them."""
    columns.check(tables=is_table(path), schema=header.schema is not None)
    names = header.classes if "class 0" in header.facts else None
    load = load_columns if header.widths else load_own
    (own,) = load(
        [path], header.config.seed_data, columns=columns, names=names, schema=header.schema
    )
    x, y, found = own.test_x, own.test_y, columns_in(own.recipe)
    if not len(x):
        raise ArgumentError("records", str(path), "a file with held-out records")
    if x.ndim == 2 and is_table(path) and header.schema is None:
        if {*found} != {*header.columns}:
            allowed = f"a table with the model's columns, {', '.join(header.columns)}"
            raise ArgumentError("records", f"{path.name}: {', '.join(found)}", allowed)
        x = x[:, [found.index(name) for name in header.columns]]
    chosen = as_in_training(header, given)
    return LocalRows(x=chosen.rows(x, lambda done: None), y=y, ledger=ledger)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
