"""1/sqrt(x) in ABY3: three players, each a process, and a client that waits for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import tensorflow as tf

import tfe_ext
from benchmarks.instruments.hosts import ABY3
from benchmarks.instruments.players import local_players
from benchmarks.instruments.spu_party import timed
from benchmarks.inverse_sqrt.points import batch_of, points
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER, Session
from extensions.protocols.paper.inverse_sqrt_paper import inverse_sqrt_paper
from tfe_ext.costs.cost import cost_of_graph
from tfe_ext.ring.private_tensors import share_of, tensor_of

import tf_encrypted as tfe

PRECISION = {16: "low", 20: "f20"}


def _paper(x: Any) -> Any:
    ring = x.prot.ring
    return tensor_of(x.prot, inverse_sqrt_paper(ring, share_of(ring, x)))


METHODS: dict[str, Callable[[Any], Any]] = {
    OURS: lambda x: tfe.inverse_sqrt(x),
    PAPER: _paper,
    INV_SQRT: lambda x: tfe.inv_sqrt(x),
    "inv_sqrt(precision=2)": lambda x: tfe.inv_sqrt(x, precision=2),
}


def values(*, frac_bits: int, count: int) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`, on three devices of this process."""
    tfe.set_config(tfe_ext.local_config())
    tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config=PRECISION[frac_bits]))
    x = tfe.define_private_variable(points(frac_bits, count))

    def opened(method: Callable[[Any], Any]) -> tf.Tensor:
        return tf.function(lambda: method(x).reveal().to_native(), autograph=False)()

    return {name: opened(method).numpy().tolist() for name, method in METHODS.items()}


@contextmanager
def session(*, frac_bits: int) -> Iterator[Session]:
    """Yields three servers that `pea players` runs, and this process as their client."""
    with local_players() as players:
        tfe.set_config(players.config)
        tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config=PRECISION[frac_bits]))
        traced = cache(partial(_traced, frac_bits))

        def call(method: str, batch: int, calls: int) -> list[float]:
            """The client's seconds, until it knows that all servers have ended."""
            act = traced(method, batch)
            return timed(lambda: act().numpy(), calls)

        def warm_up(method: str, batch: int) -> dict[str, int]:
            call(method, batch, 2)
            return {"rounds": cost_of_graph(traced(method, batch).graph).rounds}

        yield Session(host=ABY3, pids=players.pids, warm_up=warm_up, call=call)


def _traced(frac_bits: int, method: str, batch: int) -> Any:
    """Returns the graph that computes shares and sends the client one number of each."""
    x = tfe.define_private_variable(batch_of(frac_bits, batch))

    def act() -> tf.Tensor:
        y = METHODS[method](x)
        words = []
        for device, pair in zip(x.prot.ring.servers.devices, y.unwrapped, strict=True):
            with tf.device(device):
                words += [share.value[0] for share in pair]
        return tf.add_n(words)

    return tf.function(act, autograph=False).get_concrete_function()
