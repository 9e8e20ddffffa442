"""What functions on shares cost in either host: rounds, bytes and time."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from extensions.fixed_point import Integers
from extensions.ring import Ring, Share

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
    from crypten_ext.ring import CrypTenRing

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

    The dealer's work is done ahead, and its bytes are counted where they arrive.
    """
    from benchmarks.sockets import carried
    from crypten_ext import dealer
    from crypten_ext.training import traffic

    import crypten
    from crypten import communicator

    found = {}
    for name, act in acts.items():
        for _ in range(3):
            dealer.begin_step()
            act()
        communicator.get().barrier()
        crypten.reset_communication_stats()
        before, seconds = carried(), []
        for _ in range(times):
            started = time.perf_counter()
            dealer.begin_step()
            act()
            seconds.append(time.perf_counter() - started)
        rounds, _ = traffic()
        communicator.get().barrier()
        found[name] = {
            "rounds": rounds // times,
            "bytes": (carried() - before) / times,
            "seconds": seconds,
        }
    return found


def shared_in_aby3(
    values: Sequence[Integers], frac_bits: int
) -> tuple[Any, Callable[[], list[Share]]]:
    """Returns the ring, and what returns shares of the values in a graph that is being traced."""
    import tfe_ext
    from tfe_ext.private_tensors import share_of
    from tfe_ext.ring import ABY3Ring

    import tf_encrypted as tfe

    tfe.set_config(tfe_ext.local_config())
    prot = tfe_ext.ABY3(fixedpoint_config=f"f{frac_bits}")
    tfe.set_protocol(prot)
    given = [
        tfe.define_private_variable(np.ldexp(value.astype(np.float64), -frac_bits))
        for value in values
    ]
    return ABY3Ring(prot), lambda: [share_of(prot, value) for value in given]


def servers_cost(ring: Any, acts: Mapping[str, Act], times: int) -> dict[str, dict[str, Any]]:
    """Returns rounds and a server's bytes by the graph's count, and seconds of each act."""
    import tensorflow as tf

    from tfe_ext.cost import cost_of_graph

    found = {}
    for name, act in acts.items():

        def parts(act: Act = act) -> list[tf.Tensor]:
            return [part for share in ring.replicate(act()) for part in share.parts]

        started = time.perf_counter()
        traced = tf.function(parts, autograph=False).get_concrete_function()
        tracing = time.perf_counter() - started
        cost = cost_of_graph(traced.graph)
        traced()
        seconds = []
        for _ in range(times):
            started = time.perf_counter()
            [part.numpy() for part in traced()]
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
        return _in_child(module, options)
    from crypten_ext.launch import Parties

    with Parties(PARTIES, provider="dealer") as parties:
        found = parties.run(f"{module}:in_crypten", **options)
    return {
        name: {**own, "bytes": statistics.mean(party[name]["bytes"] for party in found)}
        for name, own in found[0].items()
    }


def _in_child(module: str, options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    code = f"import json, sys; from {module} import in_aby3; "
    code += "answer = in_aby3(**json.loads(sys.argv[1])); print(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(options)],
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer
