"""Checks of a run's model, records and labels before anything starts."""

import copy
import itertools
import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from extensions.errors import ArgumentError
from fl.clients import Loss
from fl.training.data import Records, as_tensors, single
from fl.weights import device_of


def checked_records(
    model: nn.Module,
    named: Mapping[str, Records],
    loss: Loss,
    *,
    hidden: bool = False,
    trains: bool | None = False,
) -> list[tuple[Tensor, Tensor]]:
    """Returns records and labels of each data set, which fit the model; integers with 64 bits.

    Records with NaN or infinity are accepted here: their client's update is refused in the round,
    or counts as zeros (`Mechanism.hides_updates`), or they count for nothing where each record is
    protected (`RecordDP`).

    Args:
        model: tried on one record of every shape.
        named: the data sets, by their names for errors.
        loss: takes the labels; for `cross_entropy` they number classes from 0.
        hidden: whether nobody may learn of a single record: an error tells everybody that there is
            one. Shapes and types of all are checked then, on a record of ones, and no value.
        trains: whether the loss trains, and not only measures; None: nobody uses it.

    Raises:
        ArgumentError: a model with NaN or infinite weights, no records, or records or labels that
            do not fit it; names whose.
    """
    if wrong := sum(int((~entry.isfinite()).sum()) for entry in model.state_dict().values()):
        rule = "a model of finite weights"
        raise ArgumentError("model", f"{wrong} NaN or infinite weights", rule, code="range")
    outputs: dict[tuple[Any, ...], tuple[int, ...]] = {}
    pairs = [as_tensors(records, name, hidden=hidden) for name, records in named.items()]
    if hidden and loss is cross_entropy:
        pairs = [(x, _numbers(y)) for x, y in pairs]
    found = [(x, y if y.is_floating_point() else y.long()) for x, y in pairs]
    kinds: set[tuple[Any, ...]] = set()
    for name, (x, y) in zip(named, found, strict=True):
        like = x.shape[1:], x.dtype
        if like not in outputs:
            outputs[like] = _outputs(
                model, torch.ones_like(x[:1]) if hidden else x[:1], f"records of {name}"
            )
        if loss is cross_entropy and (y.ndim == 1 or not y.is_floating_point()):
            _check_labels(y, outputs[like], f"labels of {name}", hidden=hidden)
        elif y.is_floating_point() and y.shape[1:] != outputs[like]:
            raise _of_another_shape(y, outputs[like], f"labels of {name}")
        elif trains is not None and (kind := (outputs[like], y.shape[1:], y.dtype)) not in kinds:
            kinds.add(kind)
            given = single(y).to(device_of(model))
            with torch.set_grad_enabled(trains):
                _check_loss(loss, outputs[like], given, f"labels of {name}")
    return [(x, single(y)) for x, y in found]


def _numbers(y: Tensor) -> Tensor:
    """Returns classes as integers where a missing one made floating-point numbers of a column.

    What is no whole number becomes one that no training takes.
    """
    if not y.is_floating_point() or y.ndim > 1 or not (whole := y.frac() == 0).any():
        return y
    return torch.where(whole, y, 0).long().masked_fill(~whole, torch.iinfo(torch.int64).min)


def _of_another_shape(y: Tensor, outputs: tuple[int, ...], name: str) -> ArgumentError:
    rule = f"{outputs} for each record, as the model's outputs"
    hint = f"Type: labels.reshape{(-1, *outputs)}."
    return ArgumentError(name, tuple(y.shape[1:]), rule, hint, code="shape")


def _check_loss(loss: Loss, outputs: tuple[int, ...], y: Tensor, name: str) -> None:
    """Checks that a loss takes such labels, each with the outputs of its own record.

    It is tried on made-up ones, as many as no side of theirs: PyTorch broadcasts (n, 1) and (n,) to
    (n, n), and (n, n) and (n,) as well.
    """
    rows = next(count for count in itertools.count(2) if count not in outputs)
    values = torch.arange(rows, device=y.device) % 2
    found, labels = (
        values.to(dtype).reshape(rows, *(1 for _ in shape)).expand(rows, *shape)
        for dtype, shape in ((torch.float32, outputs), (y.dtype, y.shape[1:]))
    )
    found = found.clone().requires_grad_()
    try:
        with warnings.catch_warnings(action="ignore"):
            together = loss(found, labels)
            if torch.is_grad_enabled():
                torch.autograd.grad(together, found)
            if math.prod(outputs) == 1 and y.shape[1:] != outputs:
                crossed = loss(found, labels.flip(0))
                if math.isclose(float(together), float(crossed), rel_tol=1e-5):
                    raise _of_another_shape(y, outputs, name)
    except ArgumentError:
        raise
    except Exception as error:  # of whatever kind: made-up values are nobody's
        rule = f"what the loss accepts for outputs of shape {outputs} per record: {error}"
        hint = "Unless labels are classes, give floating-point numbers of the outputs' shape."
        shown = f"{y.dtype} of shape {tuple(y.shape)}"
        raise ArgumentError(name, shown, rule, hint, code="data") from error


def check_single(model: nn.Module, x: Tensor, name: str) -> None:
    """Checks that the model trains on a single record, as BatchNorm does not; tries one of ones."""
    device = device_of(model)
    trained = copy.deepcopy(model).train()
    two = torch.ones((2, *x.shape[1:]), dtype=x.dtype, device=device)
    with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            trained(two)
        except Exception:  # it does not train at all
            return
        try:
            trained(two[:1])
        except Exception as error:
            rule = "2 or more with this model"
            hint = f"Give {{drop_last=True}}, larger steps or clients, or use GroupNorm. {error}"
            fewest = f"fewest records in a step of {name}"
            raise ArgumentError(fewest, 1, rule, hint, code="range") from error


def _check_labels(y: Tensor, outputs: tuple[int, ...], name: str, *, hidden: bool) -> None:
    """Checks that labels number classes, of which a record has an output each."""
    if y.dtype != torch.int64:
        raise ArgumentError(name, str(y.dtype), "torch.int64, or other integers", code="type")
    if not outputs or tuple(y.shape[1:]) != outputs[1:]:
        rule = f"of shape {outputs[1:]} a record, whose outputs have shape {outputs}: one a class"
        raise ArgumentError(name, tuple(y.shape[1:]), rule, code="shape")
    if hidden:
        return
    least, most, classes = int(y.min()), int(y.max()), outputs[0]
    if least < 0 or most >= classes:
        rule = f"in 0..{classes - 1}, as the model's"
        raise ArgumentError(name, f"{least}..{most}", rule, code="data")


@torch.no_grad()
def _outputs(model: nn.Module, record: Tensor, name: str) -> tuple[int, ...]:
    training = model.training
    try:
        pair = torch.cat([record, record])  # which BatchNorm takes, also without statistics
        return tuple(model.eval()(pair.to(device_of(model))).shape[1:])
    except (RuntimeError, ValueError, IndexError, AttributeError, TypeError) as error:
        kind = "" if record.is_floating_point() else f"{record.dtype} of "
        given = f"{kind}shape {tuple(record.shape[1:])}"
        hint = "Integers stay integers: give floating-point numbers if the model needs them."
        hint = f"{hint} {error}"
        raise ArgumentError(name, given, "what the model accepts", hint, code="shape") from error
    finally:
        model.train(training)
