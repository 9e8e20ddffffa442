"""What a computation on ABY3 shares costs: rounds, messages and bytes, read from its graph."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.host import Carried, Traffic
from tfe_ext.costs.graph_walk import Message, Walk, canonical, peaks

import tf_encrypted as tfe
from tf_encrypted.protocol.protocol import TFETensor

ALLOCATED = 1.5
"""What a process takes over what tensors do."""
NODE = 11_000
"""Bytes that it takes for a node of the graph.

LeNet's steps of 0.12, 0.22 and 0.45 GB of tensors took players 0.34, 0.51 and 0.91 GB.
"""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Counts what the three servers send each other in one run.

    Attributes:
        rounds: the longest chain of messages, each of which depends on the one before. What is
            sent at the same time counts once, and a message that depends on no other, such as
            dealt randomness, is under way from the start.
        messages: number of tensors, each of which counts once for each server that gets it.
        sent: bytes that each server sends another one.
        numbers: execution numbers of random streams that are sent, of 8 bytes each. They are public
            and independent of all else; they count only here, in the next figure and in `carried`.
        rounds_from_start: the longest chain if all execution numbers are still to arrive when the
            run begins.
        outside: bytes between a server and anyone else, such as inputs that are shared within the
            function, and results that are revealed. They count only here and in `carried`.
        carried: everything that each server sends and receives, to and from the others, owners and
            the client.
        nodes: of the graph. TensorFlow prepares each before the first run, in about half a
            millisecond; a run itself costs less.
        memory: bytes, about, that a server's process takes at once besides records and model: its
            part of the graph's tensors, what the allocator adds, and the graph itself. None unless
            you ask for it.

    Examples:
        >>> x = tfe.define_private_input("owner", lambda: tf.ones((8, 4)))
        >>> found = tfe_ext.cost(lambda a: a * a, x)
        >>> found.messages, found.sent
        (9, (512, 768, 1024))
    """

    rounds: int
    messages: int
    sent: tuple[int, ...]
    numbers: int
    rounds_from_start: int
    outside: int
    carried: tuple[Carried, ...]
    nodes: int
    memory: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes that all servers send each other."""
        return sum(self.sent)

    @property
    def traffic(self) -> Traffic:
        """What a run takes of the three servers, as runs on any host tell it."""
        return Traffic(self.rounds, self.carried)

    def then(self, other: "Cost", times: int = 1) -> "Cost":
        """Returns the cost of a run and, after it, so many of another graph."""
        traffic = self.traffic.plus(other.traffic, times)
        return Cost(
            rounds=traffic.rounds,
            messages=self.messages + times * other.messages,
            sent=tuple(a + times * b for a, b in zip(self.sent, other.sent, strict=True)),
            numbers=self.numbers + times * other.numbers,
            rounds_from_start=self.rounds_from_start + times * other.rounds_from_start,
            outside=self.outside + times * other.outside,
            carried=tuple(traffic.carried),
            nodes=self.nodes + other.nodes,
        )


def cost(function: Callable[..., Any], *args: Any) -> Cost:
    """Returns rounds, messages and bytes of a function of private tensors, without running it.

    The function is traced, and the tensors are counted that pass from one server's device to
    another's in what its results depend on. Every server makes its own constants. In a
    conditional the dearer branch counts; a loop counts as often as it turns.

    Args:
        function: of TF Encrypted's tensors; it returns such tensors, or TensorFlow's, or lists or
            dictionaries of them.
        args: the tensors, of the current protocol and made outside any traced function; all other
            arguments are handed on.

    Raises:
        ArgumentError: the protocol has no three servers on devices of their own; or the graph
            has a message of unknown size, or messages in a loop of unknown length.

    Examples:
        >>> x = tfe.define_private_input("owner", lambda: tf.ones((8, 4)))
        >>> tfe_ext.cost(lambda a: a * a, x).rounds
        3
    """
    _servers()  # before anything is traced
    traced = tf.function(lambda: _native(function(*args)), autograph=False)
    graph = traced.get_concrete_function().graph
    return replace(cost_of_graph(graph), memory=memory_of_graph(graph))


def cost_of_graph(graph: Any) -> Cost:
    """Returns the `cost`, without memory, of a traced function without arguments."""
    servers, walk = _servers(), Walk()
    walk.function(graph)
    between = [each for each in walk.messages if {each.sender, each.receiver} <= {*servers}]
    values = [each for each in between if not each.is_number]
    return Cost(
        rounds=max((each.depth for each in values), default=0),
        messages=len(values),
        sent=tuple(_bytes(each for each in values if each.sender == own) for own in servers),
        numbers=len(between) - len(values),
        rounds_from_start=max((each.depth_from_start for each in between), default=0),
        outside=_bytes(
            e for e in walk.messages if (e.sender in servers) != (e.receiver in servers)
        ),
        carried=tuple(
            Carried(
                sent=_bytes(each for each in walk.messages if each.sender == own),
                received=_bytes(each for each in walk.messages if each.receiver == own),
            )
            for own in servers
        ),
        nodes=len(graph.get_operations()),
    )


def _bytes(messages: Iterable[Message]) -> int:
    return sum(each.size for each in messages)


def memory_of_graph(graph: Any) -> int:
    """Returns the memory of the `cost` of a traced function without arguments."""
    kept = peaks(graph)
    most = max(kept[server] for server in _servers())
    return round(ALLOCATED * most) + NODE * len(graph.get_operations())


def _servers() -> list[str]:
    servers = [canonical(s.device_name) for s in getattr(tfe.get_protocol(), "servers", ())]
    if len(set(servers)) != 3:
        raise ArgumentError(
            "protocol",
            tfe.get_protocol(),
            "ABY3 with three servers on devices of their own",
            "Call tfe.set_config(tfe_ext.local_config()), then tfe.set_protocol(tfe_ext.ABY3()).",
        )
    return servers


def _native(results: Any) -> list[tf.Tensor]:
    flat: list[tf.Tensor] = []
    for result in tf.nest.flatten(results):
        own = result.flatten_to_native() if isinstance(result, TFETensor) else result
        flat += tf.nest.flatten(own)
    return flat
