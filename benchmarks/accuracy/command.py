"""``python -m benchmarks accuracy``: the experiments, by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from benchmarks.accuracy import (
    accountant,
    aggregation,
    features,
    federated,
    initialization,
    secure,
    tuning,
    ways,
)
from benchmarks.accuracy.records import Material, folder_of
from benchmarks.accuracy.settings import TUNED
from extensions.options import Option
from extensions.rules import Whole, one_of

EXPERIMENTS: dict[str, Callable[[Material], None]] = {
    "features": features.run,
    "initialization": initialization.run,
    "aggregation": aggregation.run,
    "federated": federated.run,
    "accountant": accountant.run,
    "ways": ways.run,
}
KNOWN = EXPERIMENTS | {"tuning": tuning.run}
SECURE = "secure"
LACKING = "lacking"
"""Those secure runs that were not published with today's settings."""
HOSTS = ("crypten", "tfe")


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
            help=f"One of {', '.join(KNOWN)}, {SECURE}, {LACKING} (secure runs that are not "
            f"published); once for each; by default the first six."
        ),
        one_of((*KNOWN, SECURE, LACKING)),
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
) -> None:
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
            secure.run(material, backend, way or (), missing=name == LACKING)
        else:
            KNOWN[name](material)
