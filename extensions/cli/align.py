"""The command that aligns an owner's records with those of others."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, cast

import numpy as np

from extensions.alignment import (
    AlignmentRing,
    Common,
    IdFormat,
    Ids,
    ListStore,
    Owners,
    OwnerTerms,
    Workers,
    ids_of,
)
from extensions.checks import check_writable
from extensions.cli import console
from extensions.data.aligned import Alignment
from extensions.data.datasets import read_cells, separator_of
from extensions.data.datasets.tables import ids_in
from extensions.data.schema.cells import Table
from extensions.errors import ArgumentError
from extensions.machine import cores
from extensions.options import Options, Writes
from extensions.options.leaves import shows
from extensions.printing import say
from extensions.privacy.accounting import Ledger
from extensions.rules import Each, Whole, check_fields, one_of
from extensions.runs.budget import Account, Entry, update
from extensions.runs.budget.run_ledgers import ledgers_of
from extensions.runs.options import Meeting
from extensions.runs.processes.meeting import meeting_place

_KNOWN = (
    "All owners now know that these persons are in every list. Epsilon does not cover that: it "
    "limits what others learn of the values in a person's row."
)


@dataclass(frozen=True, kw_only=True)
class OwnTable:
    """An owner's table, and what becomes of it.

    Attributes:
        records: this owner's .csv or .parquet file, with one record a person.
        id: column that names a person; if several columns together do, give each.
        id_format: text (the default; ignores case, width and outer spaces), digits (ignores all
            else) or date; once for all columns of the id, or once for each.
        world_size: number of owners.
        out: .csv file for this owner's records of common persons; alignment.json goes beside it.
        budget: ledger of the records (`pea budget`), which keeps every alignment; by default beside
            them. With none, no ledger is kept.
        most_alignments: how many alignments the ledger may have, from now on.
        checkpoint: folder for what is done, with a secret key; after a loss the same command goes
            on from there.
        processes: how many processes multiply; by default one a core.
    """

    records: Path
    id: list[str]
    world_size: Annotated[int, Whole(2)]
    out: Annotated[Path, Writes()]
    id_format: list[str] | None = None
    budget: Path | None = None
    most_alignments: Annotated[int | None, Whole(1)] = None
    checkpoint: Annotated[Path | None, Writes(inside=("list-*", "alignment.key"))] = None
    processes: Annotated[int | None, Whole(1)] = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.out.suffix != ".csv":
            raise ArgumentError("out", str(self.out), "a .csv file")
        check_writable("out", Alignment.beside(self.out))
        Each(one_of(IdFormat)).check("id_format", self.formats)
        number = len(self.id)
        Whole(number, number, f"one, or {number}").check("id_format", len(self.formats))

    @property
    def formats(self) -> list[IdFormat]:
        """The format of each column of the id."""
        given = cast(list[IdFormat], self.id_format or ["text"])
        return given * len(self.id) if len(given) == 1 else given

    def read(self) -> tuple[Ids, Table]:
        """Returns the ids of the table, and its other columns."""
        table = read_cells(self.records, separator_of(self.records))
        ids = ids_of([ids_in(self.records, table, name) for name in self.id], self.formats)
        rest = {name: cells for name, cells in table.items() if name not in self.id}
        if not rest:
            raise ArgumentError("id", ", ".join(self.id), "fewer than all columns of the file")
        return ids, rest


@shows(
    *("records", "id", "id-format", "rank", "world-size", "key", "out", "least", "most-ids"),
    *("pad-to", "most-alignments", "checkpoint"),
    example="pea align --records customers.csv --id national_id --rank 0 --world-size 2 "
    "--key bank.pem --out aligned.csv",
)
def align(
    own: Annotated[OwnTable, Options("Records")],
    meeting: Annotated[Meeting, Options("Party", without=("dealer",))],
    terms: Annotated[OwnerTerms, Options("Alignment")],
) -> None:
    """Find the persons whom all owners have, and write your records of them in one order.

    All owners learn who is in every list and how long each list is, and nothing else of others.
    """
    local = meeting.local(own.world_size)
    if local is None:
        raise ArgumentError("rendezvous", meeting.rendezvous, "tls://PATH of the federation")
    ids = own.read()[0]
    terms.size(ids)
    names = tuple(member.name for member in local.federation.parties)
    enter = _entering(ids, names, own)

    def write(found: Common) -> None:
        again, table = own.read()  # in between it would take the memory that the lists need
        if not np.array_equal(again.digests, ids.digests):
            raise ArgumentError("records", str(own.records), "as it was before", code="file")
        owner, number = names[meeting.rank], len(found.rows)
        done = Alignment(number, found.order, names, found.sizes, owner)
        done.write(own.out, table, found.rows.tolist(), separator_of(own.records))

    subject = [ids.digest, own.formats, asdict(terms), local.federation.digest.hex()]
    name = hashlib.sha256(json.dumps(subject).encode()).hexdigest()
    with ExitStack() as stack:
        again = "give the same command again, at all owners."
        stack.enter_context(console.resume_hint(own.checkpoint, again=again))
        folder = own.checkpoint or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        show = stack.enter_context(console.stages())
        show(f"waiting until all are there: {', '.join(names)}", 0, 0)
        place = stack.enter_context(meeting_place(local, meeting.join_timeout, purpose="align"))
        mesh = stack.enter_context(place.connected())
        owners = stack.enter_context(Owners(mesh, names, show))
        workers = stack.enter_context(Workers(own.processes or cores()))
        found = AlignmentRing(ids, terms, owners, ListStore(folder, name), workers).run(
            enter, write
        )
    share = len(found.rows) / max(1, min(found.sizes))
    say(f"common to all: {len(found.rows):,} persons, {share:.0%} of the shortest list")
    say(f"{own.out}: your rows of these, in one order, without the id")
    say(f"{Alignment.beside(own.out)}: which order that is, and whose\n{_KNOWN}")


def _entering(
    ids: Ids, names: Sequence[str], own: OwnTable
) -> Callable[[str, tuple[int, ...], int | None], None]:
    """Returns what enters an alignment in the ledger of the records, which may have one more."""
    (ledger,) = ledgers_of([own.records], 1, own.budget)
    if ledger is not None:

        def limited(before: Account) -> Account:
            most = own.most_alignments or before.most_alignments
            return replace(before, most_alignments=most)

        update(ledger, limited).check_alignments()

    def enter(session: str, sizes: tuple[int, ...], count: int | None) -> None:
        lists = ", ".join(f"{name} {size:,}" for name, size in zip(names, sizes, strict=True))
        if count is None:
            say(f"lists: {lists}")
        if ledger is None:
            return
        entry = Entry(
            name=session,
            title=f"alignment: {lists}",
            ledger=Ledger(),
            exact=False,
            opens=() if count is None else (f"{count:,} common persons",),
            spent=True,
            aligned=ids.digest,
        )
        update(ledger, lambda before: before.with_entry(entry, ledger))

    return enter
