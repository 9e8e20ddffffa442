"""A dealer for processes of one user on this machine, who need no federation file of their own.

The dealer makes a federation for its run, with a key for each party, in the user's state folder.
Parties find theirs by the dealer's address; nobody else can read the keys.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extensions import durable
from extensions.checks import check_address, literal
from extensions.errors import ArgumentError
from extensions.runs.processes.credentials import FILE, keys_in, place_of
from extensions.transport import Federation, Identity, Local, RejectedError

ADDRESS = "DEALER_ADDRESS"
"""Environment variable that tells a party where such a dealer is, as HOST:PORT."""
_ELSEWHERE = (
    "Between hosts, the dealer is a member of the federation. Type `pea keys` on its host, and add "
    "it as a dealer to every host's file with `pea federation`. Then start `pea dealer` with "
    "{federation} and {key}. Parties meet at tls://FILE, each with its key; a script calls "
    "crypten_ext.transport.init(FILE, KEY)."
)


def check_loopback(name: str, address: str) -> tuple[str, int]:
    """Returns the loopback address and the port of HOST:PORT.

    Raises ArgumentError if other hosts may reach that place; it says what to type instead.
    """
    host, port = check_address(name, address)
    found = literal("127.0.0.1" if host.lower() == "localhost" else host)
    if found is None or not found.is_loopback:
        raise ArgumentError(name, address, "127.0.0.1:PORT, on this machine", _ELSEWHERE)
    return str(found), port


@contextmanager
def serving_locally(listener: socket.socket, parties: int) -> Iterator[Local]:
    """Yields the end of a dealer whose parties find theirs by its address until the block ends."""
    folder = _folder_of("bind", place_of(listener))
    with durable.locked(folder):
        _empty(folder)  # of one that was killed
        try:
            own = keys_in(folder, [*[None] * parties, listener], dealer=True)
            yield Local.read(folder / FILE, own[-1].path)
        finally:
            _empty(folder)


def local_end_at(address: str, rank: int, parties: int) -> Local:
    """Returns a party's end of its connection with a dealer that this user started here.

    Raises:
        ConnectionRefusedError: there is no such dealer, or not yet.
        RejectedError: it deals for another number of parties.
    """
    folder = _folder_of("dealer", address)
    try:
        if not _is_locked(folder):  # a dealer that was killed leaves its files
            raise FileNotFoundError
        federation = Federation.read(folder / FILE)
        if (number := len(federation.parties)) != parties:
            raise RejectedError(f"It deals for {number} parties, not for {parties}.")
        return Local(Identity.read(folder / f"{rank}.pem"), federation)
    except (FileNotFoundError, ArgumentError) as error:  # or its files are being written
        advice = "Start it as this user, on this machine, by `pea dealer`."
        raise ConnectionRefusedError(f"nobody deals at {address}. {advice}") from error


def _folder_of(name: str, address: str) -> Path:
    host, port = check_loopback(name, address)
    return durable.state_folder() / "dealers" / f"{socket.gethostname()}-{host}-{port}"


def _is_locked(folder: Path) -> bool:
    """Whether a process is in the block of `durable.locked` for this folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
