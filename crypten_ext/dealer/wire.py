"""The connection between one party and the dealer: agreed keys, encrypted and authenticated frames.

Keys come from X25519 by HKDF, one for each direction and one for the tuples. The public values are
not authenticated: somebody who can alter messages while a run starts can take the dealer's place.
"""

import socket
import struct
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from crypten_ext.masks.key_agreement import KeyPair
from extensions.errors import ArgumentError

MAGIC = b"dealer 1"
LARGEST_FRAME = 1 << 30
_HELLO = struct.Struct(f">{len(MAGIC)}sHH32s")
_WELCOME = struct.Struct(f">{len(MAGIC)}s32s")
_LENGTH = struct.Struct(">Q")
_PATIENCE = 10.0
_FAREWELL = 5.0
_VANISHED = {
    "TCP_KEEPIDLE": 10,
    "TCP_KEEPINTVL": 5,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 600_000,
}
"""When a connection counts as lost: seconds without an answer, milliseconds with unsent words."""


class BrokenFrameError(Exception):
    """A frame ends early, is altered, or is not a frame; the message says which."""


class Link:
    """A connection whose frames are AES-256-GCM, numbered in each direction."""

    def __init__(self, connection: socket.socket, sending: bytes, receiving: bytes) -> None:
        self._connection = connection
        self._sending, self._receiving = AESGCM(sending), AESGCM(receiving)
        self._sent = self._received = 0

    def fileno(self) -> int:
        """The connection's file descriptor."""
        return self._connection.fileno()

    def send(self, message: bytes) -> None:
        """The message is on its way; blocks while the other side does not read."""
        sealed = self._sending.encrypt(self._sent.to_bytes(12, "big"), message, None)
        if len(sealed) > LARGEST_FRAME:
            raise ArgumentError("message", f"{len(sealed)} bytes", f"at most {LARGEST_FRAME} bytes")
        self._sent += 1
        self._connection.sendall(_LENGTH.pack(len(sealed)))
        self._connection.sendall(sealed)

    def receive(self) -> bytes:
        """Returns the next message; empty when the other side closed between two messages.

        Raises:
            BrokenFrameError: it closed within one, or altered, repeated or left out one.
        """
        header = _read(self._connection, _LENGTH.size)
        if not header:
            return b""
        (length,) = _LENGTH.unpack(header)
        if length > LARGEST_FRAME:
            raise BrokenFrameError(f"announced a message of {length} bytes")
        sealed = _read(self._connection, length)
        if not sealed:
            raise BrokenFrameError("closed its connection within a message")
        try:
            message = self._receiving.decrypt(self._received.to_bytes(12, "big"), sealed, None)
        except InvalidTag:
            raise BrokenFrameError("sent a message that was altered on its way") from None
        self._received += 1
        return message

    def has_ended(self) -> bool:
        """Whether the other side has closed; asked only when there is something to read."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def send_last(self, message: bytes) -> None:
        """The message is sent if the other side reads it within seconds; nothing may follow it."""
        with suppress(OSError):
            self._connection.settimeout(_FAREWELL)
            self.send(message)

    def close(self) -> None:
        """Both directions are closed."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


@dataclass(frozen=True)
class Keys:
    """What one party and the dealer share."""

    tuples: bytes
    to_party: bytes
    to_dealer: bytes


def connect(address: str, rank: int, parties: int, patience: float) -> tuple[Link, bytes]:
    """Returns a party's link to the dealer, and the key of its tuples.

    Raises:
        OSError: nobody answers at the address for `patience` seconds.
        BrokenFrameError: whoever answers is no dealer, or refuses.
    """
    connection = _dial(parse_address(address), patience)
    connection.settimeout(patience)
    own = KeyPair()
    public = own.public_bytes
    connection.sendall(_HELLO.pack(MAGIC, rank, parties, public))
    answer = _read(connection, _WELCOME.size)
    magic, theirs = _WELCOME.unpack(answer) if answer else (b"", b"")
    if magic != MAGIC:
        connection.close()
        raise BrokenFrameError(f"refused party {rank} of {parties}")
    keys = _agree(own, theirs, f"{rank} of {parties}", public + theirs)
    connection.settimeout(None)
    return Link(connection, keys.to_dealer, keys.to_party), keys.tuples


def accept(
    connection: socket.socket, parties: int, taken: Container[int]
) -> tuple[int, bytes, Link, bytes] | None:
    """Returns rank, public value, link and tuple key of whoever connected; None if refused.

    Args:
        connection: freshly accepted.
        parties: number of parties.
        taken: ranks that are connected already.
    """
    _prepare(connection)
    connection.settimeout(_PATIENCE)
    hello = b""
    with suppress(OSError, BrokenFrameError):
        hello = _read(connection, _HELLO.size)
    magic, rank, expected, theirs = _HELLO.unpack(hello) if hello else (b"", 0, 0, b"")
    if magic != MAGIC or expected != parties or rank >= parties or rank in taken:
        connection.close()
        return None
    own = KeyPair()
    public = own.public_bytes
    connection.sendall(_WELCOME.pack(MAGIC, public))
    keys = _agree(own, theirs, f"{rank} of {parties}", theirs + public)
    connection.settimeout(None)
    return rank, theirs, Link(connection, keys.to_party, keys.to_dealer), keys.tuples


def parse_address(address: str) -> tuple[str, int]:
    """Returns host and port of "HOST:PORT"."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ArgumentError("address", address, "HOST:PORT")
    return host.strip("[]"), int(port)


def _agree(own: KeyPair, theirs: bytes, who: str, publics: bytes) -> Keys:
    uses = ("tuples", "to party", "to dealer")
    return Keys(*(own.agree(theirs, f"dealer {use} {who} {publics.hex()}") for use in uses))


def _dial(address: tuple[str, int], patience: float) -> socket.socket:
    deadline = time.monotonic() + patience
    while True:
        try:
            connection = socket.create_connection(address, timeout=_PATIENCE)
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.2)
        else:
            _prepare(connection)
            return connection


def _prepare(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _VANISHED.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read(connection: socket.socket, size: int) -> bytes:
    """Returns `size` bytes; empty if the other side closed before the first of them."""
    buffer = bytearray(size)
    view, filled = memoryview(buffer), 0
    while filled < size:
        count = connection.recv_into(view[filled:])
        if not count and filled:
            raise BrokenFrameError("closed its connection within a message")
        if not count:
            return b""
        filled += count
    return bytes(buffer)
