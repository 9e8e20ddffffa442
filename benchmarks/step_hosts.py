"""What one step of `benchmarks.linear_step` costs in CrypTen and in ABY3, at one size or many."""

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.child import in_child
from benchmarks.linear_step import FRAC_BITS, KINDS, Sizes, inputs, step_of
from benchmarks.spu import SpuParties

CRYPTEN, ABY3, SPU = "CrypTen", "ABY3", "SPU ABY3"
HOSTS = (CRYPTEN, ABY3, SPU)
SERVERS = 3
WARM_UP = 3
"""Steps after which CrypTen's dealer is as far ahead as it will ever be."""

Found = dict[str, dict[str, Any]]
"""For each kind of step: "rounds" or None, "bytes" a party, in and out, "seconds" of each."""


def in_crypten(context: Any, *, steps: int, kinds: Sequence[str], sizes: Sizes) -> Found:
    """Returns what each kind costs one party, in bytes by TCP's count; runs in all parties.

    The dealer's work is done ahead, and its bytes are counted where they arrive.
    """
    import torch

    import crypten_ext
    from benchmarks.sockets import carried
    from crypten_ext import dealer
    from crypten_ext.ring import CrypTenRing
    from crypten_ext.training import traffic

    import crypten
    from crypten import communicator
    from crypten.mpc.primitives import ArithmeticSharedTensor

    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.communicator.verbose = True
    ring, shares = CrypTenRing(FRAC_BITS), []
    for value in inputs(**sizes):
        zero = ArithmeticSharedTensor.PRZS(value.shape).share
        shares.append(zero + torch.from_numpy(value) if context.rank == 0 else zero)
    found = {}
    for kind in kinds:

        def act(kind: str = kind) -> None:
            dealer.begin_step()
            step_of(ring, kind, shares)

        for _ in range(WARM_UP):
            act()
        communicator.get().barrier()
        crypten.reset_communication_stats()
        before, seconds = carried(), []
        for _ in range(steps):
            started = time.perf_counter()
            act()
            seconds.append(time.perf_counter() - started)
        rounds, _ = traffic()
        communicator.get().barrier()
        found[kind] = {
            "rounds": rounds // steps,
            "bytes": (carried() - before) / steps,
            "seconds": seconds,
        }
    return found


def in_aby3(
    *, steps: int, kinds: Sequence[str], points: Sequence[Sizes], processes: bool
) -> list[Found]:
    """Returns what each kind costs at each size, by the graph's count.

    Args:
        steps: to time, each until the servers have all shares of its result.
        kinds: of step.
        points: sizes.
        processes: whether the servers are processes of their own, or devices of this one.
    """
    import tfe_ext
    from benchmarks.players import local_players

    if not processes:
        return _in_aby3(tfe_ext.local_config(), steps, kinds, points)
    with local_players() as players:
        return _in_aby3(players.config, steps, kinds, points)


def _in_aby3(config: Any, steps: int, kinds: Sequence[str], points: Sequence[Sizes]) -> list[Found]:
    import tensorflow as tf

    import tfe_ext
    from tfe_ext.cost import cost_of_graph
    from tfe_ext.private_tensors import share_of
    from tfe_ext.ring import ABY3Ring

    import tf_encrypted as tfe

    tfe.set_config(config)
    prot = tfe_ext.ABY3(fixedpoint_config=f"f{FRAC_BITS}")
    tfe.set_protocol(prot)
    ring = ABY3Ring(prot)

    def measured(kind: str, given: list[Any]) -> dict[str, Any]:
        def act() -> tf.Tensor:
            shares = [share_of(prot, value) for value in given]
            words = []
            for share in ring.replicate(step_of(ring, kind, shares)):
                for place, part in zip(share.PLACES, share.parts, strict=True):
                    with tf.device(share.servers[place]):
                        words.append(tf.reshape(part, [-1])[0])
            return tf.add_n(words)

        traced = tf.function(act, autograph=False).get_concrete_function()
        cost = cost_of_graph(traced.graph)
        traced()
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            traced().numpy()
            seconds.append(time.perf_counter() - started)
        return {
            "rounds": cost.rounds,
            "bytes": 2 * cost.bytes / SERVERS,
            "seconds": seconds,
        }

    found = []
    for sizes in points:
        given = [
            tfe.define_private_variable(np.ldexp(value.astype(np.float64), -FRAC_BITS))
            for value in inputs(**sizes)
        ]
        found.append({kind: measured(kind, given) for kind in kinds})
    return found


def in_spu(
    *, steps: int, kinds: Sequence[str], points: Sequence[Sizes], python: str
) -> list[Found]:
    """Returns what each kind costs in SecretFlow SPU's ABY3, by TCP's count; no rounds are told.

    Args:
        steps: to time.
        kinds: of step.
        points: sizes.
        python: an interpreter that has SPU.
    """
    found = []
    with SpuParties(python, "benchmarks.spu_step") as parties:
        for sizes in points:
            answers = {
                kind: parties.run(kind=kind, steps=steps, sizes=sizes, sigma=1.0) for kind in kinds
            }
            found.append({kind: _mean(own) for kind, own in answers.items()})
    return found


def _mean(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = found[0]
    return {
        "rounds": first.get("rounds"),
        "bytes": statistics.mean(one["bytes"] for one in found),
        "seconds": first["seconds"],
    }


def sweep(
    host: str,
    steps: int,
    points: Sequence[Sizes],
    kinds: Sequence[str] = KINDS,
    *,
    parties: int = SERVERS,
    processes: bool = False,
    spu_python: str = sys.executable,
) -> list[Found]:
    """Returns what each kind of step costs at each size, in one set of processes.

    Bytes are the mean of the parties: what TCP carried in CrypTen, corrections included, and in
    SPU; what the graph counts in ABY3.

    Args:
        host: one of `HOSTS`.
        steps: to time.
        points: sizes.
        kinds: of step.
        parties: of CrypTen; the others have three.
        processes: whether ABY3's servers are processes of their own.
        spu_python: an interpreter that has SPU.
    """
    options: dict[str, Any] = {"steps": steps, "kinds": list(kinds)}
    if host == ABY3:
        task = "benchmarks.step_hosts:in_aby3"
        in_one: list[Found] = in_child(task, points=points, processes=processes, **options)
        return in_one
    if host == SPU:
        return in_spu(points=points, python=spu_python, **options)
    from crypten_ext.launch import Parties

    with Parties(parties, provider="dealer") as pool:
        task = "benchmarks.step_hosts:in_crypten"
        runs = [pool.run(task, sizes=sizes, **options) for sizes in points]
    return [{kind: _mean([one[kind] for one in found]) for kind in kinds} for found in runs]


def measure(
    host: str, steps: int, sizes: Sizes, kinds: Sequence[str] = KINDS, **options: Any
) -> Found:
    """Returns what each kind of step costs three parties at one size, as `sweep` does."""
    return sweep(host, steps, [sizes], kinds, **options)[0]
