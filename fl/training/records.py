"""Records of clients: dealt out of one data set by a public seed, or made of texts."""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from extensions.errors import ArgumentError
from extensions.rules import NOT_NEGATIVE, POSITIVE, Whole, one_of
from fl.training.data import Records, as_tensors, single
from fl.training.models import BUCKETS

Rows = list[npt.NDArray[np.int64]]
Labels = npt.NDArray[np.int64]

SHARDS_OF_A_CLIENT = 2
DRAWS = 1000
"""Draws of Dirichlet, at most, until every client has enough records."""


def partition(
    dataset: Records,
    n: int,
    scheme: str = "iid",
    *,
    alpha: float = 0.5,
    min_size: int = 1,
    noise: float = 0.0,
    seed: int = 0,
) -> list[TensorDataset]:
    """Returns the records of each client; each record goes to exactly one client.

    Args:
        dataset: pairs (record, label), or a pair of arrays.
        n: number of clients.
        scheme: "iid": shuffled, sizes differ by one at most. "shards": two of 2n runs of the
            records sorted by label, so that most clients see few classes. "dirichlet": each class
            is dealt out in proportions drawn from Dirichlet(alpha, ..., alpha), and all of them
            anew until every client has `min_size` records. "quantity": shuffled, in sizes that are
            drawn so.
        alpha: of "dirichlet" and "quantity": the smaller, the more uneven.
        min_size: of these: fewest records of a client.
        noise: variance of Gaussian noise on the last client's records; client k of n has k / n of
            it, so that clients' features differ.
        seed: of everything random here; public.

    Raises:
        ArgumentError: the scheme is unknown, or sorts by class and the labels have none; there are
            too few records for the clients or shards; or after 1,000 draws a client still has fewer
            than `min_size` records.

    Source:
        McMahan et al., AISTATS 2017, section 3 (iid, shards); Hsu et al., 2019, and Yurochkin et
        al., ICML 2019 (dirichlet); Li et al., ICDE 2022 (drawn anew, quantity, noise).

    Examples:
        >>> parts = fl.partition((x, y), 5, scheme="dirichlet", alpha=0.1)
        >>> len(parts), sum(map(len, parts)) == len(x)
        (5, True)
    """
    x, y = _checked(dataset, n, scheme, alpha, min_size)
    NOT_NEGATIVE.check("noise", noise)
    Whole(0).check("seed", seed)
    labels, draws = single(y).numpy(), np.random.default_rng(seed)
    for _ in range(DRAWS):
        rows = SCHEMES[scheme](labels, n, alpha, draws)
        few = [client for client, own in enumerate(rows) if len(own) < min_size]
        if not few:
            return _data_sets(x, y, rows, noise, seed)
    raise ArgumentError(
        "alpha",
        alpha,
        f"such that each client gets at least {min_size} records ({few} got fewer in draw {DRAWS})",
        "Raise it, or take fewer clients.",
        code="range",
    )


def _checked(
    dataset: Records, n: int, scheme: str, alpha: float, min_size: int
) -> tuple[Tensor, Tensor]:
    """Returns records and labels, which can be dealt out so."""
    one_of(SCHEMES).check("scheme", scheme)
    POSITIVE.check("alpha", alpha)
    if min_size > 1 and scheme not in UNEVEN:
        rule = f"with {{scheme={scheme}}}, whose sizes are even"
        raise ArgumentError("min_size", min_size, rule, code="conflict")
    x, y = as_tensors(dataset, "dataset")
    if scheme in ("shards", "dirichlet") and y.ndim > 1:
        rule = f"'iid', because labels of shape {tuple(y.shape)} are not classes"
        raise ArgumentError("scheme", scheme, rule, code="choice")
    most = len(y) // (SHARDS_OF_A_CLIENT if scheme == "shards" else 1)
    hint = f"There are {len(y)} records."
    Whole(1, most).check("n", n, hint)
    Whole(1, len(y) // n).check("min_size", min_size, hint)
    return x, y


def partition_by(
    dataset: Records, users: Sequence[Hashable], *, min_size: int = 1
) -> dict[Hashable, TensorDataset]:
    """Returns the records of each user, in the order of the users' names.

    Give `list(found.values())` as a run's clients.

    Args:
        dataset: pairs (record, label), or a pair of arrays.
        users: owner of each record, such as a writer or a device.
        min_size: users with fewer records are left out.

    Raises:
        ArgumentError: more or fewer users than records, or every user has fewer than `min_size`
            records.

    Examples:
        >>> by_writer = fl.partition_by((x[:6], y[:6]), ["ann", "bob", "ann", "bob", "ann", "cid"])
        >>> {user: len(records) for user, records in by_writer.items()}
        {'ann': 3, 'bob': 2, 'cid': 1}
    """
    x, y = as_tensors(dataset, "dataset")
    Whole(1).check("min_size", min_size)
    if len(users) != len(y):
        raise ArgumentError("users", len(users), f"one for each of {len(y)} records", code="shape")
    rows: dict[Hashable, list[int]] = {}
    for row, user in enumerate(users):
        rows.setdefault(user, []).append(row)
    enough = {user: own for user, own in rows.items() if len(own) >= min_size}
    if not enough:
        most = max(map(len, rows.values()))
        raise ArgumentError("min_size", min_size, f"at most {most}, of the largest user")
    order: list[Any] = list(enough)
    with suppress(TypeError):
        order.sort()
    return {user: TensorDataset(x[enough[user]], y[enough[user]]) for user in order}


def _data_sets(x: Tensor, y: Tensor, rows: Rows, noise: float, seed: int) -> list[TensorDataset]:
    """Returns the clients' records, with noise on those of the k-th."""
    if noise and not x.is_floating_point():
        rule = "0 for records of integers"
        raise ArgumentError("noise", noise, rule, code="conflict")
    draws = torch.Generator().manual_seed(seed)
    found = []
    for client, own in enumerate(map(torch.from_numpy, rows), 1):
        values = x[own]
        if noise:
            deviation = math.sqrt(noise * client / len(rows))
            values = values + deviation * torch.randn(values.shape, generator=draws)
        found.append(TensorDataset(values, y[own]))
    return found


def _iid(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    return [np.sort(own) for own in np.array_split(draws.permutation(len(labels)), n)]


def _shards(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    count = SHARDS_OF_A_CLIENT * n
    shuffled = draws.permutation(len(labels))
    runs = np.array_split(shuffled[np.argsort(labels[shuffled], kind="stable")], count)
    order = draws.permutation(count)
    return [np.sort(np.concatenate([runs[i] for i in order[k::n]])) for k in range(n)]


def _dirichlet(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    dealt = [_in_proportions(rows, n, alpha, draws) for rows in classes]
    return [np.sort(np.concatenate(own)) for own in zip(*dealt, strict=True)]


def _quantity(labels: Labels, n: int, alpha: float, draws: np.random.Generator) -> Rows:
    return [np.sort(own) for own in _in_proportions(np.arange(len(labels)), n, alpha, draws)]


def _in_proportions(
    rows: npt.NDArray[np.int64], n: int, alpha: float, draws: np.random.Generator
) -> Rows:
    """Returns rows shuffled and cut into n parts, whose shares are of Dirichlet(alpha, ...)."""
    shuffled = draws.permutation(rows)
    ends = np.cumsum(draws.dirichlet(np.full(n, alpha)))[:-1] * len(rows)
    return np.split(shuffled, np.rint(ends).astype(int))


SCHEMES: dict[str, Callable[[Labels, int, float, np.random.Generator], Rows]] = {
    "iid": _iid,
    "shards": _shards,
    "dirichlet": _dirichlet,
    "quantity": _quantity,
}
UNEVEN = ("dirichlet", "quantity")


_WORD = re.compile(r"\w+(?:'\w+)?")
PADDING = 0


def tokens(
    texts: Sequence[str], *, buckets: int = BUCKETS, length: int = 256
) -> npt.NDArray[np.int64]:
    """Returns the words of each text as numbers, (texts, length); 0 fills up short texts.

    A word's number is a public hash, so records keep their vocabulary to themselves. Words that
    share a number count as one. Letters become lower case, and longer texts are cut.

    Args:
        texts: any strings.
        buckets: how many numbers there are, 0 included: the rows of the embedding.
        length: words of a text.

    Raises:
        ArgumentError: a size out of range, or something other than a list of strings.

    Examples:
        >>> numbers = fl.tokens(["a good film", "a bad film"], length=4)
        >>> numbers.shape, (numbers[0] == numbers[1]).tolist()
        ((2, 4), [True, False, True, True])
    """
    from sklearn.utils import murmurhash3_32

    Whole(2).check("buckets", buckets)
    Whole(1).check("length", length)
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ArgumentError("texts", type(texts).__name__, "a list of strings", code="type")
    found = np.full((len(texts), length), PADDING, dtype=np.int64)
    numbers: dict[str, int] = {}
    for row, text in zip(found, texts, strict=True):
        words = [match.group() for match in _WORD.finditer(text.lower())][:length]
        for word in words:
            if word not in numbers:
                numbers[word] = 1 + murmurhash3_32(word, positive=True) % (buckets - 1)
        row[: len(words)] = [numbers[word] for word in words]
    return found
