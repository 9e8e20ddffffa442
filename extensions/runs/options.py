"""How one run is made, whatever it computes: files, limits, and where its parties meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from extensions.checks import check_address, check_left_out, check_seconds, check_together
from extensions.errors import ArgumentError
from extensions.options import Writes
from extensions.runs.checkpoints import CheckpointOptions

if TYPE_CHECKING:  # else imported where it is used: help needs no cryptography
    from extensions.transport import Local

Transport = Literal["tls", "gloo"]
"""What carries the messages of CrypTen's parties: our own TLS 1.3, or torch's gloo in the clear."""
_PLACES = "tls://PATH of the federation, tcp://HOST:PORT of party 0, or file://PATH"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run reads and writes beside records and report.

    Attributes:
        save: folder for the model: model.npz if it is opened, else each party's shares; with
            players, a folder at each of them.
        timeout: seconds after which a run on this machine ends.
        material: instead of a running dealer, what `pea prepare` wrote: the folder of all parties'
            files, or the file of the one party that runs here.
        players: file of the players that `pea players` runs, for a host that has players.
        federation: file of `pea federation`, to reach players on other hosts by TLS.
        key: this client's file of `pea keys`, with a federation.
        checkpoints: where and how often each party keeps its shares, or None.
        transport: transport between CrypTen's parties: tls (TLS 1.3 between identities), or gloo
            (in the clear).
        ledgers: what was spent on the records of each party that runs here, or None for one; empty
            if none is kept.

    Raises:
        ArgumentError: a time that is not positive, or a federation without key or players.
    """

    save: Annotated[Path | None, Writes(inside=("party-*.npz", "model.npz"))] = None
    timeout: float = 3600.0
    material: Path | None = None
    players: Path | None = None
    federation: Path | None = None
    key: Path | None = None
    checkpoints: CheckpointOptions | None = None
    transport: Transport = "tls"
    ledgers: Sequence[Path | None] = ()

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)
        if self.federation is not None and self.players is None:
            raise ArgumentError("players", None, "with {federation}", code="missing")
        check_together("federation", self.federation, "key", self.key)

    @property
    def kept(self) -> Path | None:
        """Folder of the checkpoints, or None."""
        return None if self.checkpoints is None else self.checkpoints.folder


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where one party that was started by hand meets the others.

    Attributes:
        rank: rank of this party, 0..parties - 1.
        rendezvous: meeting place: tls://PATH of the federation's file, by default in the working
            folder. Or, without TLS, tcp://HOST:PORT of party 0, or file://PATH on one machine.
        join_timeout: seconds to wait until all parties have joined.
        dealer: 127.0.0.1:PORT of this user's dealer; with tls:// the federation names the dealer.
        key: this party's file of `pea keys`, with tls://.

    Raises:
        ArgumentError: a place that is none, a time that is not positive, or a key without tls://.
    """

    rank: int
    rendezvous: str = "tls://federation.toml"
    join_timeout: float = 300.0
    dealer: str | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        check_seconds("join_timeout", self.join_timeout)
        scheme, _, place = self.rendezvous.partition("://")
        if scheme not in ("tls", "tcp", "file") or not place:
            raise ArgumentError("rendezvous", self.rendezvous, _PLACES)
        if (self.key is None) == (scheme == "tls"):
            if self.key is None:
                raise ArgumentError("key", None, "with {rendezvous=tls://PATH}", code="missing")
            check_left_out("except with {rendezvous=tls://PATH}", key=self.key)
        if scheme == "tcp":
            try:
                check_address("rendezvous", place)
            except ArgumentError:
                advice = "A port is in 1..65535."
                raise ArgumentError("rendezvous", self.rendezvous, _PLACES, advice) from None
        if self.dealer is not None:
            check_address("dealer", self.dealer)
            if self.key is not None:
                allowed = "with {rendezvous=tls://PATH}, whose federation names the dealer"
                check_left_out(allowed, dealer=self.dealer)

    @property
    def has_dealer(self) -> bool:
        """Whether somebody is named who deals while the run goes on."""
        if self.key is None:
            return self.dealer is not None
        from extensions.transport import Federation

        return Federation.read(self._federation).dealer is not None

    @property
    def _federation(self) -> Path:
        return Path(self.rendezvous.partition("://")[2])

    def local(self, parties: int) -> Local | None:
        """Returns this end of all connections of the federation; None without one."""
        if self.key is None:
            return None
        from extensions.transport import Local

        found = Local.read(self._federation, self.key)
        if found.rank != self.rank:
            allowed = f"{found.rank}, the rank of {found.member.name}"
            raise ArgumentError("rank", self.rank, allowed, f"Its key is {self.key}.")
        if (number := len(found.federation.parties)) != parties:
            allowed = f"{number}, the federation's number of parties"
            raise ArgumentError("world_size", parties, allowed)
        return found
