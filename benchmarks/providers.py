"""What each provider of correlated randomness costs: time, rounds, bytes by role, memory."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
import torch

import crypten_ext
from benchmarks.benchmark import STEPS, Benchmark, Chart, Result
from benchmarks.instruments import spu
from benchmarks.instruments.processes import peak_memory
from benchmarks.instruments.spu import SpuParties
from benchmarks.tables import Table
from crypten_ext import dealer, nn, optim, vouch_for
from crypten_ext.processes.dealing import Beside
from crypten_ext.processes.launch import Parties
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.rules import Whole
from extensions.runs.providers import DEALINGS, Dealing

import crypten
from crypten import communicator

STEP, ROOT = "DPSGD step", "inverse_sqrt"
SPU_PROTOCOLS = {
    "CHEETAH": "SPU CHEETAH, the two parties",
    "SEMI2K": "SPU SEMI2K, first party trusted",
}
WARM_UP = 3
"""Steps after which the dealer is as far ahead as it gets."""
MB = 1e6
_DEALINGS = {**DEALINGS, "ttp": Dealing("third party trusted", "TTP", "")}


def measure(
    context: Context,
    *,
    work: str,
    provider: Beside,
    steps: int,
    batch: int,
    features: int,
    classes: int,
) -> dict[str, Any]:
    """Returns one party's costs of steps, dealt ahead where the provider can; runs in every party.

    Seconds are listed, one a step. Rounds are CrypTen's count and bytes the kernel's, a step;
    those exchanged with who deals are apart, and in the bytes are those of tuples that the parties
    made themselves, which are told alone too.
    """
    crypten_ext.enable()
    crypten.cfg.mpc.provider = _DEALINGS[provider].host_name
    crypten.cfg.encoder.precision_bits = 20
    act = _step(batch, features, classes) if work == STEP else _root(batch)
    for _ in range(WARM_UP):
        act()
    meter, seconds = Meter(), []
    before, made, worked = dealer.corrected_bytes(), 0, 0.0
    for _ in range(steps):
        started, bytes_before, work_before = time.perf_counter(), _bytes(meter), time.process_time()
        dealer.begin_step()  # where parties make the tuples of a step; `act` finds it done
        made += _bytes(meter) - bytes_before
        worked += time.process_time() - work_before
        act()
        seconds.append(time.perf_counter() - started)
    rounds = meter.read().rounds
    communicator.get().barrier()
    (carried,) = meter.read().carried
    return {
        "seconds": seconds,
        "rounds": rounds / steps,
        "bytes": carried.bytes / steps,
        "dealer_bytes": carried.dealt / steps,
        "corrected_bytes": (dealer.corrected_bytes() - before) / steps,
        "made_bytes": made / steps,
        "made_seconds": worked / steps,
        "memory": peak_memory(os.getpid()),
    }


def _bytes(meter: Meter) -> int:
    (carried,) = meter.read().carried
    return carried.bytes


def _step(batch: int, features: int, classes: int) -> Callable[[], None]:
    draws = np.random.default_rng(0)
    rows = draws.uniform(0.0, 1.0, (batch, features)) / np.sqrt(features)
    x = crypten.cryptensor(torch.from_numpy(rows))
    y = crypten.cryptensor(torch.eye(classes)[torch.arange(batch) % classes])
    model = nn.Linear(features, classes).encrypt()
    loss = nn.BCEWithLogitsLoss()
    optimizer = optim.DPSGD(model, lr=1.0, max_grad_norm=1.0, noise_multiplier=1.0, sample_rate=1.0)

    def act() -> None:
        optimizer.zero_grad()
        xb, yb = vouch_for(x, y, sample_rate=1.0, max_feature_norm=1.0)
        loss(model(xb), yb).backward()
        optimizer.step()

    return act


def _root(batch: int) -> Callable[[], None]:
    x = crypten.cryptensor(torch.linspace(0.01, 300.0, batch, dtype=torch.float64))

    def act() -> None:
        dealer.begin_step()
        x.inverse_sqrt()

    return act


def spu_rows(python: str, steps: int, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of SPU's protocols for two, which make their tuples as they go."""
    rows = []
    for protocol, title in SPU_PROTOCOLS.items():
        with SpuParties(python, "benchmarks.steps.spu_party", 2) as parties:
            task = {"task": "measure", "kind": "DPSGD", "protocol": protocol}
            answers = parties.run(**task, steps=steps, sizes=sizes, sigma=1.0)
            first, last = (answer["cost"] for answer in answers)
            memory = [peak_memory(pid) / MB for pid in parties.pids]
        of_first = {"MB party 0": first["bytes"] / MB, "peak MB party 0": memory[0]}
        of_last = {"MB last party": last["bytes"] / MB, "peak MB last party": memory[1]}
        seconds = statistics.median(first["seconds"])
        row = {"work": STEP, "provider": title, "median ms": 1000 * seconds}
        rows.append(row | of_first | of_last)
    return rows


@Benchmark(
    STEPS,
    "providers",
    "Who deals correlated randomness",
    minutes=3,
    needs="--spu-python for SPU's of two parties",
    results=[
        Result(
            "providers-3-parties",
            "One step of DPSGD (batch 128, 512 features, 10 classes) and `inverse_sqrt` of 128 "
            "elements. What parties make themselves is in their bytes, and alone in MB made.",
            columns="work | provider | median ms | rounds | MB last party | MB made | MB dealer",
            chart=Chart(
                of="providers-3-parties",
                labels=("work", "provider"),
                values=("median ms", "MB last party"),
                logarithmic=("median ms", "MB last party"),
                ours="dealer|themselves",
            ),
        ),
        Result(
            "providers-2-parties",
            "Beside SPU's: CHEETAH makes its tuples as it goes, without noise over a whole run, "
            "for **half of the bytes** and a fifth more seconds; SEMI2K trusts the first party, "
            "as CrypTen does by default.",
            options="--parties 2 --spu-python PYTHON",
            columns="work | provider | median ms | rounds | MB last party | MB made | MB dealer",
        ),
    ],
)
def main(
    parties: Annotated[int, Option(help="Number of parties."), Whole(2)] = 3,
    batch: int = 128,
    features: int = 512,
    classes: int = 10,
    steps: Annotated[int, Option(help="Timed steps, after three that are not.")] = 15,
    spu_python: Annotated[
        str | None, Option(help="A Python that has SPU, for its steps of two parties.")
    ] = None,
) -> Iterator[Table]:
    """One DPSGD step of a linear model, and inverse_sqrt, under each provider."""
    if spu_python is not None and parties != 2:
        raise ArgumentError("parties", parties, "2 with {spu_python}", code="range")
    peer = {} if spu_python is None else spu.versions(spu_python)
    if peer is None:
        raise ArgumentError("spu_python", spu_python, "a Python that has SPU", code="file")
    sizes: dict[str, Any] = {"batch": batch, "features": features, "classes": classes}
    rows: list[dict[str, Any]] = []
    providers: tuple[Beside, ...] = ("tfp", "dealer", "parties", "ttp")
    for work in (STEP, ROOT):
        for provider in providers:
            with Parties(parties, provider=provider) as pool:
                found = pool.run(
                    "benchmarks.providers:measure",
                    work=work,
                    provider=provider,
                    steps=steps,
                    **sizes,
                )
                pid = pool.dealer_pid
                memory = None if pid is None else peak_memory(pid)
            rows.append(_row(work, _DEALINGS[provider].title, found, memory))
        if work == STEP and spu_python is not None:
            blank = dict.fromkeys(rows[0], "-")
            rows += [blank | row for row in spu_rows(spu_python, steps, sizes)]
    yield Table(
        f"providers-{parties}-parties",
        rows,
        parties=parties,
        frac_bits=20,
        steps=steps,
        network="loopback",
        bytes="what TCP carried a step: sent to and received from the other parties; the dealer's: "
        "sent to and received from it, by all parties",
        rounds="CrypTen's count in the last party: without party 0's requests to a third party",
        dealer="the dealer's process, or the third party's",
        made="what the parties themselves made: what TCP carried of it, of the bytes of the party "
        "with most, and seconds of its processor",
        memory="largest resident set, imports included",
        **sizes,
        **peer,
    )


def _row(work: str, title: str, found: list[dict[str, Any]], memory: int | None) -> dict[str, Any]:
    first, last = found[0], found[-1]
    dealt = sum(party["dealer_bytes"] for party in found)
    return {
        "work": work,
        "provider": title,
        "median ms": 1000 * statistics.median(first["seconds"]),
        "rounds": round(last["rounds"]),
        "MB party 0": first["bytes"] / MB,
        "MB last party": last["bytes"] / MB,
        "MB made": max(party["made_bytes"] for party in found) / MB,
        "CPU s made": max(party["made_seconds"] for party in found),
        "MB dealer": "-" if memory is None else dealt / MB,
        "MB corrections": last["corrected_bytes"] / MB,
        "peak MB party 0": first["memory"] / MB,
        "peak MB last party": last["memory"] / MB,
        "peak MB dealer": "-" if memory is None else memory / MB,
    }
