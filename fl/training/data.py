"""Records as two tensors, from whatever data set they come."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from extensions.errors import ArgumentError

Records = Dataset[Any] | tuple[Any, Any]
"""A map-style data set of pairs (record, label), or a pair of arrays or tensors."""


def as_tensors(records: Records, name: str) -> tuple[Tensor, Tensor]:
    """Returns records (records, ...) in single precision and labels (records,) as they are.

    Args:
        records: the data set; one that is no `TensorDataset` is read item by item.
        name: of the argument, for errors.

    Raises:
        ArgumentError: no records, or not as many labels.
    """
    if isinstance(records, TensorDataset):
        x, y = records.tensors
    elif isinstance(records, tuple):
        x, y = (torch.as_tensor(array) for array in records)
    else:
        items = [records[i] for i in range(len(cast(Any, records)))]
        x = torch.stack([torch.as_tensor(item[0]) for item in items]) if items else torch.empty(0)
        y = torch.tensor([item[1] for item in items])
    if len(x) == 0 or len(x) != len(y):
        given = f"{len(x)} records, {len(y)} labels"
        raise ArgumentError(name, given, "records and as many labels, at least one")
    return x.to(torch.float32), y
