"""Records dealt out among parties, evenly or sorted by label, by a public seed."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from extensions.data.datasets.records import Labels, Split
from extensions.errors import ArgumentError
from extensions.rules import Whole, one_of

Rows = list[npt.NDArray[np.int64]]

SHARDS_OF_A_PARTY = 2


def iid(labels: Labels, parties: int, seed: int) -> Rows:
    """Returns each party's rows: every so many-th of the records, which come shuffled."""
    return [np.arange(rank, len(labels), parties) for rank in range(parties)]


def shards(labels: Labels, parties: int, seed: int) -> Rows:
    """Returns each party's rows: two random runs of the records sorted by label.

    So most parties see few of the classes, as in McMahan et al., AISTATS 2017, section 3.
    """
    count = SHARDS_OF_A_PARTY * parties
    most = len(labels) // SHARDS_OF_A_PARTY
    Whole(1, most, f"at most {most} for as many shards").check("parties", parties)
    runs = np.array_split(np.argsort(labels, kind="stable"), count)
    order = np.random.default_rng(seed).permutation(count)
    return [
        np.sort(np.concatenate([runs[i] for i in order[rank::parties]])) for rank in range(parties)
    ]


PARTITIONS: dict[str, Callable[[Labels, int, int], Rows]] = {"iid": iid, "shards": shards}


def split_among(split: Split, parties: int, partition: str = "iid", seed: int = 0) -> list[Split]:
    """Returns one share of the records, which come shuffled, for each party.

    The partition is of training records: "iid" (sizes differ by one at most) or "shards". Held-out
    records are always dealt evenly, since the model is judged by all of them. Records of a person
    stay together.
    """
    for name, count in (("training", len(split.train_x)), ("held-out", len(split.test_x))):
        Whole(1, count, f"at most {count}, the number of {name} records").check("parties", parties)
    one_of(PARTITIONS).check("partition", partition)
    if split.train_units is None:
        train = PARTITIONS[partition](split.train_y, parties, seed)
    elif partition == "iid":
        train = [np.flatnonzero(split.train_units % parties == rank) for rank in range(parties)]
    else:
        raise ArgumentError("partition", partition, "'iid' where records have persons")
    test = iid(split.test_y, parties, seed)
    return [split.taken(*rows) for rows in zip(train, test, strict=True)]
