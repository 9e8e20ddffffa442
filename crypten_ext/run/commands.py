"""Commands of those who deal and compute nothing on records: `pea dealer` and `pea prepare`."""

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from crypten_ext import dealer as dealing
from crypten_ext.dealer.connection import parse_address
from crypten_ext.run import preparation
from extensions.cli import console
from extensions.cli.options import SETTLED, Schedule, config_of
from extensions.cli.parameters import Options
from extensions.errors import ArgumentError
from extensions.owners.data import Sizes, settings_of
from extensions.owners.origin import FeatureExtraction, Origin, sizes_of
from extensions.runs.config import TrainConfig

_NOT_PREPARED = ("backend", "provider", "evaluate", "insecure_seed")
_NOT_COUNTED = ("own", "download", "columns", "names", "partition", "seed")


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Public sizes of records, where there are no records to count.

    Attributes:
        records: instead of data, each party's training records: 900,800,850.
        held_out: each party's held-out records, with records.
        columns: number of features, with records; by default those of the schema.
    """

    records: str | None = None
    held_out: str | None = None
    columns: int | None = None

    def sizes(self, columns: int) -> Sizes | None:
        """Returns the sizes, or None.

        Args:
            columns: number of features, where none is given.

        Raises:
            ArgumentError: a list of anything but numbers.
        """
        if self.records is None:
            return None
        return Sizes(
            train=_numbers("records", self.records),
            test=_numbers("held_out", self.held_out),
            features=self.columns or columns,
        )


def dealer(
    bind: Annotated[str, typer.Option(help="HOST:PORT to listen at.")],
    parties: Annotated[int, typer.Option(help="Number of parties.")],
) -> None:
    """Deal for one run of `pea party`: on a host of somebody who owns no data and sides with none.

    It learns shapes and counts, ends with the run, and ends with status 1 if a party is lost.
    """
    host, port = parse_address(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=dealing.BACKLOG)
    except OSError as error:
        raise ArgumentError("bind", bind, "a free HOST:PORT of this host", str(error)) from error
    with listener:
        dealt = dealing.serve(listener, parties)
    typer.echo(f"dealt {dealt.tuples} tuples, {dealt.bytes} bytes of corrections")


def prepare(
    out: Annotated[Path, typer.Option(help="Folder for party-0.material, party-1.material, ...")],
    run: Annotated[TrainConfig, Options("Run", without=(*SETTLED, *_NOT_PREPARED))],
    schedule: Annotated[Schedule, Options("Run")],
    origin: Annotated[Origin, Options("Records", without=_NOT_COUNTED)],
    counts: Annotated[Counts, Options("Records")],
    extraction: Annotated[FeatureExtraction, Options("Features", without=("keep",))],
) -> None:
    """Deal for one run beforehand: on a host of somebody who owns no data and sides with none.

    Each party gets its own file, in private, and gives the same options as here. A file is of use
    once. It is known from public sizes alone which tuples the run needs.
    """
    schema = origin.public_schema
    columns = 0 if schema is None else len(schema.features)
    known = {} if schema is None else settings_of(schema)
    config = config_of(run, schedule, extraction, schema=schema is not None, **known).resolved()
    sizes = counts.sizes(columns) or sizes_of(origin, extraction, config.parties)
    with console.counted("tuple") as show:
        paths = preparation.prepare(config, sizes, out, show)
    for path in paths:
        typer.echo(f"{path} {path.stat().st_size} bytes")


def _numbers(name: str, text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in (text or "").split(","))
    except ValueError:
        raise ArgumentError(name, text, "whole numbers, one a party, such as 900,800,850") from None
