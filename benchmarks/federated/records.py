"""MNIST as the papers on federated learning take it: images (records, 1, 28, 28) in [0, 1]."""

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from extensions.data.datasets import load_raw

Pair = tuple[Tensor, Tensor]
"""Images and labels."""


@lru_cache(maxsize=1)
def mnist(data_dir: Path | None, train_records: int | None = None) -> tuple[Pair, Pair]:
    """Returns the training records and the test records, which one process reads once.

    Args:
        data_dir: folder of the four files; None: of `extensions.data.datasets.find_folder`.
        train_records: how many of the training records, in an order shuffled by seed 0; None: all.

    Raises:
        ArgumentError: there is no such folder.
    """
    split = load_raw("mnist", data_dir, 0)
    train, test = (
        (torch.tensor(x, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255, torch.tensor(y))
        for x, y in (
            (split.train_x[:train_records], split.train_y[:train_records]),
            (split.test_x, split.test_y),
        )
    )
    return train, test
