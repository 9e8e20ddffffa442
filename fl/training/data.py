"""Records as two tensors, from whatever data set they come."""

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from extensions.errors import ArgumentError

Records = Dataset[Any] | tuple[Any, Any]
"""A map-style data set of pairs (record, label), or a pair of arrays or tensors."""


def as_tensors(records: Records, name: str) -> tuple[Tensor, Tensor]:
    """Returns records (records, ...) and labels (records,) or (records, ...), each as it is.

    Records of double or half precision are in single precision; integers stay integers.

    Args:
        records: the data set; one that is no `TensorDataset` is read item by item.
        name: of the argument, for errors.

    Raises:
        ArgumentError: no records, or not as many labels.
    """
    if isinstance(records, TensorDataset):
        x, y = records.tensors
    elif isinstance(records, tuple):
        x, y = (_tensor(array, name) for array in records)
    else:
        items = [records[i] for i in range(len(cast(Any, records)))]
        x = torch.stack([torch.as_tensor(item[0]) for item in items]) if items else torch.empty(0)
        y = torch.tensor([item[1] for item in items])
    if len(x) == 0 or len(x) != len(y):
        given = f"{len(x)} records, {len(y)} labels"
        raise ArgumentError(name, given, "records and as many labels, at least one")
    return single(x), y


def _tensor(values: Any, name: str) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError) as error:
        advice = "fl.tokens makes rows of integers from texts."
        raise ArgumentError(name, type(values).__name__, "numbers", advice) from error


def single(values: Tensor) -> Tensor:
    """Returns floating-point numbers in single precision, others as they are."""
    return values.to(torch.float32) if values.is_floating_point() else values
