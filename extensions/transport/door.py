"""Where other hosts come in: one open port, behind which only members of the federation stay."""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from typing import Self

from extensions.errors import PeaError
from extensions.transport.federation import Member
from extensions.transport.handshake import ATTEMPT, Admitted, Local, answer
from extensions.transport.hello import NO_RUN, MalformedError

VISITORS = 64
"""Connections in their handshake at a time: the oldest leaves for the newest."""
_REMEMBERED = 20
_BREATHER = 0.05


class Door:
    """Takes connections until the `with` block ends; each handshake has a thread of its own.

    Args:
        local: this end.
        listener: where everybody connects; it is closed in the end.
        purposes: of the connections that are taken.
        open_ended: those of them that belong to no run.

    Guarantees:
        no connection keeps another waiting. One without a key of the federation costs at most one
        handshake, `ATTEMPT` seconds and some kilobytes, and `VISITORS` are in at a time.
    """

    def __init__(
        self,
        local: Local,
        listener: socket.socket,
        purposes: Collection[str],
        open_ended: Collection[str] = (),
    ) -> None:
        self._local, self._listener = local, listener
        self._purposes, self._open_ended = purposes, open_ended
        self._run = b""
        self._visitors: OrderedDict[socket.socket, None] = OrderedDict()
        self._arrived: dict[tuple[str, str], Admitted] = {}
        self._refused: OrderedDict[str, None] = OrderedDict()
        self._change = threading.Condition()
        self._is_open = True
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._change:
            self._is_open = False
            self._change.notify_all()
            left = [*self._visitors, *(one.connection for one in self._arrived.values())]
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for connection in left:
            connection.close()

    def begin(self, run: bytes) -> None:
        """Connections must belong to this run; those that came before it was known waited."""
        with self._change:
            self._run = run
            self._change.notify_all()

    def take(self, member: Member, purpose: str, seconds: float) -> Admitted:
        """Returns the newest connection of a member for a purpose, once it is there.

        Raises:
            TimeoutError: it did not come in time; who was refused meanwhile is told.
        """
        key = (member.name, purpose)
        with self._change:
            if self._change.wait_for(lambda: key in self._arrived, seconds):
                return self._arrived.pop(key)
            refused = "".join(f" {each}" for each in self._refused)
        raise TimeoutError(f"{member.name} did not come within {seconds:g} s.{refused}")

    @property
    def refused(self) -> list[str]:
        """Why the latest connections came to nothing."""
        with self._change:
            return [*self._refused]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if not self._is_open:
                    return
                time.sleep(_BREATHER)  # no descriptor is free, or whoever came has gone
                continue
            with self._change:
                if not self._is_open:
                    connection.close()
                    return
                self._visitors[connection] = None
                oldest = next(iter(self._visitors))
                if len(self._visitors) > VISITORS:
                    del self._visitors[oldest]
                    with suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)
            threading.Thread(target=self._attend, args=(connection,), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        admitted, reason = None, "an unexpected error"
        try:
            admitted = answer(self._local, connection, self._purposes, self._run_of, ATTEMPT)
        except (PeaError, OSError, MalformedError) as error:
            reason = str(error)
        finally:
            with self._change:
                self._visitors.pop(connection, None)
                self._settle(admitted, reason)
                self._change.notify_all()

    def _settle(self, admitted: Admitted | None, reason: str) -> None:
        if admitted is None:
            self._refused[reason] = None
            while len(self._refused) > _REMEMBERED:
                self._refused.popitem(last=False)
            return
        if not self._is_open:
            admitted.connection.close()
            return
        key = (admitted.member.name, admitted.purpose)
        if key in self._arrived:
            self._arrived[key].connection.close()
        self._arrived[key] = admitted

    def _run_of(self, purpose: str, seconds: float) -> bytes:
        if purpose in self._open_ended:
            return NO_RUN
        with self._change:
            if not self._change.wait_for(lambda: self._run or not self._is_open, seconds):
                raise TimeoutError("came before the run was known")
            return self._run or NO_RUN
