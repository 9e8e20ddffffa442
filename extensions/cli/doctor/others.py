"""Whether the hosts of a federation reach each other, while `pea doctor` runs on each of them."""

import datetime
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from extensions.cli.doctor.machine import Finding
from extensions.errors import ArgumentError
from extensions.transport import Federation, Listener, Local, Member, RejectedError, connect_to
from extensions.transport.handshake import ATTEMPT, Admitted
from extensions.transport.identity import CertificateFacts
from extensions.transport.listener import listening

PURPOSE = "doctor"
_TIME = struct.Struct(">d")
_DAYS, _APART = 30, 60.0


def meetings(local: Local, federation: Path, seconds: float) -> Iterator[Finding]:
    """Yields what came of this host's key, its port, and of each other host that listens.

    Args:
        local: this host.
        federation: the file that all of them have.
        seconds: in which the others must come.
    """
    yield _of_key(local)
    own, others = local.member, [one for one in local.federation.members if one != local.member]
    called = [one for one in others if _calls(local.federation, own, one)]
    wanted = {one.name: one for one in others if _calls(local.federation, one, own)}
    if not own.address:
        yield from _called(local, called, seconds, federation)
        return
    try:
        with listening(local) as port, Listener(local, port, [PURPOSE], [PURPOSE]) as door:
            yield Finding("ports", "ok", f"{own.address} is open here")
            came: set[str] = set()
            door.hand_on(PURPOSE, lambda guest: _answer(guest, came))
            until = time.monotonic() + seconds
            yield from _called(local, called, seconds, federation)
            with door.change:
                left = max(0.0, until - time.monotonic())
                door.change.wait_for(lambda: {*wanted} <= came, left)
            for name in {*wanted} - came:
                text = f"{name} did not reach {own.address} within {seconds:g} s"
                advice = _there(wanted[name], federation, own.address)
                yield Finding("hosts", "fails", text, advice)
            if here := ", ".join(sorted({*wanted} & came)):
                yield Finding("hosts", "ok", f"reached by {here}")
    except ArgumentError as error:
        yield Finding("ports", "fails", str(error).rstrip("."))


def _calls(federation: Federation, one: Member, other: Member) -> bool:
    """Whether the first connects to the second when they meet for a run."""
    first, second = map(federation.rank_of, (one, other))
    if first is None:
        return one.role != "dealer" and other.role == "server"
    return other.role == "dealer" or (second is not None and second < first)


def _of_key(local: Local) -> Finding:
    path = local.identity.path
    facts = CertificateFacts.by(local.identity.certificate)
    left = (facts.ends - datetime.datetime.now(datetime.UTC)).days
    text = f"{path} is that of {local.member.name}, until {facts.ends:%Y-%m-%d}"
    advice = f"Type: pea keys --rotate {path} --out NEW.pem"
    if wrong := facts.untimely():
        return Finding("key", "fails", f"{path} {wrong}", f"Set the clock. {advice}")
    return Finding("key", "note" if left < _DAYS else "ok", text, advice if left < _DAYS else "")


def _called(
    local: Local, others: list[Member], seconds: float, federation: Path
) -> Iterator[Finding]:
    """Yields what came of calling each of them, all at a time."""
    with ThreadPoolExecutor(max(1, len(others))) as pool:
        yield from pool.map(lambda one: _call(local, one, seconds, federation), others)


def _call(local: Local, member: Member, seconds: float, federation: Path) -> Finding:
    who = f"{member.name} at {member.address}"
    try:
        with connect_to(local, member, PURPOSE, seconds=seconds).connection as connection:
            connection.settimeout(ATTEMPT)
            asked = time.monotonic()
            (theirs,) = _TIME.unpack(connection.recv(_TIME.size))
            apart = theirs - time.time() + (time.monotonic() - asked) / 2
    except RejectedError as error:
        return Finding("hosts", "fails", str(error), _there(member, federation))
    except (OSError, struct.error) as error:
        return Finding("hosts", "fails", str(error), _there(member, federation, member.address))
    clock = f"its clock is {apart:+.1f} s from ours"
    if abs(apart) > _APART:
        advice = "Set both clocks. Type on each: timedatectl set-ntp true"
        return Finding("hosts", "note", f"{who} answers; {clock}", advice)
    return Finding("hosts", "ok", f"{who} answers; {clock}")


def _there(member: Member, federation: Path, place: str = "") -> str:
    """What to type at another host, and which port to open."""
    port = f" and let connections to {place} through firewalls" if place else ""
    command = f"pea doctor --federation {federation.name} --key {member.name}.pem"
    return f"Run it on both at the same time{port}. Type there: {command}"


def _answer(guest: Admitted, came: set[str]) -> None:
    """Tells a member the time; called while the door is held."""
    came.add(guest.member.name)
    with suppress(OSError), guest.connection as connection:
        connection.settimeout(ATTEMPT)
        connection.sendall(_TIME.pack(time.time()))
