"""1/sqrt(x) in ABY3: three players, each a process, and a client that waits for them."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import numpy as np
import tensorflow as tf

import tfe_ext
from benchmarks.instruments.hosts import ABY3
from benchmarks.instruments.players import local_players
from benchmarks.inverse_sqrt.points import batch_of, points
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER, Count
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


class HostSession:
    """Three servers that `pea players` runs, and this process as their client."""

    host = ABY3
    dealer_pid = None

    def __init__(self, frac_bits: int) -> None:
        self._frac_bits = frac_bits
        self._traced: dict[tuple[str, int], Any] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._players = stack.enter_context(local_players())
            tfe.set_config(self._players.config)
            tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config=PRECISION[self._frac_bits]))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def pids(self) -> list[int]:
        """The servers' process ids, in their order."""
        return self._players.pids

    def warm_up(self, method: str, batch: int) -> Count:
        """Returns the graph's longest chain of messages between servers, after two calls."""
        self.call(method, batch, 2)
        return Count(rounds=cost_of_graph(self._trace(method, batch).graph).rounds)

    def call(self, method: str, batch: int, calls: int) -> list[float]:
        """Returns the client's seconds of each call, until it knows that all servers have ended."""
        traced = self._trace(method, batch)
        ends = [time.perf_counter()]
        for _ in range(calls):
            traced().numpy()
            ends.append(time.perf_counter())
        return [float(seconds) for seconds in np.diff(ends)]

    def _trace(self, method: str, batch: int) -> Any:
        """Returns the graph that computes shares and sends the client one number of each."""
        if (method, batch) not in self._traced:
            x = tfe.define_private_variable(batch_of(self._frac_bits, batch))

            def act() -> tf.Tensor:
                y = METHODS[method](x)
                words = []
                for device, pair in zip(x.prot.ring.servers.devices, y.unwrapped, strict=True):
                    with tf.device(device):
                        words += [share.value[0] for share in pair]
                return tf.add_n(words)

            function = tf.function(act, autograph=False)
            self._traced[method, batch] = function.get_concrete_function()
        return self._traced[method, batch]
