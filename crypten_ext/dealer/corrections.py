"""The corrections that a party receives: asked for one by one, or streamed ahead of need.

After a whole step the next one is expected to need the same tuples, and the dealer sends their
corrections without being asked. A correction is used only for the tuple that its tag names; those
of an outdated plan are dropped. All parties ask for the same, each on its own: the dealer follows
the first.
"""

import threading
import time
from collections import deque
from contextlib import suppress

import numpy as np
import torch

from crypten_ext.dealer import messages
from crypten_ext.dealer.connection import BrokenFrameError, Link
from crypten_ext.dealer.messages import LONGEST_STEP, Tag
from crypten_ext.dealer.requests import Request
from extensions.errors import DealerLostError, PeaError

QUEUE_BYTES = 64 << 20
LATEST = 30.0
_LEAVING = 10.0


class Corrections:
    """A party's end of its link, read by a thread that holds at most `QUEUE_BYTES` ahead.

    Args:
        link: to the dealer.
        latest: seconds after which a correction is overdue.

    Attributes:
        announced: number of tuples that were asked for one by one.
    """

    def __init__(self, link: Link, latest: float = LATEST) -> None:
        self._link = link
        self._latest = latest
        self._plan: list[Request] = []
        self._position = 0
        self._recorded: list[Request] | None = None
        self._generation = 0
        self._queue: deque[tuple[Tag, memoryview]] = deque()
        self._queued = 0
        self._failure: PeaError | None = None
        self._changed = threading.Condition()
        self.announced = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def take(self, sequence: int, request: Request, words: int) -> torch.Tensor:
        """Returns this party's `words` of the correction of the tuple that has this number.

        Raises:
            DealerLostError: they are late, or what came cannot be used.
            PartyLostError: the dealer ended because a party is lost.
        """
        if self._recorded is not None and len(self._recorded) <= LONGEST_STEP:
            self._recorded.append(request)
        if self._position < len(self._plan) and self._plan[self._position] == request:
            self._position += 1
        else:
            self._plan = []
            self.announced += 1
            self._announce(sequence, [request], plan=False)
        due = Tag(self._generation, sequence, request.digest)
        correction = np.empty(words, dtype=np.int64)
        for piece in messages.pieces(words):
            correction[piece] = np.frombuffer(self._piece(due, correction[piece].nbytes), np.int64)
        return torch.from_numpy(correction)

    def _piece(self, due: Tag, size: int) -> memoryview:
        """Returns the next message's words, so many bytes, if they are due."""
        tag, payload = self._next()
        if tag != due:
            raise DealerLostError(
                f"sent a correction for another tuple than number {due.sequence}."
            )
        if len(payload) != size:
            raise DealerLostError(
                f"sent a correction of {len(payload)} bytes where {size} were due."
            )
        return payload

    def begin_step(self, sequence: int) -> None:
        """A step begins; if one was just completed, the next are expected to ask for the same."""
        recorded, self._recorded = self._recorded, []
        if not recorded or len(recorded) > LONGEST_STEP:
            return
        if self._plan and self._position == len(self._plan):
            self._position = 0
            self._say(messages.STEP)
        else:
            self._plan, self._position = recorded, 0
            self._announce(sequence, recorded, plan=True)

    def finish(self) -> None:
        """The dealer is told that no more is needed, and what it had sent ahead is dropped.

        All of it is read first: closing with unread messages would reset the connection, and the
        goodbye would be lost.
        """
        self._outdate()
        with suppress(OSError):
            self._link.send(messages.BYE)
            self._reader.join(_LEAVING)
        self._link.close()

    def _outdate(self) -> None:
        """The corrections for all announcements so far are dropped, also those still to come.

        Another party may have made the next announcement before: its answer stays.
        """
        with self._changed:
            self._generation += 1
            self._queue = deque(one for one in self._queue if one[0].generation >= self._generation)
            self._queued = sum(len(payload) for _, payload in self._queue)
            self._changed.notify_all()

    def _announce(self, sequence: int, requests: list[Request], *, plan: bool) -> None:
        self._outdate()
        self._say(messages.announcement(self._generation, sequence, requests, plan=plan))

    def _say(self, message: bytes) -> None:
        try:
            self._link.send(message)
        except OSError as error:
            raise DealerLostError(f"cannot be reached any more: {error}.") from error

    def _next(self) -> tuple[Tag, memoryview]:
        deadline = time.monotonic() + self._latest
        with self._changed:
            while not self._queue and self._failure is None:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise DealerLostError(f"sent no correction for {self._latest:g} s.")
            if self._failure is not None:
                raise self._failure
            tag, payload = self._queue.popleft()
            self._queued -= len(payload)
            self._changed.notify_all()
            return tag, payload

    def _read(self) -> None:
        reason = "closed its connection."
        lost = None
        try:
            while lost is None and (message := self._link.receive()):
                tag, payload = messages.unpack(message)
                lost = messages.party_lost(tag, payload)
                if lost is None:
                    self._put(tag, payload)
        except (BrokenFrameError, ValueError) as error:
            reason = f"{error}."
        except OSError as error:
            reason = f"cannot be reached any more: {error}."
        with self._changed:
            self._failure = lost or DealerLostError(reason)
            self._changed.notify_all()

    def _put(self, tag: Tag, payload: memoryview) -> None:
        """The correction is queued once there is room, or dropped if a later plan replaced it."""
        with self._changed:
            while tag.generation >= self._generation and self._queued > QUEUE_BYTES:
                self._changed.wait()
            if tag.generation >= self._generation:
                self._queue.append((tag, payload))
                self._queued += len(payload)
                self._changed.notify_all()
