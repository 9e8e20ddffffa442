"""The command `dpsgd-models`: a step of models with hidden layers, in each host."""

import statistics
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments import spu
from benchmarks.instruments.child_process import in_python
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.instruments.hosts import ABY3, CRYPTEN, SPU
from benchmarks.steps.dpsgd_step import rows_of
from benchmarks.steps.hosts import Found, measure
from benchmarks.steps.step import FRAC_BITS, MODELS, PLAIN
from benchmarks.tables import Table, published
from extensions.options import Option
from extensions.rules import one_of

NAME = "dpsgd-models"
OPACUS = "Opacus, in the clear"
HOSTS = (CRYPTEN, ABY3, SPU, OPACUS)


def in_opacus(python: str, model: str, batch: int, steps: int) -> tuple[Found, dict[str, str]]:
    """Returns the seconds of each kind of step, and the versions of what made them.

    Raises:
        ArgumentError: of `in_python`.
    """
    module = "benchmarks.steps.models.opacus_step"
    words = ("-m", module, model, str(batch), str(steps))
    answer = in_python("opacus_python", "Opacus", python, *words)
    found = {kind: {"seconds": seconds} for kind, seconds in answer["seconds"].items()}
    return found, answer["versions"]


def rows_in_the_clear(host: str, found: Found) -> list[dict[str, Any]]:
    """Returns rows as `rows_of` does, of a host that sends nothing."""
    plain = statistics.median(found[PLAIN]["seconds"])
    nothing = dict.fromkeys(("rounds", "MB/party", "largest MB", "MB dealt", "bytes / plain"), "-")
    rows = []
    for kind, own in found.items():
        median = statistics.median(own["seconds"])
        time = {"median ms": 1000 * median, "time / plain": median / plain}
        rows.append({"host": host, "step": kind, **nothing, **time})
    return rows


def table(samples: dict[str, dict[str, Found]]) -> list[dict[str, Any]]:
    """Returns the rows of all that was measured, by model and host."""
    return [
        {"model": model, **row}
        for model in MODELS
        for host in HOSTS
        if host in samples.get(model, {})
        for row in (rows_in_the_clear if host == OPACUS else rows_of)(host, samples[model][host])
    ]


@Benchmark(
    STEPS,
    "dpsgd-models",
    "A step of models with hidden layers",
    minutes=15,
    needs="--spu-python, --opacus-python for peers",
    results=[
        Result(
            "dpsgd-models",
            "LeNet-5 (61,706 weights and biases), a CNN with tanh (26,010) and an MLP with 128 "
            "units on images of MNIST's size. Privacy adds 5 to 52 % of a plain step's bytes; "
            "materialised clipping takes 1.5 to 49 times them. **A run on shares is the run in "
            "the clear, bit for bit, once both toss the same coins** for a truncation: tests hold "
            "that. "
            "The CNN learns MNIST to 97.29 and 97.61 % in two runs of `pea train --backend clear "
            "--data mnist --features raw --model cnn --loss softmax --epsilon 2 --delta 1e-5 "
            "--sample-rate 0.04 --steps 500 --lr 5 --lr-schedule linear --max-grad-norm 1 "
            "--max-feature-norm 14 --max-weight-norm 10000 --frac-bits 16 --physical-rows 300`, "
            "whose settings were tried on these images before, which epsilon does not count.",
            columns="model | host | step | rounds | MB/party | bytes / plain | median ms | time / "
            "plain",
            where="step = DPSGD or DPSGD, ghost clipping",
        ),
    ],
)
def main(
    batch: int = 32,
    steps: Annotated[int, Option(help="Timed steps of each kind.")] = 3,
    model: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(MODELS)}; may be repeated."),
        one_of(MODELS),
    ] = None,
    host: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(HOSTS)}; may be repeated."),
        one_of(HOSTS),
    ] = None,
    spu_python: Annotated[
        str, Option(help="A Python that has SPU, which may be another environment's.")
    ] = sys.executable,
    opacus_python: Annotated[
        str, Option(help="A Python that has Opacus, likewise.")
    ] = sys.executable,
) -> Iterator[Table]:
    """One step of models with hidden layers on three parties' shares: rounds, bytes and time.

    Every host and model is written as soon as it is measured; others stay in the table as they were
    recorded before with the same batch and steps. So it can be done in sittings.
    """
    found = Recorded(batch, steps)
    versions: dict[str, str] | None
    for name in model or MODELS:
        for where in host or HOSTS:
            if where == OPACUS:
                cost, versions = in_opacus(opacus_python, name, batch, steps)
            else:
                versions = spu.versions(spu_python) if where == SPU else None
                sizes = {"batch": batch, "model": name}
                options: dict[str, Any] = {"processes": True, "spu_python": spu_python}
                cost = measure(where, steps, sizes, **options)
            found.add(name, where, cost, versions)
            yield found.table()


class Recorded:
    """What was measured with a batch and a number of steps, now and before.

    Args:
        batch: rows of a step.
        steps: timed.
    """

    def __init__(self, batch: int, steps: int) -> None:
        self._sizes = {"batch": batch, "steps": steps}
        before = published(NAME, **self._sizes)
        settings = before.get("settings", {})
        self._samples: dict[str, dict[str, Found]] = before.get("samples", {})
        self._recorded = dict(settings.get("recorded", {}))
        self._peers = dict(settings.get("peers", {}))

    def add(self, model: str, host: str, cost: Found, versions: dict[str, str] | None) -> None:
        """Takes note of what steps cost, and of the versions of a peer."""
        self._samples.setdefault(model, {})[host] = cost
        self._recorded[f"{model}, {host}"] = datetime.now(UTC).date().isoformat()
        if versions is not None:
            self._peers[host] = versions

    def table(self) -> Table:
        """Returns the table."""
        return Table(
            NAME,
            table(self._samples),
            samples=self._samples,
            parties=PARTIES,
            frac_bits=FRAC_BITS,
            seed=0,
            network="loopback, a process for each party",
            recorded=self._recorded,
            bytes=f"{BYTES_AND_DEALT}; SPU's as CrypTen's",
            of_spu="18 fractional bits, sigmoid of three segments, rsqrt of lower accuracy",
            of_opacus="one thread, float32; its ghost clipping, and its hooks",
            peers=self._peers,
            **self._sizes,
        )
