"""The file that all hosts have alike: who takes part, in which role, where, and how to know them.

A federation is known by its digest, which is of what the file says, not of how that is written.
Parties have their ranks by their order in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from extensions import durable
from extensions.checks import check_address, is_unspecified, literal
from extensions.errors import ArgumentError
from extensions.rules import check_fields
from extensions.transport.identity import Identity, as_toml, check_name, rotation

Role = Literal["party", "dealer", "server", "client"]
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A host of a federation.

    Attributes:
        name: as its certificate states it.
        role: party, dealer, server (of ABY3) or client.
        address: HOST:PORT where it listens; empty for a client, which does not.
        fingerprint: SHA-256 of its certificate, 64 hexadecimal digits; colons are left out.

    Raises:
        ArgumentError: one of them is none of that.
    """

    name: str
    role: Role
    address: str = ""
    fingerprint: str

    def __post_init__(self) -> None:
        check_name(self.name)
        check_fields(self)
        if self.role != "client":
            host, _ = check_address("address", self.address)
            if is_unspecified(host):
                allowed = "a place where the other members reach this one"
                advice = "Give its own name or address; it listens on all interfaces anyway."
                raise ArgumentError("address", self.address, allowed, advice)
        elif self.address:
            raise ArgumentError("address", self.address, "for a client", code="conflict")
        plain = str(self.fingerprint).replace(":", "").lower()
        if not _FINGERPRINT.fullmatch(plain):
            raise ArgumentError("fingerprint", self.fingerprint, "64 hexadecimal digits")
        object.__setattr__(self, "fingerprint", plain)


@dataclass(frozen=True)
class Federation:
    """All members of a federation.

    Raises:
        ArgumentError: two of them have the same name, fingerprint or address, however that is
            written, or are dealers.
    """

    members: Sequence[Member]

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        for field in ("name", "fingerprint", "address"):
            seen: set[Any] = set()
            for value in filter(None, (getattr(one, field) for one in self.members)):
                plain = _place(value) if field == "address" else value
                if plain in seen:
                    raise ArgumentError(field, value, "of a single member")
                seen.add(plain)
        if [one.role for one in self.members].count("dealer") > 1:
            raise ArgumentError("role", "dealer", "of a single member")

    @property
    def parties(self) -> list[Member]:
        """The parties, by rank."""
        return [one for one in self.members if one.role == "party"]

    @property
    def dealer(self) -> Member | None:
        """Who deals to the parties; None if nobody does."""
        return next((one for one in self.members if one.role == "dealer"), None)

    @property
    def digest(self) -> bytes:
        """SHA-256 of all that the members are."""
        said = [asdict(one) for one in self.members]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()

    def of(self, fingerprint: str) -> Member | None:
        """Returns the member with this certificate, None if there is none."""
        return next((one for one in self.members if one.fingerprint == fingerprint), None)

    def rank_of(self, member: Member) -> int | None:
        """Returns a party's rank; None for any other member."""
        names = [one.name for one in self.parties]
        return names.index(member.name) if member.name in names else None

    def own(self, identity: Identity) -> Member:
        """Returns the member that a host with this identity is.

        Raises:
            ArgumentError: it is none, or the file has its certificate under another name.
        """
        member = self.of(identity.fingerprint)
        if member is None or member.name != identity.name:
            listed = ", ".join(f"{one.name} {one.fingerprint}" for one in self.members)
            there = "is not in the file" if member is None else f"is {member.name} in the file"
            advice = f"Its certificate, {identity.name} {identity.fingerprint}, {there}."
            raise ArgumentError("key", str(identity.path), f"the key of one of {listed}", advice)
        return member

    def rotated(self, rotate: Path) -> Federation:
        """Returns the federation with a member's new fingerprint; raises as `rotation` does."""
        old, new = rotation(rotate, {one.fingerprint: one.name for one in self.members})
        marked = [(one, new if one.fingerprint == old else one.fingerprint) for one in self.members]
        return Federation([replace(one, fingerprint=mark) for one, mark in marked])

    @classmethod
    def read(cls, path: Path) -> Federation:
        """Returns what a file of `write` says.

        Raises:
            ArgumentError: it cannot be read, says something else, or members that cannot be.
        """
        try:
            found = tomllib.loads(path.read_text())
            rows = found.get("members")
            if set(found) != {"members"} or not isinstance(rows, list) or not rows:
                raise ValueError("It must have only [[members]].")
        except (OSError, ValueError, RecursionError) as error:
            allowed, advice = "a TOML file of `pea federation`", str(error)
            raise ArgumentError("federation", str(path), allowed, advice, code="file") from error
        return cls([_member(row, path) for row in rows])

    def write(self, path: Path) -> None:
        """The file holds these members, in their order."""
        rows = [f"[[members]]\n{as_toml(asdict(one))}" for one in self.members]
        with durable.write(path) as file:
            file.write("\n".join(rows).encode())


def _member(row: Any, path: Path) -> Member:
    names = {field.name for field in fields(Member)}
    if not isinstance(row, dict) or not {"name", "role", "fingerprint"} <= set(row) <= names:
        allowed = "a file of members with " + ", ".join(sorted(names))
        raise ArgumentError("federation", str(path), allowed, code="file")
    if wrong := [name for name, value in row.items() if not isinstance(value, str)]:
        raise ArgumentError(wrong[0], row[wrong[0]], "text in quotation marks", code="type")
    try:
        return Member(**row)
    except ArgumentError as error:
        error.hint = f"It is of {row['name']} in {path}; `pea federation` writes that file."
        raise


def _place(address: str) -> tuple[str, int]:
    """Returns host and port, the same for each way to write them."""
    host, port = check_address("address", address)
    return str(literal(host) or host.lower()), port
