"""Deep leakage from what each party and coalition sees of an update."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from benchmarks.benchmark import FEDERATED, Benchmark, Chart, Result
from benchmarks.federated.leakage.attacked import (
    ATTACKED,
    LR,
    SCHEMES,
    Scheme,
    attacked_round,
    order_of,
    readings,
    rebuild,
)
from benchmarks.federated.leakage.images import DATA, Images
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole, one_of
from fl.clients import ClientRound, LocalSGD
from fl.leakage import NO_LEAK, Reconstruction
from fl.protocols import Vector
from fl.weights import get_weights

REBUILT = 0.1
"""A record counts as rebuilt if the error is below this share of that of one grey."""
VARIANCES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
Draw = Callable[[np.random.Generator, float, int], Vector]
NOISES: dict[str, Draw] = {
    "Gaussian": lambda draws, variance, size: draws.normal(0.0, np.sqrt(variance), size),
    "Laplace": lambda draws, variance, size: draws.laplace(0.0, np.sqrt(variance / 2), size),
}

Data = Annotated[str, Option(help=f"The images: {' or '.join(DATA)}."), one_of(DATA)]
DataDir = Annotated[Path | None, Option(help="Folder of the files; NAME in PEA_DATA unless given.")]
Records = Annotated[int, Option(help="How many records are attacked."), Whole(1)]
Steps = Annotated[int, Option(help="Steps of L-BFGS, at most."), Whole(1)]
Tries = Annotated[int, Option(help="First guesses of a reading, until one matches."), Whole(1)]


@Benchmark(
    FEDERATED,
    "fl-leakage",
    "What an attack rebuilds of an update",
    minutes=1,
    needs="cifar100 in PEA_DATA for --data cifar100",
    results=[
        Result(
            r"fl-leakage-\w+",
            "Deep leakage (Zhu et al., 2019) from one client's update of three, as everybody sees "
            "it who takes part. No aggregator shows an update to a single party, and **each stops "
            "at a coalition**: both neighbours on a chain, the server with any holder of "
            "Paillier's key, all other clients. That an attack fails proves nothing.",
            columns="protection | seen by | update known | image error, least | error of one grey "
            "| rebuilt",
            where="data = digits",
            chart=Chart(
                of="fl-leakage-digits",
                labels=("protection", "seen by"),
                values=("image error, least",),
                logarithmic=("image error, least",),
            ),
        ),
        Result(
            r"fl-leak-noise-\w+",
            "The same by the variance of noise. **A loss above 0.15 may still leak**: at "
            "variance 1e-4 noise is beyond matching, and both records are rebuilt.",
            options="--noise",
            columns="noise | variance | matching loss, least | image error, least | rebuilt",
            where="data = digits and noise = Gaussian",
        ),
    ],
)
def main(
    data: Data = "digits",
    data_dir: DataDir = None,
    records: Records = 2,
    steps: Steps = 100,
    tries: Tries = 3,
    noise: Annotated[
        bool, Option(help="Attack updates with noise of variance 1e-5 to 0.1.")
    ] = False,
) -> Iterator[Table]:
    """What an attack rebuilds of an update from each view of every scheme, or by noise."""
    torch.set_num_threads(1)
    images = DATA[data](data_dir)
    chosen = np.linspace(0, len(images.x) - 1, records + 2).astype(int)[1:-1].tolist()
    rows: list[dict[str, Any]] = []
    settings = {"records": chosen, "steps": steps, "tries": tries, "lr": LR}
    if noise:
        for kind in NOISES:
            for variance in VARIANCES:
                several = [_noised(images, one, kind, variance, steps, tries) for one in chosen]
                row = {"data": data, "noise": kind, "variance": variance}
                rows.append(row | _rebuilt(images, chosen, several))
        yield Table(f"fl-leak-noise-{data}", rows, **settings)
        return
    for scheme in SCHEMES:
        by_record = [_attacked(scheme, images, record, steps, tries) for record in chosen]
        for who in scheme.views:
            several = [views[who][0] for views in by_record]
            known = all(views[who][1] for views in by_record)
            row = {
                "data": data,
                "protection": scheme.name,
                "seen by": who,
                "update known": ("as protected" if scheme.mechanism else "yes") if known else "no",
            }
            rows.append(row | _rebuilt(images, chosen, several))
    yield Table(f"fl-leakage-{data}", rows, **settings)


def _attacked(
    scheme: Scheme, images: Images, record: int, steps: int, tries: int
) -> dict[str, tuple[Reconstruction, bool]]:
    """Returns for each view of a round what was rebuilt, and whether it knows the update."""
    run = attacked_round(scheme, images, record)
    assert run.outcome is not None
    views = {}
    for who, choose in scheme.views.items():
        coalition = choose(order_of(run))
        found = rebuild(images, readings(run, coalition), steps, tries)
        leaks = run.aggregator.leaks_to(coalition, run.outcome)
        views[who] = found, frozenset({ATTACKED}) in leaks
    return views


def _noised(
    images: Images, record: int, kind: str, variance: float, steps: int, tries: int
) -> Reconstruction:
    model = images.model()
    before = get_weights(model).astype(np.float64)
    own = torch.utils.data.TensorDataset(*(t[record : record + 1] for t in (images.x, images.y)))
    sgd = LocalSGD(epochs=1, batch_size=None, lr=LR, loss=torch.nn.functional.cross_entropy)
    sgd(model, own, ClientRound(number=1, client=0, seed=0))
    update = get_weights(model).astype(np.float64) - before
    draws = np.random.default_rng([record, VARIANCES.index(variance)])
    noised = update + LR * NOISES[kind](draws, variance, update.size)
    return rebuild(images, [noised], steps, tries)


def _rebuilt(
    images: Images, chosen: Sequence[int], found: Sequence[Reconstruction]
) -> dict[str, Any]:
    """Returns how near the attacks came to the chosen records."""
    errors = [one.error(images.x[i]) for one, i in zip(found, chosen, strict=True)]
    greys = [float(images.x[i].var(correction=0)) for i in chosen]
    rebuilt = sum(error < REBUILT * grey for error, grey in zip(errors, greys, strict=True))
    return {
        "matching loss, least": min(one.loss for one in found),
        f"loss below {NO_LEAK:g}": f"{sum(one.matches for one in found)} of {len(found)}",
        "image error, least": min(errors),
        "image error, largest": max(errors),
        "error of one grey": float(np.mean(greys)),
        "rebuilt": f"{rebuilt} of {len(found)}",
    }
