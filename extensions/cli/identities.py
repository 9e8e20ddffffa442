"""The commands of `pea` about who takes part: a host's key, and the file that all have alike."""

from pathlib import Path
from typing import Annotated, cast

from extensions.checks import check_writable
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.printing import say
from extensions.transport import Federation, Identity, Member, Role, make
from extensions.transport.identity import DAYS


def keys(
    name: Annotated[str, Option(help="Name of this host for the others.")],
    out: Annotated[Path, Option(help="New file for the key and its certificate, with mode 0600.")],
    days: Annotated[float, Option(help="Days for which the certificate is valid.")] = DAYS,
) -> None:
    """Make this host's key, which stays on it, and print its certificate's fingerprint.

    Read the fingerprint to the others over the telephone: they enter it by `pea federation`.
    """
    check_writable("out", out)
    say(f"{name} {make(name, out, days).fingerprint}")


def federation(
    file: Annotated[Path, Option(help="The federation's TOML file.")],
    /,
    add: Annotated[str | None, Option(help="Name of a member to add; the file may be new.")] = None,
    role: Annotated[
        str | None,
        Option(help="Role of the member: party (the default), dealer, server or client."),
    ] = None,
    address: Annotated[
        str | None, Option(help="HOST:PORT where the member listens; none for a client.")
    ] = None,
    fingerprint: Annotated[
        str | None,
        Option(help="Fingerprint of the member's certificate, as `pea keys` printed it there."),
    ] = None,
    key: Annotated[
        Path | None, Option(help="Key of this host, to check that it belongs to a member.")
    ] = None,
) -> None:
    """Show and check the members of a federation, or add one; every host needs the same file.

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
        check_writable("file", file)
        kind = cast(Role, role or "party")
        new = Member(name=add, role=kind, address=address or "", fingerprint=fingerprint)
        found = Federation([*members, new])
    if key is not None:
        found.own(Identity.read(key))
    if add is not None:
        found.write(file)
    say(f"federation {found.digest.hex()}")
    for one in found.members:
        place = "" if found.rank_of(one) is None else f" {found.rank_of(one)}"
        say(f"{one.role}{place} {one.name} {one.address or '-'} {one.fingerprint}")
