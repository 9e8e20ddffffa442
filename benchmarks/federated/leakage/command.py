"""Deep leakage from what each party and coalition sees of an update: table and figure."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from benchmarks import tables
from benchmarks.federated.leakage import by_noise
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
from benchmarks.federated.leakage.figure import draw
from benchmarks.federated.leakage.images import DATA, Images
from extensions.options import Option
from extensions.rules import Whole, one_of
from fl.leakage import NO_LEAK, Reconstruction

REBUILT = 0.1
"""A record counts as rebuilt if the error is below this share of that of one grey."""

Data = Annotated[str, Option(help=f"The images: {' or '.join(DATA)}."), one_of(DATA)]
DataDir = Annotated[Path | None, Option(help="Folder of the files; NAME in PEA_DATA unless given.")]
Records = Annotated[int, Option(help="How many records are attacked."), Whole(1)]
Steps = Annotated[int, Option(help="Steps of L-BFGS, at most."), Whole(1)]
Tries = Annotated[int, Option(help="First guesses of a reading, until one matches."), Whole(1)]


def main(
    data: Data = "digits",
    data_dir: DataDir = None,
    records: Records = 2,
    steps: Steps = 100,
    tries: Tries = 3,
    noise: Annotated[
        bool, Option(help="Attack updates with noise of variance 1e-5 to 0.1.")
    ] = False,
) -> None:
    """Attack every scheme's views; write the table, and the figure as a .png beside it."""
    torch.set_num_threads(1)
    images = DATA[data](data_dir)
    chosen = np.linspace(0, len(images.x) - 1, records + 2).astype(int)[1:-1].tolist()
    if noise:
        by_noise.publish(data, images, chosen, steps, tries)
        return
    rows: list[dict[str, Any]] = []
    found: dict[str, list[Reconstruction]] = {}
    for scheme in SCHEMES:
        by_record = [_attacked(scheme, images, record, steps, tries) for record in chosen]
        for who in scheme.views:
            several = [views[who][0] for views in by_record]
            known = all(views[who][1] for views in by_record)
            found[f"{scheme.name}\n{who}"] = several
            row = _row(scheme, who, known, images, chosen, several)
            rows.append({"data": data, **row})
    name = f"fl-leakage-{data}"
    tables.publish(name, rows, records=chosen, steps=steps, tries=tries, lr=LR)
    print(draw(tables.RESULTS / f"{name}.png", [images.x[i] for i in chosen], found))


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


def _row(
    scheme: Scheme,
    who: str,
    known: bool,
    images: Images,
    chosen: list[int],
    found: list[Reconstruction],
) -> dict[str, Any]:
    errors = [one.error(images.x[i]) for one, i in zip(found, chosen, strict=True)]
    greys = [float(images.x[i].var(correction=0)) for i in chosen]
    rebuilt = sum(error < REBUILT * grey for error, grey in zip(errors, greys, strict=True))
    return {
        "protection": scheme.name,
        "seen by": who,
        "update known": ("as protected" if scheme.mechanism else "yes") if known else "no",
        "matching loss, least": min(one.loss for one in found),
        f"loss below {NO_LEAK:g}": f"{sum(one.matches for one in found)} of {len(found)}",
        "image error, least": min(errors),
        "image error, largest": max(errors),
        "error of one grey": float(np.mean(greys)),
        "rebuilt": f"{rebuilt} of {len(found)}",
    }
