"""The command `losses`: softmax cross-entropy beside the sigmoid of one class against all."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.instruments.costs import BYTES_AND_DEALT, PARTIES
from benchmarks.steps.linear_step import FRAC_BITS
from benchmarks.steps.losses_accuracy import NORMS, accuracy_rows
from benchmarks.steps.losses_cost import SPREAD, cost_rows
from benchmarks.tables import Table
from extensions.options import Option
from extensions.owners.data import load, load_raw
from extensions.owners.features import extract, find
from extensions.runs.config import TrainConfig

DIGITS_RATES, MNIST_RATES = (4.0, 7.0, 10.0, 14.0, 20.0), (20.0, 40.0)
"""Learning rates times C that are tried."""


@Benchmark(
    STEPS,
    "losses",
    "Sigmoid beside softmax",
    minutes=8,
    results=[
        Result(
            r"losses-\d+-parties",
            "Softmax takes 8 rounds a step more than the sigmoids, and 3.2 to 3.4 times their "
            "bytes. TF Encrypted's own is exact to 4e-6, in ten times the rounds and six times "
            "the bytes.",
            columns="host | loss | rounds | KB/party | largest error | rounds of a step | "
            "MB/party of a step | ms of a step",
        ),
        Result(
            "losses-accuracy",
            "At epsilon 2, rate and bound chosen for each: softmax is no more accurate for linear "
            "models, and dearer; so the sigmoid is the default.",
            columns="data | loss | C | lr | accuracy, % | standard deviation",
        ),
    ],
)
def main(
    batch: int = 128,
    features: int = 512,
    classes: int = 10,
    times: Annotated[int, Option(help="Timed calls of each kind.")] = 5,
    runs: Annotated[int, Option(help="Trainings on the digits; a sixth on MNIST.")] = 20,
    trials: Annotated[int, Option(help="Trainings of each choice; 1 on MNIST.")] = 3,
    data_dir: Annotated[
        Path | None, Option(help="Folder of MNIST's files; left out without.")
    ] = None,
) -> Iterator[Table]:
    """Both losses: accuracy at epsilon 2 in plaintext, and what they cost on shares."""
    digits = TrainConfig(backend="clear", epsilon=2.0, delta=1e-5).resolved()
    split = load("digits", None, 0)
    rows = accuracy_rows("digits", split, digits, rates=DIGITS_RATES, runs=runs, trials=trials)
    if data_dir is not None:
        mnist = TrainConfig(
            backend="clear", epsilon=2.0, delta=1.7e-6, sample_rate=0.017, steps=300
        ).resolved()
        split = extract(load_raw("mnist", data_dir, 0).split, find("hog"))
        rows += accuracy_rows(
            "MNIST, hog", split, mnist, rates=MNIST_RATES, runs=max(2, runs // 6), trials=1
        )
    yield Table("losses-accuracy", rows, epsilon=2.0, norms=NORMS, trials=trials)
    sizes = {"batch": batch, "features": features, "classes": classes}
    yield Table(
        "losses-3-parties",
        cost_rows(sizes, times),
        parties=PARTIES,
        frac_bits=FRAC_BITS,
        times=times,
        network="loopback for CrypTen, one process for ABY3",
        bytes=BYTES_AND_DEALT,
        logits=f"normal, standard deviation {SPREAD:g}",
        **sizes,
    )
