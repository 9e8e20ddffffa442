"""What the process with ABY3's servers does for the conformance suite."""

import base64
import os
import pickle
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tfe_ext
from benchmarks.instruments.socket_diag import carried
from extensions.ring.fixed_point import Integers
from tests.conformance.arenas.recipes import RECIPES
from tests.helpers.tfe_tasks.session import assert_replicated
from tfe_ext.costs.cost import cost_of_graph
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.shares import Replicated, Share

if "PLAYERS" in os.environ:
    from tests.helpers.tfe_tasks.players import PROTOCOL
else:
    from tests.helpers.tfe_tasks.session import PROTOCOL

RUNS = 3
DEVICES = [server.device_name for server in PROTOCOL.servers]


def run(name: str, packed: str) -> str:
    """Runs a function of this module on packed arguments, and packs what it returns."""
    arguments = pickle.loads(base64.b64decode(packed))
    return base64.b64encode(pickle.dumps(globals()[name](**arguments))).decode()


def share(value: Integers) -> Replicated:
    """Returns uniform replicated shares of ring integers."""
    bound = 2**63
    draws = np.random.default_rng().integers(-bound, bound, (2, *np.shape(value)))
    summands = [value - draws.sum(0), *draws]
    parts = []
    for i, device in enumerate(DEVICES):
        for j in (i, (i + 1) % 3):
            with tf.device(device):
                parts.append(tf.identity(tf.constant(summands[j], tf.int64)))
    return Replicated(DEVICES, parts)


def reveal(share: Replicated) -> Integers:
    places = [device for device in DEVICES for _ in range(2)]
    assert [part.device for part in share.parts] == places
    parts = [part.numpy() for part in share.parts]
    assert_replicated([parts[0:2], parts[2:4], parts[4:6]])
    opened: Integers = np.asarray(np.sum([parts[0], parts[1], parts[3]], axis=0))
    return opened


def evaluate(
    recipe: str, inputs: Sequence[Integers], frac_bits: int, options: dict[str, Any]
) -> list[Integers]:
    """Returns the opened results of a recipe."""
    ring = ABY3Ring(PROTOCOL.ring.servers, frac_bits)
    shares = [share(np.asarray(value, dtype=np.int64)) for value in inputs]
    results = ring.replicate(RECIPES[recipe](ring, *shares, **options))
    return [reveal(result) for result in results]


def count(
    recipe: str, shapes: Sequence[tuple[int, ...]], frac_bits: int, options: dict[str, Any]
) -> tuple[int, int, int]:
    """Returns rounds, bytes and messages of a recipe; results stay in the form they come in."""
    ring = ABY3Ring(PROTOCOL.ring.servers, frac_bits)
    shares = [share(np.zeros(shape, dtype=np.int64)) for shape in shapes]

    def parts() -> list[tf.Tensor]:
        results: list[Share] = RECIPES[recipe](ring, *shares, **options)
        return [part for result in results for part in result.parts if part is not None]

    cost = tfe_ext.cost(parts)
    return cost.rounds, cost.bytes, cost.messages


def wire(
    recipe: str,
    shapes: Sequence[tuple[int, ...]],
    frac_bits: int,
    options: dict[str, Any],
    pids: Sequence[int],
) -> list[tuple[tuple[int, int], tuple[float, float]]]:
    """Returns what each server sends and receives by the graph's count, and by the kernel's."""
    ring = ABY3Ring(PROTOCOL.ring.servers, frac_bits)
    shares = [share(np.zeros(shape, dtype=np.int64)) for shape in shapes]

    def words() -> tf.Tensor:
        found = []
        for result in RECIPES[recipe](ring, *shares, **options):
            for part in (part for part in result.parts if part is not None):
                with tf.device(part.device):
                    found.append(tf.reshape(part, [-1])[0])
        return tf.add_n(found)

    traced = tf.function(words, autograph=False).get_concrete_function()
    counted = [(one.sent, one.received) for one in cost_of_graph(traced.graph).carried]
    traced().numpy()
    before = _settled(pids)
    for _ in range(RUNS):
        traced().numpy()
    after = _settled(pids)
    carried = [
        ((sent - first[0]) / RUNS, (received - first[1]) / RUNS)
        for first, (sent, received) in zip(before, after, strict=True)
    ]
    return list(zip(counted, carried, strict=True))


def _settled(pids: Sequence[int]) -> list[tuple[int, int]]:
    """Returns what the processes carried, once all that was sent is acknowledged."""
    while True:
        found = carried(pids)
        time.sleep(0.1)
        if carried(pids) == found:
            return found
