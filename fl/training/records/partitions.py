"""A data set dealt out among clients, evenly or unevenly, by a public seed."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import TensorDataset

from extensions.checks import check_count, check_positive
from extensions.errors import ArgumentError
from fl.training.data import Records, as_tensors

Rows = list[npt.NDArray[np.int64]]
Labels = npt.NDArray[np.int64]

SHARDS_OF_A_CLIENT = 2


def partition(
    dataset: Records, n: int, scheme: str = "iid", *, alpha: float = 0.5, seed: int = 0
) -> list[TensorDataset]:
    """Returns the records of each client: every record belongs to one, every client has some.

    Args:
        dataset: pairs (record, label), or a pair of arrays.
        n: number of clients.
        scheme: "iid": shuffled, sizes differ by one at most. "shards": two of 2n runs of the
            records sorted by label, so that most clients see few classes. "dirichlet": each class
            is dealt out in proportions drawn from Dirichlet(alpha, ..., alpha).
        alpha: of "dirichlet": the smaller, the more uneven.
        seed: of everything random here; public.

    Raises:
        ArgumentError: an unknown scheme, or one that sorts by class where there are none; fewer
            records than clients (or shards); a client that the draw leaves without records, by
            number.

    Source:
        McMahan et al., AISTATS 2017, section 3 (iid, shards); Hsu et al., 2019, and Yurochkin et
        al., ICML 2019 (dirichlet).
    """
    if scheme not in SCHEMES:
        raise ArgumentError("scheme", scheme, f"one of {', '.join(map(repr, SCHEMES))}")
    check_positive("alpha", alpha)
    check_count("seed", seed, 0)
    x, y = as_tensors(dataset, "dataset")
    if scheme != "iid" and y.ndim > 1:
        allowed = f"'iid' for labels of shape {tuple(y.shape)}, which name no classes"
        raise ArgumentError("scheme", scheme, allowed)
    most = len(y) // (SHARDS_OF_A_CLIENT if scheme == "shards" else 1)
    if n not in range(1, most + 1):
        raise ArgumentError("n", n, f"in 1..{most} for {len(y)} records and {scheme!r}")
    rows = SCHEMES[scheme](y.numpy(), n, alpha, np.random.default_rng(seed))
    if empty := [client for client, own in enumerate(rows) if len(own) == 0]:
        raise ArgumentError(
            "alpha",
            alpha,
            f"such that no client is left without records, as {empty} are",
            "Raise it, lower n, or take another seed.",
        )
    return [TensorDataset(x[own], y[own]) for own in map(torch.from_numpy, rows)]


def _iid(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    return [np.sort(own) for own in np.array_split(draws.permutation(len(labels)), n)]


def _shards(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    count = SHARDS_OF_A_CLIENT * n
    shuffled = draws.permutation(len(labels))
    runs = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], count)
    order = draws.permutation(count)
    return [np.sort(np.concatenate([runs[i] for i in order[k::n]])) for k in range(n)]


def _dirichlet(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    parts: list[Rows] = [[] for _ in range(n)]
    for label in np.unique(labels):
        rows = draws.permutation(np.flatnonzero(labels == label))
        ends = np.cumsum(draws.dirichlet(np.full(n, alpha)))[:-1] * len(rows)
        for own, dealt in zip(parts, np.split(rows, np.rint(ends).astype(int)), strict=True):
            own.append(dealt)
    return [np.sort(np.concatenate(own)) for own in parts]


SCHEMES: dict[str, Callable[[Labels, int, float, np.random.Generator], Rows]] = {
    "iid": _iid,
    "shards": _shards,
    "dirichlet": _dirichlet,
}
