"""The commands of `pea` that compute with shares of a model, and how parties are found for it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from extensions.cli import console
from extensions.cli.budget import BudgetFile
from extensions.cli.options import Ending
from extensions.data.datasets import Columns
from extensions.errors import ArgumentError
from extensions.options import Option, Options, Writes
from extensions.printing import say
from extensions.runs.budget.run_ledgers import ledger_of, ledgers_of, spent_in
from extensions.runs.model import (
    MODEL_FILE,
    OpenedModel,
    path_of,
    read_shares,
    write_opened,
    write_shares,
)
from extensions.runs.model.backends import Computing
from extensions.runs.model.joint_use import Request, settings_of
from extensions.runs.model.parties import Counting, Holders, LocalRows, Party, held_out_of
from extensions.runs.model.recipe import GivenFeatures
from extensions.runs.options import Meeting
from extensions.runs.outputs import expected_precision


def evaluate(
    holders: Holders,
    columns: Columns,
    given: GivenFeatures,
    counting: Counting,
    computing: Computing,
    meeting: Annotated[Meeting | None, Options("Each party by hand")],
    ending: Ending,
    budget: BudgetFile = None,
) -> None:
    """Count how often a model is right on held-out records; shares and records stay secret.

    It uses the records of the same files that the training held out, and charges the owners'
    ledgers.
    """
    party = Party(holders.shares, meeting, computing)
    files = holders.files(party)
    ledgers = _ledgers(files, budget)
    own = {
        rank: held_out_of(party.header_of(rank), path, columns, given, ledgers.get(rank))
        for rank, path in files.items()
    }
    request = Request(task="evaluate", **vars(counting))
    here = [len(rows.x) for rows in own.values() if rows.x is not None]
    config = settings_of(party.header, request)
    times, assuming = (1, "") if meeting is None else (config.parties, "as many as here: ")
    held_out = config.records_of(here * times) if here else 0
    console.expected(expected_precision(config, held_out), assuming)
    found = party.ask(request, own)[0]
    console.finish({**found, **spent_in([*ledgers.values()])}, ending)


def open_model(
    holders: Holders,
    out: Annotated[Path, Option(help="Folder for model.npz."), Writes(inside=("model.npz",))],
    computing: Computing,
    meeting: Annotated[Meeting | None, Options("Each party by hand")],
    budget: BudgetFile = None,
) -> None:
    """Open a model to all parties, and note it in the ledgers of the records given.

    If parties have other columns of each record, each gets only the part of its own columns.

    A ledger that has the training run was charged as if that opened the model, so epsilon stays the
    same. Any other ledger is charged with the whole run.
    """
    party = Party(holders.shares, meeting, computing)
    model, parts = out / MODEL_FILE, {}
    if party.header.widths:
        shares = [read_shares(path) for path in party.paths]
        parts = {path_of(out, shared.rank): shared for shared in shares}
    for path in parts or [model]:
        if path.exists():
            advice = "It may be the only copy of another run. Choose another folder."
            raise ArgumentError("out", str(out), f"a folder without {path.name}", advice)
    files = holders.files(party)
    for path in files.values():  # which nothing reads
        ledger_of("data_for_party" if party.meeting is None else "records", path)
    ledgers = _ledgers(files, budget)
    for line in party.strangers(ledgers):
        console.notice(line)
    if not ledgers:
        console.notice("without a ledger, the opening of the model is not noted anywhere.")
    if not party.header.config.private:
        console.notice("the model was trained with --no-dp: it may reveal training records.")
    own = {rank: LocalRows(ledger=path) for rank, path in ledgers.items()}
    found = party.ask(Request(task="open"), own)
    if not parts:
        opened = OpenedModel(
            header=party.header, parameters=found[0]["parameters"], whitening=party.whitening
        )
        say(write_opened(model, opened))
        return
    for each, (path, shared) in zip(found, parts.items(), strict=True):
        header = replace(shared.header, apart=True)
        say(write_shares(path, replace(shared, header=header, parts=each["parts"])))


def _ledgers(files: Mapping[int, Path], budget: Path | None) -> dict[int, Path]:
    """Returns the ledgers of those whose records are given, or of one owner, by rank."""
    ranks = [*files] or [0]
    paths = ledgers_of([*files.values()], len(ranks), budget)
    return {rank: path for rank, path in zip(ranks, paths, strict=True) if path is not None}
