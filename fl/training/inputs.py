"""Checks of a run's model, records and labels before anything starts."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from extensions.errors import ArgumentError
from fl.clients import Loss
from fl.training.data import Records, as_tensors, single
from fl.training.weights import device_of


def checked_records(
    model: nn.Module, named: Mapping[str, Records], loss: Loss
) -> list[tuple[Tensor, Tensor]]:
    """Returns records and labels of each data set, which fit the model.

    Records with NaN or infinity are accepted here: their client's update is refused in the round,
    or counts as zeros (`Mechanism.hides_updates`), or they count for nothing where each record is
    protected (`RecordDP`).

    Args:
        model: tried on one record of every shape.
        named: the data sets, by their names for errors.
        loss: labels are checked for `cross_entropy` alone, which numbers classes from 0.

    Raises:
        ArgumentError: a model with NaN or infinite weights, no records, or records or labels that
            do not fit it; names whose.
    """
    if wrong := sum(int((~entry.isfinite()).sum()) for entry in model.state_dict().values()):
        raise ArgumentError("model", f"{wrong} NaN or infinite weights", "one of finite weights")
    outputs: dict[torch.Size, tuple[int, ...]] = {}
    found = [as_tensors(records, name) for name, records in named.items()]
    for name, (x, y) in zip(named, found, strict=True):
        shape = x.shape[1:]
        if shape not in outputs:
            outputs[shape] = _outputs(model, x[:1], f"records of {name}")
        if loss is cross_entropy and (y.ndim == 1 or not y.is_floating_point()):
            _check_labels(y, outputs[shape], f"labels of {name}")
        elif y.is_floating_point() and y.shape[1:] != outputs[shape]:
            allowed = f"{outputs[shape]} as the model's outputs, a record"
            advice = "A model with one output a record has labels of shape (records, 1)."
            raise ArgumentError(f"labels of {name}", tuple(y.shape[1:]), allowed, advice)
    return [(x, single(y)) for x, y in found]


def _check_labels(y: Tensor, outputs: tuple[int, ...], name: str) -> None:
    """Returns only if labels number classes, of which a record has an output each."""
    if y.dtype not in (torch.int64, torch.uint8):
        raise ArgumentError(name, str(y.dtype), "torch.int64 or torch.uint8")
    if not outputs or tuple(y.shape[1:]) != outputs[1:]:
        allowed = f"of shape {outputs[1:]} a record, whose outputs have shape {outputs}"
        raise ArgumentError(name, tuple(y.shape[1:]), f"{allowed}: one a class")
    least, most, classes = int(y.min()), int(y.max()), outputs[0]
    if least < 0 or most >= classes:
        raise ArgumentError(name, f"{least}..{most}", f"in 0..{classes - 1}, as the model's")


@torch.no_grad()
def _outputs(model: nn.Module, record: Tensor, name: str) -> tuple[int, ...]:
    training = model.training
    try:
        return tuple(model.eval()(record.clone().to(device_of(model))).shape[1:])
    except (RuntimeError, ValueError, IndexError, AttributeError, TypeError) as error:
        kind = "" if record.is_floating_point() else f"{record.dtype} of "
        given = f"{kind}shape {tuple(record.shape[1:])}"
        advice = "Integers stay integers: give floating-point numbers where a model wants those."
        raise ArgumentError(name, given, f"what the model takes: {error}", advice) from error
    finally:
        model.train(training)
