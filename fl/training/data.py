"""Records as two tensors, from whatever data set they come."""

from collections import Counter
from collections.abc import Mapping
from logging import getLogger
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from extensions.errors import ArgumentError

LOG = getLogger(__name__)

Records = Dataset[Any] | tuple[Any, Any]
"""A map-style data set of pairs (record, label), or a pair of arrays, tensors, lists or tables."""


def as_tensors(records: Records, name: str, *, hidden: bool = False) -> tuple[Tensor, Tensor]:
    """Returns records (records, ...) and labels (records,) or (records, ...), each as it is.

    Records of double or half precision are in single precision; integers stay integers. One that
    is no `TensorDataset` is read item by item. Where records are `hidden`, nobody may learn of a
    single one: one that cannot be read, or of another shape or type than most, then becomes one
    that no training takes. Raises ArgumentError if there are no records, or not as many labels.
    """
    whole: Any = records.tensors if isinstance(records, TensorDataset) else records
    try:
        if isinstance(whole, tuple):
            whole = tuple(np.asarray(part) if is_table(part) else part for part in whole)
        elif isinstance(whole, Mapping) or is_table(whole):
            raise TypeError("one without a part for labels")
        if hidden and _of_items(whole):
            x, y = _usual(whole, name)
        elif isinstance(whole, tuple):
            x, y = map(as_tensor, whole)
        else:
            pairs = [whole[i] for i in range(len(whole))] or [((), ())]
            x, y = (torch.stack(list(map(as_tensor, part))) for part in zip(*pairs, strict=True))
    except (TypeError, ValueError, RuntimeError) as error:
        rule = "a data set of pairs, or a pair (records, labels), of numbers"
        hint = (
            "All records need one shape, and so do all labels. For frames and loaders use "
            f"fl.datasets.tensors, and for texts fl.tokens. {error}"
        )
        raise ArgumentError(name, _kind_of(records), rule, hint, code="type") from error
    rows, labels = (len(part) if part.numel() and part.ndim else 0 for part in (x, y))
    if rows == 0 or rows != labels:
        given = f"{rows} records, {labels} labels"
        rule = "records and as many labels, at least one"
        raise ArgumentError(name, given, rule, code="shape")
    return single(x), y


def single(values: Tensor) -> Tensor:
    """Returns floating-point numbers in single precision, others as they are."""
    return values.to(torch.float32) if values.is_floating_point() else values


def is_table(values: Any) -> bool:
    """Whether it is a table or a column, as of pandas or polars."""
    return hasattr(values, "to_numpy")


def as_tensor(values: Any) -> Tensor:
    """Returns numbers as a tensor, also those that an array holds as objects."""
    if isinstance(values, Tensor):
        if values.layout is not torch.strided:
            raise TypeError("a sparse tensor, which .to_dense() fills")
        return values.detach()
    array = np.asarray(values)
    if array.dtype == object:
        array = np.array(array.tolist())
    return torch.as_tensor(array if array.flags.writeable else array.copy())


def _kind_of(records: Any) -> str:
    """Returns the type of records, and of the parts of a pair, for errors."""
    parts = ", ".join(type(part).__name__ for part in records) if type(records) is tuple else ""
    return f"{type(records).__name__} of {parts}" if parts else type(records).__name__


def _of_items(whole: Any) -> bool:
    """Whether records or labels are single values, each of which may be of another kind."""
    parts = whole if isinstance(whole, tuple) else ([],)
    return any(isinstance(p, list) or getattr(p, "dtype", None) == np.dtype(object) for p in parts)


def _usual(whole: Any, name: str) -> tuple[Tensor, Tensor]:
    """Returns records and labels of the shapes and types that most have.

    In place of others stand NaN, or the least integer: these count as zeros, as they would.
    """
    items = list(zip(*whole, strict=True)) if isinstance(whole, tuple) else whole
    found = [_read(items, place) for place in range(len(items))]
    kinds = Counter(tuple((v.shape, v.dtype) for v in pair) for pair in found if pair)
    if not kinds:
        raise ValueError("none of them can be read")
    usual = kinds.most_common(1)[0][0]
    fitting = [pair if pair and _fits(pair, usual) else None for pair in found]
    if wrong := fitting.count(None):
        LOG.error("%s: %d are of another shape or type than most, and count as zeros", name, wrong)
    nothing = [_no_number(*kind) for kind in usual]
    parts = zip(*(pair or nothing for pair in fitting), strict=True)
    x, y = (torch.stack([v.to(kind[1]) for v in p]) for p, kind in zip(parts, usual, strict=True))
    return x, y


def _read(items: Any, place: int) -> tuple[Tensor, ...] | None:
    try:
        x, y = items[place]
        return as_tensor(x), as_tensor(y)
    except Exception:  # of whatever kind: it is this record's
        return None


def _fits(pair: tuple[Tensor, ...], kinds: tuple[Any, ...]) -> bool:
    """Whether values have these shapes, and are the same in these types."""
    return all(
        v.shape == shape and (v.dtype == dtype or torch.equal(v.to(dtype).to(v.dtype), v))
        for v, (shape, dtype) in zip(pair, kinds, strict=True)
    )


def _no_number(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    if dtype.is_floating_point or dtype.is_complex:
        return torch.full(shape, torch.nan, dtype=dtype)
    return torch.full(shape, 0 if dtype == torch.bool else torch.iinfo(dtype).min, dtype=dtype)
