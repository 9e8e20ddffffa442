"""Commands of those who deal and compute nothing on records: `pea dealer` and `pea prepare`."""

import socket
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

from crypten_ext.local_dealer import check_loopback
from crypten_ext.run.needs import PREPARED
from extensions.checks import check_left_out, check_seconds
from extensions.data.features import RAW, find
from extensions.data.origin import FeatureExtraction, Origin, sizes_of
from extensions.errors import ArgumentError, PartyLostError
from extensions.machine import keep_memory
from extensions.options import Option, Options, Writes
from extensions.printing import ERR, say
from extensions.public import Public
from extensions.rules import Whole
from extensions.runs.config import check_parties
from extensions.runs.config.schedule import DERIVED, Asked, Schedule, config_of, found_of
from extensions.runs.entry_points import quiet_unless_it_fails
from extensions.runs.options import Meeting
from extensions.transport import Local
from extensions.transport.listener import listening

MOST_COLUMNS = 1 << 24
"""A weight each, of one class: 128 MB."""
_NOT_PREPARED = ("backend", "method", "open", "evaluate", "insecure_seed", "split")
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

    def sizes(self, parties: int, columns: int | None) -> list[Public] | None:
        """Returns the sizes of the parties' records, or None; `columns` unless others are given.

        Raises ArgumentError for a list of anything but numbers, or not one for each party; one of
        the three without the others; or more columns than a model may have.
        """
        given = vars(self) | {"columns": columns if self.columns is None else self.columns}
        if None in given.values():
            for name, value in given.items():
                missing = [other for other in given if given[other] is None]
                if value is not None and (name != "columns" or self.columns is not None):
                    others = " and ".join(f"{{{other}}}" for other in missing)
                    raise ArgumentError(name, value, others, code="needs")
            return None
        features = columns if self.columns is None else self.columns
        assert self.records is not None and self.held_out is not None and features is not None  # noqa: PT018
        if not 1 <= features <= MOST_COLUMNS:
            allowed = f"in 1..{MOST_COLUMNS}, the number of features"
            raise ArgumentError("columns", features, allowed)
        train = _numbers("records", self.records, parties, 1)
        held_out = _numbers("held_out", self.held_out, parties, 0)
        return [
            Public(features=features, records=own, held_out=others)
            for own, others in zip(train, held_out, strict=True)
        ]


def dealer(
    bind: Annotated[
        str | None,
        Option(help="127.0.0.1:PORT, for this user's parties without a federation."),
    ] = None,
    parties: Annotated[int | None, Option(help="Number of parties, without a federation.")] = None,
    join_timeout: Annotated[
        float,
        Option(help="Seconds to wait for all parties; with a federation, after the first one."),
    ] = 300.0,
    federation: Annotated[
        Path | None, Option(help="File of `pea federation`; only its parties are served.")
    ] = None,
    key: Annotated[Path | None, Option(help="The dealer's file of `pea keys`.")] = None,
    runs: Annotated[
        int | None,
        Option(help="Number of a federation's runs to deal for; by default all."),
    ] = None,
) -> int:
    """Deal for runs of `pea party`, on a host that holds no data and sides with no party.

    It learns shapes and counts. With a federation it deals for one run after another, by TLS, until
    it is stopped. With --bind it deals for one run of parties that the same user starts on this
    machine. Its status is 1 if a party was lost or did not come.
    """
    check_seconds("join_timeout", join_timeout)
    keep_memory()
    if federation is not None:
        if (bind, parties) != (None, None):
            rule = "with {bind} and {parties}, which it says itself"
            raise ArgumentError("federation", str(federation), rule, code="conflict")
        return _deal_to_members(federation, key, join_timeout, runs)
    for name, given in (("key", key), ("runs", runs)):
        if given is not None:
            raise ArgumentError(name, str(given), "{federation}", code="needs")
    if bind is None or parties is None:
        raise ArgumentError(
            "bind, parties",
            (bind, parties),
            "{bind} and {parties}, or {federation} and {key}",
            code="either",
        )
    host, port = check_loopback("bind", bind)
    check_parties(parties, 2)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ArgumentError("bind", bind, "a free HOST:PORT of this host", str(error)) from error
    with listener:
        with quiet_unless_it_fails():
            from crypten_ext.dealer import serve
        dealt = serve(listener, parties, join_timeout=join_timeout)
    _tell(dealt.tuples, dealt.bytes)
    return 0


def _deal_to_members(
    federation: Path, key: Path | None, join_timeout: float, runs: int | None
) -> int:
    """Deals for so many runs of a federation; returns 1 if a party of one was lost, else 0."""
    if key is None:
        raise ArgumentError("key", None, "with {federation}", code="missing")
    if runs is not None and runs < 1:
        raise ArgumentError("runs", runs, "at least 1, or left out")
    local = Local.read(federation, key)
    if local.member.role != "dealer":
        role = local.member.role
        raise ArgumentError("key", local.member.name, f"the dealer's, not a {role}'s")
    if len(local.federation.parties) < 2:
        raise ArgumentError("federation", str(federation), "of two parties at least")
    lost = 0
    with listening(local) as listener:
        with quiet_unless_it_fails():
            from crypten_ext.dealer import serve_runs
        for ended, refused in islice(serve_runs(listener, local, join_timeout), runs):
            for reason in refused:
                say(reason, ERR)
            if isinstance(ended, PartyLostError):
                lost = 1
                say(f"{ended}", ERR)
            else:
                _tell(ended.tuples, ended.bytes)
    return lost


def _tell(tuples: int, size: int) -> None:
    say(f"dealt {tuples} tuples, {size} bytes of corrections")


def prepare(
    out: Annotated[
        Path,
        Option(help="Folder for party-0.material, party-1.material, ..."),
        Writes(inside=("party-*.material",)),
    ],
    run: Annotated[Asked, Options("Run", without=(*DERIVED, *_NOT_PREPARED))],
    schedule: Annotated[Schedule, Options("Run")],
    origin: Annotated[Origin, Options("Records", without=_NOT_COUNTED)],
    counts: Annotated[Counts, Options("Records")],
    extraction: Annotated[FeatureExtraction, Options("Features", without=("keep",))],
    meeting: Annotated[Meeting | None, Options("Party", without=("dealer",))],
) -> None:
    """Deal for one run beforehand, on a host that holds no data and sides with no party.

    Send each party its own file in private. Each party then gives the same options as here. A file
    serves one run. Public sizes say which tuples the run needs. With --provider parties, there is
    no dealer: all parties are online and make the tuples, each on its own host with its --rank. If
    one is lost, give the same command again: it goes on with what was made.
    """
    if run.provider not in PREPARED:
        raise ArgumentError("provider", run.provider, f"one of {PREPARED}")
    if meeting is not None:
        _check_meeting(meeting, run)
    schema = origin.public_schema
    known = {} if schema is None else schema.settings
    config = config_of(run, schedule, extraction, **known)
    check_parties(config.parties, 2)
    columns = None if schema is None else len(schema.features)
    sizes = counts.sizes(config.parties, columns)
    if sizes is not None:
        rule = "with {records}, {held_out} and {columns}"
        check_left_out(rule, data=origin.data, data_dir=origin.data_dir)
    find(extraction.features or RAW, extraction.weights)
    if sizes is None and origin.title.startswith(("csv:", "parquet:")):
        raise ArgumentError(
            "data",
            origin.data,
            "a data set with sizes that are known to everybody, or npz:PATH",
            "This host has no table: give {records}, {held_out} and {columns}.",
        )
    if sizes is None:
        sizes, more = sizes_of(origin, extraction, config.parties)
        config = found_of(config, schedule, **more)
    config = config.resolved(records=sum(own.records for own in sizes))
    with quiet_unless_it_fails():
        from crypten_ext.run import preparation
    from extensions.cli import console

    with console.counted("tuple") as show:
        if config.provider == "parties":
            paths = preparation.prepare_together(config, sizes, out, show, meeting)
        else:
            paths = preparation.prepare(config, sizes, out, show)
    for path in paths:
        say(f"{path} {path.stat().st_size} bytes")


def _check_meeting(meeting: Meeting, run: Asked) -> None:
    """Checks that a party may make tuples there: with the provider "parties", each its own."""
    if run.provider != "parties":
        rule, advice = "without {provider=parties}", "A dealer writes all parties' files."
        raise ArgumentError("rank", meeting.rank, rule, advice, code="conflict")
    Whole(0, run.parties - 1).check("rank", meeting.rank)
    meeting.local(run.parties)


def _numbers(name: str, text: str, parties: int, least: int) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != parties or min(numbers) < least:
        allowed = f"{parties} whole numbers of at least {least}, one a party"
        example = ",".join(["900"] * parties)
        hint = f"Give {{{name}={example}}}, or set {{parties}}."
        raise ArgumentError(name, text, allowed, hint)
    return numbers
