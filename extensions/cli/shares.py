"""The commands of `pea` that compute with shares of a model, and how parties are found for it."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import typer

from extensions.checks import check_positive, check_writable
from extensions.cli import console
from extensions.cli.budget import NO_BUDGET, BudgetFile, ledgers_of
from extensions.cli.options import Report
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.owners.data import Columns, Labels
from extensions.owners.data.sources import load_own
from extensions.owners.origin import FeatureExtraction, by_rank
from extensions.ring.fixed_point import Reals
from extensions.runs.config import TrainConfig
from extensions.runs.model import (
    Header,
    OpenedModel,
    path_of,
    paths_in,
    read_shares,
    write_opened,
)
from extensions.runs.model.backends import Computing, find_model_backend
from extensions.runs.model.together import PartyFiles, Request, write_records
from extensions.runs.options import Meeting


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """What one party brings beside its share.

    Attributes:
        x: features of its records; None without any.
        y: their labels.
        ledger: of its records, or None.
    """

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

    def files(self, meeting: Meeting | None) -> dict[int, Path]:
        """Returns the files of records by the ranks of their owners.

        Raises:
            ArgumentError: those of the other way to compute.
        """
        if self.shares.is_dir():
            if self.records is not None:
                raise ArgumentError("records", str(self.records), "left out with a folder")
            return by_rank(self.own, len(paths_in(self.shares)))
        if self.own:
            raise ArgumentError("data_for_party", list(self.own), "left out with one share")
        rank = 0 if meeting is None else meeting.rank
        return {} if self.records is None else {rank: self.records}


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
        check_positive("count_noise", self.count_noise)


class Party:
    """All parties on this machine, or one that meets the others.

    Args:
        shares: folder of all shares, or one party's file.
        meeting: of that one party.
        computing: how they compute.
    """

    def __init__(self, shares: Path, meeting: Meeting | None, computing: Computing) -> None:
        self.all_here = shares.is_dir()
        if self.all_here == (meeting is not None):
            given = None if meeting is None else meeting.rendezvous
            allowed = "left out with a folder of all shares, given with one party's file"
            raise ArgumentError("rank, rendezvous", given, allowed)
        if meeting is not None:
            last = len(read_shares(shares).save) - 1
            if not 0 <= meeting.rank <= last:
                raise ArgumentError("rank", meeting.rank, f"in 0..{last}")
        self._paths = paths_in(shares) if self.all_here else [shares]
        self._meeting, self._computing = meeting, computing
        self._engine = find_model_backend(computing.backend)
        self._folder = tempfile.TemporaryDirectory(prefix="pea-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._folder.cleanup()

    def ask(self, request: Request, own: Mapping[int, OwnRows]) -> list[dict[str, Any]]:
        """Returns what each party gets, or this one alone.

        Args:
            request: the same at all parties.
            own: what parties bring, by rank; with one share that of this party, whatever its rank.
        """
        if not self.all_here:
            assert self._meeting is not None
            mine = next(iter(own.values()), OwnRows())
            files = self._files(self._meeting.rank, self._paths[0], mine)
            return [self._engine.use_party(request, files, self._meeting, self._computing)]
        if not own.keys() <= {*range(len(self._paths))}:
            raise ArgumentError("owner", max(own), f"in 0..{len(self._paths) - 1}")
        given = [
            self._files(rank, path, own.get(rank, OwnRows()))
            for rank, path in enumerate(self._paths)
        ]
        return self._engine.use(request, given, self._computing)

    def _files(self, rank: int, shares: Path, own: OwnRows) -> PartyFiles:
        records = None
        if own.x is not None:
            records = write_records(Path(self._folder.name) / f"{rank}.npz", own.x, own.y)
        return PartyFiles(shares=shares, records=records, ledger=own.ledger)


def header_of_shares(shares: Path) -> Header:
    """Returns the header of the shares in a folder, or in a party's file."""
    return read_shares(path_of(shares, 0) if shares.is_dir() else shares).header


def evaluate(
    holders: Holders,
    columns: Columns,
    extraction: Annotated[FeatureExtraction, Options(without=("features", "max_feature_norm"))],
    counting: Counting,
    computing: Computing,
    meeting: Annotated[Meeting | None, Options("Each party by hand")],
    budget: BudgetFile = None,
    report: Report = None,
) -> None:
    """Count on held-out records how often a model is right; shares, records and rest stay secret.

    Held out are those that the training of the model held out of the same files. Owners' ledgers
    are charged.
    """
    if report is not None:
        check_writable("json", report)
    header = header_of_shares(holders.shares)
    files = holders.files(meeting)
    ledgers = _ledgers(files, budget)
    own = {
        rank: held_out_of(header, path, columns, extraction, ledgers.get(rank))
        for rank, path in files.items()
    }
    request = Request(task="evaluate", **vars(counting))
    with Party(holders.shares, meeting, computing) as party:
        found = party.ask(request, own)[0]
    console.show(found)
    if report is not None:
        console.write(found, report)


def open_model(
    holders: Holders,
    out: Annotated[Path, typer.Option(help="Folder for model.npz.")],
    computing: Computing,
    meeting: Annotated[Meeting | None, Options("Each party by hand")],
    budget: BudgetFile = None,
) -> None:
    """Open a model to all parties; it is noted in the ledgers of the records given.

    Epsilon stays what it is where a ledger has the run, which was charged as if it opened its
    model.
    """
    check_writable("out", out / "model.npz")
    header = header_of_shares(holders.shares)
    ledgers = _ledgers(holders.files(meeting), budget)
    with Party(holders.shares, meeting, computing) as party:
        if not ledgers:
            console.notice("no ledger is given, so that none notes that the model is opened.")
        if not header.privacy["private"]:
            console.notice("the model was trained with --no-dp: it may give training records away.")
        own = {rank: OwnRows(ledger=path) for rank, path in ledgers.items()}
        found = party.ask(Request(task="open"), own)[0]
    opened = OpenedModel(header=header, parameters=found["parameters"])
    typer.echo(write_opened(out / "model.npz", opened))


def _ledgers(files: Mapping[int, Path], budget: Path | None) -> dict[int, Path]:
    """Returns the ledgers of those whose records are given, by rank."""
    if not files and budget is not None and str(budget) != NO_BUDGET:
        if budget.is_dir():
            raise ArgumentError("budget", str(budget), "a ledger's file where no records are given")
        return {0: budget}
    paths = ledgers_of([*files.values()], len(files), budget) if files else []
    ranked = zip(files, paths, strict=True)
    return {rank: path for rank, path in ranked if path is not None}


def held_out_of(
    header: Header,
    path: Path,
    columns: Columns,
    extraction: FeatureExtraction,
    ledger: Path | None = None,
) -> OwnRows:
    """Returns the held-out records of a file as the training of the model saw them.

    Args:
        header: of the model.
        path: of the file.
        columns: of a table without a schema.
        extraction: weights and cache alone; the rest is the model's.
        ledger: of the records, or None.

    Raises:
        ArgumentError: other records than the model takes, or none that are held out.
    """
    names = header.classes if "class 0" in header.facts else None
    (source,) = load_own(
        [path], header.run["seed_data"], columns=columns, names=names, schema=header.schema
    )
    x, y = source.split.test_x, source.split.test_y
    if not len(x):
        raise ArgumentError("records", str(path), "a file with held-out records")
    if x.ndim == 2 and source.columns and header.schema is None:
        if {*source.columns} != {*header.columns}:
            allowed = f"a table with the model's columns, {', '.join(header.columns)}"
            raise ArgumentError("records", f"{path.name}: {', '.join(source.columns)}", allowed)
        x = x[:, [source.columns.index(name) for name in header.columns]]
    chosen = FeatureExtraction(
        features=header.features,
        max_feature_norm=header.max_feature_norm,
        weights=extraction.weights,
        keep=extraction.keep,
    )
    return OwnRows(x=chosen.rows(x, lambda done: None), y=y, ledger=ledger)
