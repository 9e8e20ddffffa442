"""``python -m benchmarks accuracy``: the experiments, by name."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

from benchmarks.accuracy import experiments, federated, initialization, secure
from benchmarks.accuracy.records import Material, folder_of
from benchmarks.accuracy.settings import TUNED
from benchmarks.benchmark import ACCURACY, Benchmark, Chart, Result
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole, one_of

EXPERIMENTS: dict[str, Callable[[Material], Iterator[Table]]] = {
    "features": experiments.features,
    "initialization": initialization.run,
    "aggregation": experiments.aggregation,
    "federated": federated.run,
    "accountant": experiments.accountant,
}
SECURE = "secure"
LACKING = "lacking"
"""Those secure runs that were not published with today's settings."""
HOSTS = ("crypten", "tfe")


@Benchmark(
    ACCURACY,
    "accuracy",
    "PEA's choices at equal epsilon",
    minutes=60,
    needs="files of --data; hours for secure runs",
    results=[
        Result(
            r"accuracy-secure-(crypten|tfe)-\w+",
            "Whole secure runs of three parties at delta = 1 / (10 n), by the way they learn. "
            "CIFAR-10 has the features of two EfficientNets in `full batches` and `open "
            "iterates`, and those of two MobileNets in the other ways.",
            options="--experiment secure",
            columns="data | host | way | accuracy, % | steps | rounds | GB/party | GB dealt | "
            "seconds",
            where="epsilon = 2",
            chart=Chart(
                of="accuracy-secure-crypten-mnist",
                labels=("way",),
                values=("accuracy, %", "rounds", "GB/party"),
                logarithmic=("rounds", "GB/party"),
                where="epsilon = 2",
            ),
        ),
        Result(
            r"accuracy-features-\w+",
            "Features that owners take beforehand, beside pixels or hashed words, with privacy "
            "and without. CIFAR-10's are those of a MobileNet that was trained on ImageNet.",
            options="--experiment features",
            columns="data | features | columns | training | accuracy, % | standard deviation",
        ),
        Result(
            r"accuracy-federated-\w+",
            "Joint training beside federated averaging with noise, local models that are "
            "averaged, and each party alone.",
            options="--experiment federated",
            columns="data | training | accuracy, % | standard deviation",
            where="parts = IID and data = mnist",
        ),
        Result(
            r"accuracy-initialization-\w+",
            "Joint training from local models, from random ones and from zero.",
            options="--experiment initialization",
        ),
        Result(
            r"accuracy-aggregation-\w+",
            "Averaging of local models and choice by accuracy, for even and for label-sorted "
            "parts.",
            options="--experiment aggregation",
        ),
        Result(
            r"accuracy-accountant-\w+",
            "What epsilon the accountant and the paper's formula claim for the same noise.",
            options="--experiment accountant",
        ),
    ],
)
def main(
    data: Annotated[
        str, Option(help="One of digits, mnist, cifar10 and imdb."), one_of(TUNED)
    ] = "mnist",
    data_dir: Annotated[
        Path | None, Option(help="Folder of its files; by default NAME in PEA_DATA.")
    ] = None,
    download: Annotated[bool, Option(help="Fetch missing files.")] = False,
    experiment: Annotated[
        list[str] | None,
        Option(
            help=f"One of {', '.join(EXPERIMENTS)}, {SECURE}, {LACKING} (secure runs that are not "
            f"published); once for each; by default the first five."
        ),
        one_of((*EXPERIMENTS, SECURE, LACKING)),
    ] = None,
    backend: Annotated[
        str, Option(help="Host of the secure run: crypten or tfe."), one_of(HOSTS)
    ] = HOSTS[0],
    way: Annotated[
        list[str] | None,
        Option(
            help="Title of a way of the secure run that is measured anew, others stay; or title "
            "and epsilon, 'whitened, 2'; once for each; by default all."
        ),
    ] = None,
    seeds: Annotated[int, Option(help="Repetitions, each with its own seed."), Whole(1)] = 3,
    epsilon: float = 2.0,
) -> Iterator[Table]:
    """Accuracy at epsilon, delta = 1 / (10 records), three parties: mean and deviation."""
    material = Material(
        data=data,
        data_dir=folder_of(data, data_dir, download),
        download=download,
        epsilon=epsilon,
        seeds=range(seeds),
    )
    for name in experiment or EXPERIMENTS:
        if name in (SECURE, LACKING):
            yield from secure.run(material, backend, way or (), missing=name == LACKING)
        else:
            yield from EXPERIMENTS[name](material)
