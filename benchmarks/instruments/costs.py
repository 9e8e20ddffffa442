"""What functions on shares cost in either host: rounds, bytes and time."""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.instruments.child_process import in_child
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Ring, Share

HOSTS = ("CrypTen", "ABY3")
PARTIES = 3
Act = Callable[[], Any]
"""A function of shares that were shared before; in ABY3 it returns the shares of its results."""


def shared_in_crypten(
    context: Any, values: Sequence[Integers], frac_bits: int
) -> tuple[Ring, list[Share]]:
    """Returns the ring and shares of party 0's values, with tuples from the dealer."""
    import torch

    import crypten_ext
    from crypten_ext.ring.crypten_ring import CrypTenRing

    import crypten
    from crypten.mpc.primitives import ArithmeticSharedTensor

    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.communicator.verbose = True
    crypten.cfg.encoder.precision_bits = frac_bits
    shares = []
    for value in values:
        zero = ArithmeticSharedTensor.PRZS(value.shape).share
        shares.append(zero + torch.from_numpy(value) if context.rank == 0 else zero)
    return CrypTenRing(frac_bits), shares


def parties_cost(acts: Mapping[str, Act], times: int) -> dict[str, dict[str, Any]]:
    """Returns one party's rounds, bytes by TCP's count and seconds of each act; in all parties.

    "opened" are the bytes of openings, sent and received, by CrypTen's count. The dealer works
    ahead: in place of its bytes, the corrections that an act uses are counted at the last party,
    which gets them.
    """
    from benchmarks.instruments.sockets import carried
    from crypten_ext import dealer
    from crypten_ext.world import traffic

    import crypten
    from crypten import communicator

    dealers = {int(os.environ[dealer.ADDRESS].rpartition(":")[2])}
    last = communicator.get().get_rank() == communicator.get().get_world_size() - 1

    def so_far() -> int:
        corrections = dealer.corrected_bytes() if last else 0
        return carried() - carried(dealers) + corrections

    found = {}
    for name, act in acts.items():
        for _ in range(3):
            dealer.begin_step()
            act()
        communicator.get().barrier()
        crypten.reset_communication_stats()
        before, seconds = so_far(), []
        for _ in range(times):
            started = time.perf_counter()
            dealer.begin_step()
            act()
            seconds.append(time.perf_counter() - started)
        rounds, opened = traffic()
        communicator.get().barrier()
        found[name] = {
            "rounds": rounds // times,
            "opened": opened / times,
            "bytes": (so_far() - before) / times,
            "seconds": seconds,
        }
    return found


def aby3_ring(frac_bits: int, config: Any = None) -> Any:
    """Returns the ring of three servers: devices of this process, or where a config says."""
    import tfe_ext

    import tf_encrypted as tfe

    tfe.set_config(config or tfe_ext.local_config())
    prot = tfe_ext.ABY3(fixedpoint_config=f"f{frac_bits}")
    tfe.set_protocol(prot)
    return prot.ring


def in_variables(ring: Any, values: Sequence[Integers]) -> Callable[[], list[Share]]:
    """Returns a function that returns shares of the values in the graph being traced."""
    from tfe_ext.ring.private_tensors import share_of

    import tf_encrypted as tfe

    given = [
        tfe.define_private_variable(np.ldexp(value.astype(np.float64), -ring.frac_bits))
        for value in values
    ]
    return lambda: [share_of(ring, value) for value in given]


def shared_in_aby3(
    values: Sequence[Integers], frac_bits: int
) -> tuple[Any, Callable[[], list[Share]]]:
    """Returns the ring, and what `in_variables` returns."""
    ring = aby3_ring(frac_bits)
    return ring, in_variables(ring, values)


def servers_cost(ring: Any, acts: Mapping[str, Act], times: int) -> dict[str, dict[str, Any]]:
    """Returns rounds and a server's bytes by the graph's count, and seconds of each act.

    An act has ended when this process has received a number of each server's share of each result.
    """
    import tensorflow as tf

    from tfe_ext.cost.cost import cost_of_graph

    found = {}
    for name, act in acts.items():

        def words(act: Act = act) -> tf.Tensor:
            taken = []
            for share in ring.replicate(act()):
                for place, part in zip(share.PLACES, share.parts, strict=True):
                    with tf.device(share.servers[place]):
                        taken.append(tf.reshape(part, [-1])[0])
            return tf.add_n(taken)

        started = time.perf_counter()
        traced = tf.function(words, autograph=False).get_concrete_function()
        tracing = time.perf_counter() - started
        cost = cost_of_graph(traced.graph)
        traced()
        seconds = []
        for _ in range(times):
            started = time.perf_counter()
            traced().numpy()
            seconds.append(time.perf_counter() - started)
        found[name] = {
            "rounds": cost.rounds,
            "bytes": 2 * cost.bytes / PARTIES,
            "seconds": seconds,
            "tracing": tracing,
        }
    return found


def measure_host(host: str, module: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns rounds, seconds and bytes a party, sent and received, of what a module runs.

    Its `in_crypten` runs in three parties, its `in_aby3` in a process of its own, since TensorFlow
    fixes its devices once. Bytes are the mean of the parties: what TCP carried in CrypTen,
    corrections included, and what the graph counts in ABY3.
    """
    if host == "ABY3":
        in_one: dict[str, dict[str, Any]] = in_child(f"{module}:in_aby3", **options)
        return in_one
    from crypten_ext.processes.launch import Parties

    with Parties(PARTIES, provider="dealer") as parties:
        found = parties.run(f"{module}:in_crypten", **options)
    return {
        name: {**own, "bytes": statistics.mean(party[name]["bytes"] for party in found)}
        for name, own in found[0].items()
    }
