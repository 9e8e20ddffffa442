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
    whole = records.tensors if isinstance(records, TensorDataset) else records
    try:
        if isinstance(whole, tuple):
            x, y = map(torch.as_tensor, whole)
        else:
            pairs = [whole[i] for i in range(len(cast(Any, whole)))] or [((), ())]
            x, y = (
                torch.stack(list(map(torch.as_tensor, part))) for part in zip(*pairs, strict=True)
            )
    except (TypeError, ValueError, RuntimeError) as error:
        allowed = f"a data set of pairs, or two arrays, of numbers, and not: {error}"
        advice = "Records have one shape, and labels have; fl.tokens makes integers from texts."
        raise ArgumentError(name, type(records).__name__, allowed, advice) from error
    rows, labels = (len(part) if part.numel() and part.ndim else 0 for part in (x, y))
    if rows == 0 or rows != labels:
        given = f"{rows} records, {labels} labels"
        raise ArgumentError(name, given, "records and as many labels, at least one")
    return single(x), y


def single(values: Tensor) -> Tensor:
    """Returns floating-point numbers in single precision, others as they are."""
    return values.to(torch.float32) if values.is_floating_point() else values
