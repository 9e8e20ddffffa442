"""One step of DPSGD on a linear model in both hosts, beside plain SGD and materialised clipping."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.materialised import materialised_step
from benchmarks.report import publish
from extensions.dpsgd import dpsgd_step
from extensions.fixed_point import Integers, encode
from extensions.network import Network, backward, forward
from extensions.randomness import SystemSource
from extensions.ring import Ring, Share
from extensions.step_plan import StepPlan

FRAC_BITS = 20
PARTIES = 3
PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
KINDS = (PLAIN, GHOST, MATERIALISED)
HOSTS = ("CrypTen", "ABY3")
MB = 1e6


def inputs(batch: int, features: int, classes: int) -> list[Integers]:
    """Returns rows of norm below 1, their squared norms, targets, a weight and a bias."""
    draws = np.random.default_rng(0)
    x = encode(draws.uniform(-1.0, 1.0, (batch, features)) / np.sqrt(features), FRAC_BITS)
    y = encode(np.eye(classes)[np.arange(batch) % classes], FRAC_BITS)
    weight = encode(draws.uniform(-0.1, 0.1, (classes, features)), FRAC_BITS)
    return [x, (x * x).sum(1), y, weight, np.zeros(classes, dtype=np.int64)]


def step_of(ring: Ring, kind: str, shares: Sequence[Share]) -> tuple[Share, Share]:
    """Returns the weight and the bias after one step, from the rows to the update.

    All kinds share the forward pass, the sigmoid and the update; owners supply the norms of their
    rows, which only ghost clipping can use.
    """
    x, norms, y, weight, bias = shares
    (rows, features), classes = x.shape, y.shape[1]
    network = Network(widths=(features, classes), activations=(), has_bias=(True,))
    plan = StepPlan(
        frac_bits=FRAC_BITS,
        layers=network.shapes(max_feature_norm=1.0, max_weight_norm=32.0),
        rows=rows,
        learning_rate=1.0,
        expected_batch_size=float(rows),
        max_grad_norm=1.0,
        noise_multiplier=1.0,
        parties=PARTIES,
        private=kind != PLAIN,
    )
    logits, kept = forward(ring, network, [(weight, bias)], x)
    given = norms if kind == GHOST else None
    gradients = backward(ring, network, [(weight, bias)], kept, logits, y, given)
    step = materialised_step if kind == MATERIALISED else dpsgd_step
    ((of_weight, of_bias),) = step(ring, gradients, plan, SystemSource())
    return weight - of_weight, bias - of_bias


def in_crypten(
    context: Any, *, steps: int, kinds: Sequence[str], sizes: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Returns, for each kind, one party's rounds, bytes by TCP's count and seconds; in all parties.

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

        for _ in range(3):
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
    *, steps: int, kinds: Sequence[str], sizes: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Returns, for each kind, rounds and bytes by the graph's count, and seconds."""
    import tensorflow as tf

    import tfe_ext
    from tfe_ext.cost import cost_of_graph
    from tfe_ext.private_tensors import share_of
    from tfe_ext.ring import ABY3Ring

    import tf_encrypted as tfe

    tfe.set_config(tfe_ext.local_config())
    prot = tfe_ext.ABY3(fixedpoint_config="f20")
    tfe.set_protocol(prot)
    ring = ABY3Ring(prot)
    given = [
        tfe.define_private_variable(np.ldexp(value.astype(np.float64), -FRAC_BITS))
        for value in inputs(**sizes)
    ]
    found = {}
    for kind in kinds:

        def act(kind: str = kind) -> list[tf.Tensor]:
            shares = [share_of(prot, value) for value in given]
            after = ring.replicate(step_of(ring, kind, shares))
            return [part for share in after for part in share.parts]

        started = time.perf_counter()
        traced = tf.function(act, autograph=False).get_concrete_function()
        tracing = time.perf_counter() - started
        cost = cost_of_graph(traced.graph)
        traced()
        seconds = []
        for _ in range(steps):
            started = time.perf_counter()
            [part.numpy() for part in traced()]
            seconds.append(time.perf_counter() - started)
        found[kind] = {
            "rounds": cost.rounds,
            "bytes": 2 * cost.bytes / PARTIES,
            "seconds": seconds,
            "tracing": tracing,
        }
    return found


def measure(
    host: str, steps: int, sizes: dict[str, int], kinds: Sequence[str] = KINDS
) -> dict[str, dict[str, Any]]:
    """Returns, for each kind, rounds, seconds of each step and bytes a party, sent and received.

    Bytes are the mean of the parties: what TCP carried in CrypTen, corrections included, and what
    the graph counts in ABY3.
    """
    options: dict[str, Any] = {"steps": steps, "kinds": list(kinds), "sizes": sizes}
    if host == "ABY3":
        return _in_child(options)
    from crypten_ext.launch import Parties

    with Parties(PARTIES, provider="dealer") as parties:
        found = parties.run("benchmarks.dpsgd_step:in_crypten", **options)
    return {
        kind: {**found[0][kind], "bytes": statistics.mean(party[kind]["bytes"] for party in found)}
        for kind in kinds
    }


def _in_child(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns `in_aby3`, from a process of its own, since TensorFlow fixes its devices once."""
    code = "import json, sys; from benchmarks.dpsgd_step import in_aby3; "
    code += "answer = in_aby3(**json.loads(sys.argv[1])); print(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(options)],
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        stdout=subprocess.PIPE,
        check=True,
    )
    answer: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main(
    batch: int = 128,
    features: int = 512,
    classes: int = 10,
    steps: Annotated[int, typer.Option(help="Timed steps of each kind.")] = 5,
) -> None:
    """One step on three parties' shares: rounds, bytes and time, in CrypTen and in ABY3."""
    rows = []
    sizes = {"batch": batch, "features": features, "classes": classes}
    for host in HOSTS:
        found = measure(host, steps, sizes)
        plain = found[PLAIN]
        for kind in KINDS:
            own = found[kind]
            rows.append(
                {
                    "host": host,
                    "step": kind,
                    "rounds": own["rounds"],
                    "MB/party": own["bytes"] / MB,
                    "bytes / plain": own["bytes"] / plain["bytes"],
                    "median ms": 1000 * statistics.median(own["seconds"]),
                    "time / plain": statistics.median(own["seconds"])
                    / statistics.median(plain["seconds"]),
                }
            )
    publish(
        "dpsgd-step-3-parties",
        rows,
        parties=PARTIES,
        frac_bits=FRAC_BITS,
        steps=steps,
        network="loopback for CrypTen, one process for ABY3",
        bytes="a party's mean, sent and received; TCP's count in CrypTen, the graph's in ABY3",
        **sizes,
    )
