"""How one run is made, whatever it computes: files, limits, and where its parties meet."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from extensions.checks import check_address, check_seconds
from extensions.errors import ArgumentError
from extensions.runs.checkpoints import CheckpointOptions

_PLACES = "tcp://HOST:PORT of party 0, or file://PATH"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run reads and writes beside records and report.

    Attributes:
        save: folder for the model: model.npz if it is opened, else each party's shares.
        timeout: seconds after which a run on this machine is given up.
        material: what `pea prepare` wrote, instead of a running dealer: the folder of all parties'
            files, or the file of the one party that runs here.
        players: file of the players that `pea players` runs, where a host has such a thing.
        checkpoints: where and how often each party keeps its shares, or None.
        ledgers: what was spent on the records of each party that runs here, or None for one; empty
            if none is kept.

    Raises:
        ArgumentError: a time that is not positive.
    """

    save: Path | None = None
    timeout: float = 3600.0
    material: Path | None = None
    players: Path | None = None
    checkpoints: CheckpointOptions | None = None
    ledgers: Sequence[Path | None] = ()

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout)

    @property
    def kept(self) -> Path | None:
        """Folder of the checkpoints, or None."""
        return None if self.checkpoints is None else self.checkpoints.folder


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where one party that was started by hand meets the others.

    Attributes:
        rank: of this party, 0..parties - 1.
        rendezvous: tcp://HOST:PORT of party 0, or file://PATH on one machine.
        join_timeout: seconds within which all parties must have joined.
        dealer: HOST:PORT of the dealer; None without one.

    Raises:
        ArgumentError: a place that is none, or a time that is not positive.
    """

    rank: int
    rendezvous: str
    join_timeout: float = 300.0
    dealer: str | None = None

    def __post_init__(self) -> None:
        check_seconds("join_timeout", self.join_timeout)
        scheme, _, place = self.rendezvous.partition("://")
        if scheme not in ("tcp", "file") or not place:
            raise ArgumentError("rendezvous", self.rendezvous, _PLACES)
        if scheme == "tcp":
            try:
                check_address("rendezvous", place)
            except ArgumentError:
                advice = "A port is in 1..65535."
                raise ArgumentError("rendezvous", self.rendezvous, _PLACES, advice) from None
        if self.dealer is not None:
            check_address("dealer", self.dealer)
