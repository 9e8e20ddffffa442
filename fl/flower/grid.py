"""Flower's grid as the post of a run."""

import time
from collections.abc import Iterable
from itertools import islice

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fl.remote.post import Answer, Post

RECORD, FIELD = "fl", "data"
"""Where a message of Flower has the bytes of ours."""
POLL = 0.25
AT_ONCE = 32
"""Messages that are in this process's memory at a time: each may hold a model."""


class GridPost(Post):
    """Sends every request as a query, whose reply is the answer.

    Args:
        grid: of the run.
        ttl: seconds after which Flower drops a request that nobody answered.
    """

    def __init__(self, grid: Grid, ttl: float = 3600.0) -> None:
        self._grid = grid
        self._ttl = ttl
        self._owners: dict[int, bytes] = {}
        self._asked: dict[str, int] = {}

    def nodes(self) -> Iterable[int]:
        found = list(self._grid.get_nodes())
        self._owners = {node.node_id: bytes(node.public_key) for node in found}
        return list(self._owners)

    def owner(self, node: int) -> bytes | None:
        return self._owners.get(node) or None

    def send(self, requests: Iterable[tuple[int, bytes]]) -> None:
        waiting = iter(requests)
        while sent := list(islice(waiting, AT_ONCE)):
            messages = [
                Message(content(data), node, MessageType.QUERY, ttl=self._ttl)
                for node, data in sent
            ]
            for (node, _), name in zip(sent, self._grid.push_messages(messages), strict=True):
                if name:
                    self._asked[name] = node

    def collect(self, wait: float) -> Iterable[Answer]:
        until, found = time.monotonic() + wait, False
        while not found:
            for answers in self._pulled():
                found = found or bool(answers)
                yield from (answer for answer in answers if answer is not None)
            if time.monotonic() >= until:
                return
            if not found:
                time.sleep(POLL)

    def _pulled(self) -> Iterable[list[Answer | None]]:
        """Yields what came, few of the replies that are asked for at a time."""
        names = iter(list(self._asked))
        while some := list(islice(names, AT_ONCE)):
            yield [self._answer(reply) for reply in self._grid.pull_messages(some)]

    def _answer(self, reply: Message) -> Answer | None:
        node = self._asked.pop(reply.metadata.reply_to_message_id, None)
        if node is None:
            return None
        if reply.has_error():
            reason = f"its node failed: {reply.error.reason or reply.error.code}"
            return Answer(node, None, reason)
        data = carried(reply.content)
        return Answer(node, data, "its answer has no bytes of fl")


def content(data: bytes) -> RecordDict:
    """Returns bytes as the content of a message."""
    return RecordDict({RECORD: ConfigRecord({FIELD: data})})


def carried(records: RecordDict) -> bytes | None:
    """Returns the bytes in a content; None if it has none."""
    record = records.get(RECORD)
    data = record.get(FIELD) if isinstance(record, ConfigRecord) else None
    return data if isinstance(data, bytes) else None
