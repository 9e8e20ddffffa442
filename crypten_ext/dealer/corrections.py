"""The corrections that a party receives: asked for one by one, or streamed ahead of need.

After a whole step the next one is expected to need the same tuples, and the dealer sends their
corrections without being asked. A correction is used only for the tuple that its tag names; those
of an outdated plan are dropped. Each party asks by itself: the dealer follows the first.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import torch

from crypten_ext.dealer import messages
from crypten_ext.dealer.connection import DEALER
from crypten_ext.dealer.messages import LONGEST_STEP, Tag
from crypten_ext.dealer.requests import Request
from extensions.errors import DealerLostError, PartyLostError, PeaError
from extensions.transport.reliable_channel import Hear, Lose, ReliableChannel

QUEUE_BYTES = 64 << 20
LATEST = 30.0
_LEAVING = 10.0
_LOOK = 1.0

Meet = Callable[[Hear, Lose], ReliableChannel]


class Corrections:
    """A party's end of its correspondence with the dealer; it holds `QUEUE_BYTES` ahead.

    A correction is overdue after `latest` seconds in which the dealer can be reached.

    Attributes:
        announced: number of tuples that were asked for one by one.
        post: the correspondence.
    """

    def __init__(self, meet: Meet, latest: float = LATEST) -> None:
        self._latest = latest
        self._plan: list[Request] = []
        self._position = 0
        self._recorded: list[Request] | None = None
        self._generation = 0
        self._queue: deque[tuple[Tag, memoryview]] = deque()
        self._ahead: deque[tuple[Tag, torch.Tensor]] = deque()
        self._queued = 0
        self._failure: PeaError | None = None
        self._changed = threading.Condition()
        self.announced = 0
        self.post = meet(self._hear, lambda _, lost: self._end(_lost(lost)))

    def take(self, sequence: int, request: Request, words: int) -> torch.Tensor:
        """Returns this party's `words` of the correction of the tuple with this number.

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
        if self._ahead and self._ahead[0][0] == due:
            return self._ahead.popleft()[1]
        return _joined([self._piece(due, size) for size in _sizes(words)])

    def take_ahead(self, sequence: int, request: Request, words: int) -> torch.Tensor | None:
        """Returns what `take` will for an expected tuple; None if it is not here yet.

        `take` returns it once more, unless that is for another plan. A tuple's correction is the
        same whatever plan it was sent for.
        """
        due = Tag(self._generation, sequence, request.digest)
        wanted = [(due, size) for size in _sizes(words)]
        with self._changed:
            first = list(itertools.islice(self._queue, len(wanted)))
            if [(tag, len(payload)) for tag, payload in first] != wanted:
                return None
            for _, payload in first:
                self._queue.popleft()
                self._queued -= len(payload)
            self._changed.notify_all()
        found = _joined([payload for _, payload in first])
        self._ahead.append((due, found))
        return found

    def _piece(self, due: Tag, size: int) -> memoryview:
        """Returns the next message's words if they are due and of `size` bytes."""
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

    def expected(self, count: int) -> Sequence[Request]:
        """Returns at most `count` tuples that are likely to be asked for next, in their order.

        After the last one of a step these are the first ones of the next step.
        """
        start = self._position if self._position < len(self._plan) else 0
        return self._plan[start : start + count]

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
        """Tells the dealer that no more is needed, and drops what it had sent ahead."""
        self._outdate()
        self.post.leave(DEALER, messages.BYE, _LEAVING)

    def _outdate(self) -> None:
        """Drops the corrections for all announcements so far, also those still to come.

        Another party may have made the next announcement before: its answer stays.
        """
        self._ahead.clear()
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
            self.post.send(DEALER, message)
        except PartyLostError as lost:
            raise self._failure or _lost(lost) from lost

    def _next(self) -> tuple[Tag, memoryview]:
        deadline = time.monotonic() + self._latest
        with self._changed:
            while not self._queue and self._failure is None:
                if self.post.is_away(DEALER):
                    deadline = time.monotonic() + self._latest
                left = deadline - time.monotonic()
                if left <= 0.0:
                    raise DealerLostError(f"sent no correction for {self._latest:g} s.")
                self._changed.wait(min(left, _LOOK))
            if self._failure is not None:
                raise self._failure
            tag, payload = self._queue.popleft()
            self._queued -= len(payload)
            self._changed.notify_all()
            return tag, payload

    def _hear(self, _: int, message: bytes | bytearray) -> None:
        try:
            tag, payload = messages.unpack(message)
        except ValueError as error:
            self._end(DealerLostError(f"{error}."))
            return
        if lost := messages.party_lost(tag, payload):
            self._end(lost)
        else:
            self._put(tag, payload)

    def _end(self, failure: PeaError) -> None:
        """There are no more corrections; the first reason counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _put(self, tag: Tag, payload: memoryview) -> None:
        """Queues a correction once there is room; drops it if a later plan replaced it."""
        with self._changed:
            while tag.generation >= self._generation and self._queued > QUEUE_BYTES:
                self._changed.wait()
            if tag.generation >= self._generation:
                self._queue.append((tag, payload))
                self._queued += len(payload)
                self._changed.notify_all()


def _sizes(words: int) -> list[int]:
    """Returns the bytes of each message with a tuple's corrections."""
    return [8 * (piece.stop - piece.start) for piece in messages.pieces(words)]


def _joined(payloads: Sequence[memoryview]) -> torch.Tensor:
    parts = [np.frombuffer(payload, dtype=np.int64) for payload in payloads]
    is_own = len(parts) == 1 and parts[0].flags.writeable
    return torch.from_numpy(parts[0] if is_own else np.concatenate(parts))


def _lost(lost: PartyLostError) -> DealerLostError:
    """Returns the error for a correspondence that ended so, which names the dealer as a party."""
    return DealerLostError(str(lost).removeprefix(f"party {lost.rank} ").rstrip(".") + ".")
