"""What an attack rebuilds of an update with noise, by the noise's variance."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.federated.leakage.attacked import LR, rebuild
from benchmarks.federated.leakage.images import Images
from benchmarks.tables import Table
from fl.clients import ClientRound, LocalSGD
from fl.leakage import NO_LEAK, Reconstruction
from fl.protocols import Vector
from fl.training.weights import get_weights

VARIANCES = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
Draw = Callable[[np.random.Generator, float, int], Vector]
NOISES: dict[str, Draw] = {
    "Gaussian": lambda draws, variance, size: draws.normal(0.0, np.sqrt(variance), size),
    "Laplace": lambda draws, variance, size: draws.laplace(0.0, np.sqrt(variance / 2), size),
}


def table(data: str, images: Images, chosen: Sequence[int], steps: int, tries: int) -> Table:
    """Returns what attacks on noisy gradients of the chosen records rebuild."""
    rows = []
    for kind in NOISES:
        for variance in VARIANCES:
            several = [_attacked(images, one, kind, variance, steps, tries) for one in chosen]
            rows.append(_row(data, kind, variance, images, chosen, several))
    return Table(
        f"fl-leak-noise-{data}", rows, records=list(chosen), steps=steps, tries=tries, lr=LR
    )


def _attacked(
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


def _row(
    data: str,
    kind: str,
    variance: float,
    images: Images,
    chosen: Sequence[int],
    found: Sequence[Reconstruction],
) -> dict[str, Any]:
    errors = [one.error(images.x[i]) for one, i in zip(found, chosen, strict=True)]
    greys = [float(images.x[i].var(correction=0)) for i in chosen]
    rebuilt = sum(error < 0.1 * grey for error, grey in zip(errors, greys, strict=True))
    return {
        "data": data,
        "noise": kind,
        "variance": variance,
        "matching loss, least": min(one.loss for one in found),
        f"loss below {NO_LEAK:g}": f"{sum(one.matches for one in found)} of {len(found)}",
        "image error, least": min(errors),
        "error of one grey": float(np.mean(greys)),
        "rebuilt": f"{rebuilt} of {len(found)}",
    }
