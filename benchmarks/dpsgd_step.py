"""One step of DPSGD on a linear model in both hosts, beside plain SGD and materialised clipping."""

import statistics
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.hosts import (
    HOSTS,
    PARTIES,
    measure_host,
    parties_cost,
    servers_cost,
    shared_in_aby3,
    shared_in_crypten,
)
from benchmarks.materialised import materialised_step
from benchmarks.report import publish
from extensions.dpsgd import dpsgd_step
from extensions.fixed_point import Integers, encode
from extensions.network import Network, backward, forward
from extensions.randomness import SystemSource
from extensions.ring import Ring, Share
from extensions.step_plan import StepPlan

FRAC_BITS = 20
PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
KINDS = (PLAIN, GHOST, MATERIALISED)
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
    """Returns, for each kind, what `hosts.parties_cost` counts; in all parties."""
    ring, shares = shared_in_crypten(context, inputs(**sizes), FRAC_BITS)
    return parties_cost({kind: partial(step_of, ring, kind, shares) for kind in kinds}, steps)


def in_aby3(
    *, steps: int, kinds: Sequence[str], sizes: dict[str, int]
) -> dict[str, dict[str, Any]]:
    """Returns, for each kind, what `hosts.servers_cost` counts."""
    ring, shares = shared_in_aby3(inputs(**sizes), FRAC_BITS)

    def act(kind: str) -> tuple[Share, Share]:
        return step_of(ring, kind, shares())

    return servers_cost(ring, {kind: partial(act, kind) for kind in kinds}, steps)


def measure(
    host: str, steps: int, sizes: dict[str, int], kinds: Sequence[str] = KINDS
) -> dict[str, dict[str, Any]]:
    """Returns, for each kind, what `hosts.measure_host` returns of a step."""
    return measure_host(
        host, "benchmarks.dpsgd_step", {"steps": steps, "kinds": list(kinds), "sizes": sizes}
    )


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
