"""The commands of `pea` about who takes part: a host's key, and the file that all have alike."""

from pathlib import Path
from typing import Annotated, cast

from extensions.checks import check_left_out, check_writable
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.printing import say
from extensions.transport import Federation, Identity, Member, Role, make, renew
from extensions.transport.identity import DAYS


def keys(
    out: Annotated[Path, Option(help="New file for the key and its certificate, with mode 0600.")],
    days: Annotated[float, Option(help="Days for which the certificate is valid.")] = DAYS,
    name: Annotated[str | None, Option(help="Name of this host for the others.")] = None,
    rotate: Annotated[Path | None, Option(help="Old key, which signs for the new one.")] = None,
) -> None:
    """Make this host's key, which stays on it, and print its certificate's fingerprint.

    Read the fingerprint to the others over the telephone: they enter it by `pea federation`.
    After --rotate they need no telephone: send them the signed file beside the new key.
    """
    check_writable("out", out)
    if name is not None and rotate is None:
        say(f"{name} {make(name, out, days).fingerprint}")
    elif rotate is not None and name is None:
        new, statement = renew(rotate, out, days)
        say(f"{new.name} {new.fingerprint}\nSend this file to the others: {statement}")
    else:
        raise ArgumentError("name, rotate", name or "", "{name} or {rotate}", code="either")


def federation(
    file: Annotated[Path, Option(help="The federation's TOML file.")],
    /,
    add: Annotated[str | None, Option(help="Name of a member to add; the file may be new.")] = None,
    role: Annotated[
        str | None,
        Option(help="Role of the member: party (the default), dealer, server or client."),
    ] = None,
    address: Annotated[
        str | None, Option(help="HOST:PORT where the member listens; leave it out for a client.")
    ] = None,
    fingerprint: Annotated[
        str | None,
        Option(help="Fingerprint of the member's certificate, as `pea keys` printed it there."),
    ] = None,
    key: Annotated[Path | None, Option(help="Key of this host, if it must be a member's.")] = None,
    rotate: Annotated[Path | None, Option(help="File that `pea keys --rotate` has signed.")] = None,
) -> None:
    """Show a federation, add a member or rotate its key; every host needs the same file.

    Parties have their ranks by their order. The digest, in the first line, is what to compare.
    """
    if add is None or fingerprint is None:
        said = {"add": add, "fingerprint": fingerprint, "role": role, "address": address}
        for name, value in said.items():
            if value is not None:
                raise ArgumentError(name, value, "{add} and {fingerprint}", code="needs")
    members = [] if add is not None and not file.exists() else [*Federation.read(file).members]
    found = Federation(members)
    if add is not None and fingerprint is not None:
        kind = cast(Role, role or "party")
        new = Member(name=add, role=kind, address=address or "", fingerprint=fingerprint)
        found = Federation([*members, new])
    if rotate is not None:
        check_left_out("with {rotate}", add=add)
        found = found.rotated(rotate)
    if key is not None:
        found.own(Identity.read(key))
    if add is not None or rotate is not None:
        check_writable("file", file)
        found.write(file)
    say(f"federation {found.digest.hex()}")
    for one in found.members:
        place = "" if found.rank_of(one) is None else f" {found.rank_of(one)}"
        say(f"{one.role}{place} {one.name} {one.address or '-'} {one.fingerprint}")
