"""Whoever has no key of a federation, and what it says at a port: bytes that are no handshake."""

import os
import socket
from contextlib import suppress

import numpy as np

from extensions.transport import Local, Member
from extensions.transport.handshake_messages import Preamble
from tests.helpers.memory import private_memory
from tests.helpers.patience import PATIENCE

MOST_MEMORY = 16 << 20
"""Bytes that a crowd of any size may leave in a process, of which most are the allocator's."""
_WARM = 200


def visited_by(number: int, address: tuple[str, int], local: Local, member: Member) -> None:
    """So many strangers come one after another and say what is no handshake.

    Each is let go within its time, and together they leave no memory.

    Args:
        number: of strangers.
        address: at which a host of this process listens.
        local: the member whose preamble they alter.
        member: who listens there.
    """
    good = Preamble.of(local.federation, local.identity.certificate, member.fingerprint).pack()
    draws = np.random.default_rng(5)
    begin = 0
    for visit in range(number):
        if visit == _WARM:
            begin = private_memory(os.getpid())
        with socket.create_connection(address) as connection, suppress(OSError):
            connection.settimeout(PATIENCE)
            connection.sendall(malformed(good, draws))  # the port may close before it has read all
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert private_memory(os.getpid()) - begin < MOST_MEMORY


def malformed(good: bytes, draws) -> bytes:
    """Returns bytes that are no handshake: random, cut, altered, or good ones and then no TLS."""
    kind = draws.integers(4)
    if kind == 0:
        return draws.bytes(int(draws.integers(1, 300)))
    if kind == 1:
        return good[: int(draws.integers(1, len(good)))]
    if kind == 2:
        altered = bytearray(good)
        altered[int(draws.integers(len(good)))] ^= int(draws.integers(1, 256))
        return bytes(altered) + b"\0\0" + draws.bytes(int(draws.integers(0, 200)))
    return good + b"\0\0" + draws.bytes(int(draws.integers(1, 600)))
