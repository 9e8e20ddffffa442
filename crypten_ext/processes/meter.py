"""What this party sends and receives: rounds, and bytes by the kernel's count."""

from __future__ import annotations

import struct

from crypten_ext import dealer
from crypten_ext.processes.store import default_store
from crypten_ext.transport import current
from crypten_ext.world import exchange
from extensions.protocols.agreement import exchange_bytes
from extensions.protocols.host import Carried, Traffic
from extensions.transport.kernel import Connection, carried, connections

import crypten
from crypten import communicator

_PORTS = struct.Struct("HH")


class Meter:
    """The traffic of this party from here on; all parties make theirs at the same time.

    A connection of this process is one with a party if that party says that it has its other end.
    The store at which torch's processes meet is left out. Dealt is what the dealer's connection
    carries, and with CrypTen's third party what goes to and comes from it.

    Guarantees:
        What was sent is exact: headers of messages and records are in it. What was received can
        lack, or be ahead by, what is on its way: at most an opening.

    Cost:
        Over gloo two rounds, which do not count; each reading takes some 4 microseconds a
        connection.

    Edge cases:
        Only rounds are told on systems other than Linux, and where the parties' ports are
        translated on the way.
    """

    def __init__(self) -> None:
        crypten.cfg.communicator.verbose = True  # or CrypTen counts no rounds
        third_party = communicator.get().ttp_initialized
        self._mesh = current()
        if self._mesh is not None:
            others = self._mesh.others
            self._third_party = [len(others)] if third_party else []
            self._parties = [one for one in others if one not in self._third_party]
        else:
            self._find_connections(third_party)
        self._counts = any(self._carried(self._parties))
        self._start = self._now()

    def _find_connections(self, third_party: bool) -> None:
        _, store = default_store()
        own = [one for one in connections() if store not in (one.near, one.far)]
        theirs = _of_others(own)
        with_parties = [one for one in own if (one.near, one.far) in theirs]
        self._parties = [one.descriptor for one in with_parties]
        rest = [one for one in own if one not in with_parties] if third_party else []
        self._third_party = [one.descriptor for one in rest]

    def read(self) -> Traffic:
        """Returns what was sent and received so far."""
        return self._now().plus(self._start, times=-1)

    def _now(self) -> Traffic:
        rounds = int(communicator.get().get_communication_stats()["rounds"])
        if not self._counts:
            return Traffic(rounds)
        dealt = sum(self._carried(self._third_party)) + sum(dealer.carried())
        return Traffic(rounds, [Carried(*self._carried(self._parties), dealt)])

    def _carried(self, ends: list[int]) -> tuple[int, int]:
        """Bytes by ranks, or by descriptors without a mesh."""
        return carried(ends) if self._mesh is None else self._mesh.carried(ends)


def _of_others(own: list[Connection]) -> set[tuple[int, int]]:
    """Returns the ports, as this end has them, of all connections of which others have an end."""
    ports = [(one.near, one.far) for one in own] or [(0, 0)]
    said = exchange_bytes(exchange, [b"".join(_PORTS.pack(*pair) for pair in ports)])
    del said[communicator.get().get_rank()]
    return {(far, near) for message in said for near, far in _PORTS.iter_unpack(message)}
