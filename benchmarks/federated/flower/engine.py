"""An engine of Flower in one process: it carries messages of a ServerApp to ClientApps and back.

    python -m benchmarks.federated.flower.engine '[{"way": ..., "clients": ..., ...}, ...]'

prints, as JSON, what each setting's rounds took; run by a Python that has flwr. Every message is
encoded as Flower sends it, counted, and decoded again. Clients keep their contexts, and nothing
else, from message to message.
"""

import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Encoded
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity

from benchmarks.federated.flower import ways
from benchmarks.federated.flower.setting import OURS, Setting
from benchmarks.federated.scale.large import deal_keys

LOG = logging.getLogger(__name__)
RUN = 1
RAISED, GONE = ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.NODE_UNAVAILABLE
SERVER = 1
FIRST = 1000
"""The number of client 0's node; the others follow."""


class Loop(Grid):
    """Answers messages as they are pushed.

    Args:
        clients: by node, its app and its context.
        answers: whether a node still answers its nth message, from 0.

    Attributes:
        client_seconds: processor time of all clients, with decoding and encoding.
        bytes: of the messages to and from each node.
    """

    def __init__(
        self,
        clients: dict[int, tuple[ClientApp, Context]],
        answers: Callable[[int, int], bool] = lambda node, place: True,
    ) -> None:
        self._clients, self._answers = clients, answers
        self._turns: Counter[int] = Counter()
        self._replies: dict[str, Message] = {}
        self._run: Any = SimpleNamespace(run_id=RUN)
        self.client_seconds = 0.0
        self.bytes: Counter[int] = Counter()

    def set_run(self, run: Any) -> None:
        """Takes what Flower knows of the run."""
        self._run = run

    @property
    def run(self) -> Any:
        """What Flower knows of the run."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Returns a message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Returns all nodes."""
        return list(self._clients)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Returns all nodes, as connected."""
        return [NodeInfo(node_id=node) for node in self._clients]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Has the messages answered, and returns their names."""
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        node = message.metadata.dst_node_id
        name = f"message {sum(self._turns.values())}"
        message.metadata.__dict__["_message_id"] = name
        place = self._turns[node]
        self._turns[node] += 1
        data = message_to_proto(message).SerializeToString()
        self.bytes[node] += len(data)
        if not self._answers(node, place):
            gone = Error(code=GONE, reason="the node is gone")
            self._replies[name] = Message(gone, reply_to=message)
            return name
        began = time.process_time()
        app, context = self._clients[node]
        asked = message_from_proto(Encoded.FromString(data))
        TaskIdentity.node_id = node
        try:
            answer = app(asked, context)
        except Exception as error:  # Flower answers that an app failed, whatever it raised
            LOG.warning("node %d: %r", node, error)
            answer = Message(Error(code=RAISED, reason=repr(error)), reply_to=asked)
        TaskIdentity.node_id = SERVER
        answer.metadata.__dict__["_message_id"] = f"answer to {name}"
        answered = message_to_proto(answer).SerializeToString()
        self.client_seconds += time.process_time() - began
        self.bytes[node] += len(answered)
        self._replies[name] = message_from_proto(Encoded.FromString(answered))
        return name

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Returns the answers, each once."""
        return [self._replies.pop(name) for name in list(message_ids) if name in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Returns the answers to messages."""
        return self.pull_messages(self.push_messages(messages))


def context(node: int, config: dict[str, Any], run_config: dict[str, Any]) -> Context:
    """Returns a context in which nothing is kept yet."""
    return Context(
        run_id=RUN, node_id=node, node_config=config, state=RecordDict(), run_config=run_config
    )


def serve(app: ServerApp, grid: Loop, run_config: dict[str, Any]) -> float:
    """Runs a server, and returns the processor time that it took without its clients."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, SERVER, RUN
    began = time.process_time()
    app(grid=grid, context=context(0, {}, run_config))
    return time.process_time() - began - grid.client_seconds


def perform(setting: Setting) -> dict[str, Any]:
    """Returns what the rounds took: seconds of processor time and bytes, by round."""
    with TemporaryDirectory() as folder:
        deal_keys(Path(folder), setting.clients)
        app = ways.CLIENTS[setting.way](setting)
        nodes = {FIRST + client: client for client in range(setting.clients)}
        config = {
            node: {ways.PART: client, "fl-peers": folder, "fl-key": f"{folder}/{client}"}
            for node, client in nodes.items()
        }
        greetings = int(setting.way == OURS)
        answers = lambda node, place: (  # noqa: E731
            nodes[node] >= setting.lost or place < greetings + setting.stage
        )
        grid = Loop({node: (app, context(node, config[node], {})) for node in nodes}, answers)
        course = ways.Course()
        server = ways.SERVERS[setting.way](setting, course)
        seconds = serve(server, grid, {"fl-peers": folder})
    stayed = [node for node, client in nodes.items() if client >= setting.lost]
    return {
        "client": grid.client_seconds / setting.clients / setting.rounds,
        "server": seconds / setting.rounds,
        "bytes": sum(grid.bytes[node] for node in stayed) / len(stayed) / setting.rounds,
        "included": [len(each) for each in course.included],
        "error": ways.error(setting, course) if any(course.included) else None,
    }


def main(text: str) -> None:
    """Prints what the settings' rounds took; the first is run once more, before, to warm up."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    settings = [Setting(**each) for each in json.loads(text)]
    for way in dict.fromkeys(setting.way for setting in settings):
        perform(replace(settings[0], way=way, lost=0))
    print(json.dumps([perform(setting) for setting in settings]))


if __name__ == "__main__":
    main(sys.argv[1])
