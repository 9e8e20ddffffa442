"""What functions on shares cost in either host: rounds, bytes and time."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.instruments.child_process import in_child
from benchmarks.instruments.hosts import ABY3, CRYPTEN
from benchmarks.tables import BYTES
from extensions.privacy.randomness import DrawnAhead
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Ring, Share
from extensions.rules import one_of

HOSTS = (CRYPTEN, ABY3)
PARTIES = 3
BYTES_AND_DEALT = f"{BYTES}; dealt: the dealer's corrections to all parties together"
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
    crypten.cfg.encoder.precision_bits = frac_bits
    shares = []
    for value in values:
        zero = ArithmeticSharedTensor.PRZS(value.shape).share
        shares.append(zero + torch.from_numpy(value) if context.rank == 0 else zero)
    return CrypTenRing(frac_bits), shares


def owners_rows(context: Any, share: Share, values: Integers) -> Share:
    """Returns shared rows of which each party has an equal part of its own, as in training.

    They are masked once: each step takes them anew.
    """
    from crypten_ext.ring.factors import Factor

    blocks = np.array_split(values, context.world_size)
    return Factor.of_owners(share, [len(block) for block in blocks], blocks[context.rank])


def owners_rows_ahead(
    context: Any, share: Share, values: Integers, outputs: int | None, source: DrawnAhead
) -> Callable[[], Share]:
    """Returns what returns `owners_rows` for a step, as the steps of a run have them.

    Those of the next call are on their way then, and noise is drawn, while the step waits. Outputs
    are the columns of what they are multiplied with; None if they are not, and do not travel.
    """
    from crypten_ext.ring.exchange import meanwhile
    from crypten_ext.ring.tuples import source as tuples

    def begun() -> Share:
        rows = owners_rows(context, share, values)
        if outputs is not None:
            rows.mask(outputs, tuples())
            rows.travel()
        return rows

    following = begun()

    def take() -> Share:
        nonlocal following
        meanwhile(source.draw)
        taken, following = following, begun()
        return taken

    return take


def parties_cost(acts: Mapping[str, Act], times: int) -> dict[str, dict[str, Any]]:
    """Returns one party's rounds, bytes and seconds of each act; in all parties.

    "bytes" are sent to and received from the other parties. The dealer works ahead: "dealt" are, in
    place of its bytes, those of the corrections that an act uses.
    """
    from crypten_ext import dealer
    from crypten_ext.processes.meter import Meter

    from crypten import communicator

    world, found = communicator.get(), {}
    for name, act in acts.items():
        for _ in range(3):
            dealer.begin_step()
            act()
        world.barrier()
        meter, seconds, before = Meter(), [], dealer.corrected_bytes()
        for _ in range(times):
            started = time.perf_counter()
            dealer.begin_step()
            act()
            seconds.append(time.perf_counter() - started)
        dealt, rounds = dealer.corrected_bytes() - before, meter.read().rounds
        world.barrier()
        (carried,) = meter.read().carried
        found[name] = {
            "rounds": rounds // times,
            "bytes": carried.bytes / times,
            "dealt": dealt / times,
            "seconds": seconds,
        }
    return found


def aby3_ring(frac_bits: int, config: Any = None) -> Any:
    """Returns the ring of three servers: devices of this process, or where a config says."""
    import tfe_ext
    from tfe_ext.aby3.encoding import fixed64

    import tf_encrypted as tfe

    tfe.set_config(config or tfe_ext.local_config())
    prot = tfe_ext.ABY3(fixedpoint_config=fixed64(frac_bits))
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
    """Returns rounds, messages and bytes by the graph's count, and seconds of each act.

    An act has ended when this process has received a number of each server, which takes its shares
    of all results.
    """
    import tensorflow as tf

    from tfe_ext.costs.cost import cost_of_graph

    found = {}
    for name, act in acts.items():

        def words(act: Act = act) -> tf.Tensor:
            shares, sums = ring.replicate(act()), []
            for i, server in enumerate(ring.servers.devices):
                with tf.device(server):
                    own = [
                        tf.reshape(part, [-1])[0]
                        for share in shares
                        for place, part in zip(share.PLACES, share.parts, strict=True)
                        if place == i
                    ]
                    sums.append(tf.add_n(own))
            return tf.add_n(sums)

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
            "messages": cost.messages,
            "bytes": cost.traffic.mean,
            "largest": cost.traffic.largest,
            "dealt": 0.0,
            "seconds": seconds,
            "tracing": tracing,
        }
    return found


def measure_host(host: str, module: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns rounds, seconds and bytes a party, sent and received, of what a module runs.

    Its `in_crypten` runs in three parties, its `in_aby3` in a process of its own, since TensorFlow
    fixes its devices once. Bytes are what TCP carried in CrypTen, and what the graph counts in
    ABY3, as `over_parties` says.

    Raises:
        ArgumentError: a host that is none of `HOSTS`.
    """
    one_of(HOSTS).check("host", host)
    if host == ABY3:
        in_one: dict[str, dict[str, Any]] = in_child(f"{module}:in_aby3", **options)
        return in_one
    from crypten_ext.processes.launch import Parties

    with Parties(PARTIES, provider="dealer") as parties:
        found = parties.run(f"{module}:in_crypten", **options)
    return {name: over_parties([party[name] for party in found]) for name in found[0]}


def over_parties(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the first party's costs, but of bytes the mean and the "largest" of all parties."""
    each = [party["bytes"] for party in found]
    return {**found[0], "bytes": statistics.mean(each), "largest": max(each)}
