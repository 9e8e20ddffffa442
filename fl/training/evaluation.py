"""How well a model does on records held out."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from extensions.errors import ArgumentError
from fl.clients import Loss
from fl.training.data import Records
from fl.training.history import RoundReport
from fl.training.inputs import checked_records
from fl.weights import device_of

ROWS = 1000

Metric = Callable[[Tensor, Tensor], float | Tensor]
"""From all outputs and all labels to one number."""

ACCURACY, LOSS = "accuracy", "loss"


def accuracy(outputs: Tensor, labels: Tensor) -> float:
    """Returns the share of records (records, classes) whose largest output is their label."""
    return float((outputs.argmax(1) == labels).sum()) / len(labels)


@torch.no_grad()
def evaluate(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, metrics: Mapping[str, Metric]
) -> dict[str, float]:
    """Returns the mean loss, the accuracy where labels number classes, and each metric, by name.

    The model has one output a record, or one a class; each metric sees those of all records at
    once. Raises ArgumentError, with the name of the metric, if one is not one number.
    """
    model.eval()
    device = device_of(model)
    x, y = x.to(device), y.to(device)
    outputs, total = [], 0.0
    for rows, labels in zip(torch.split(x, ROWS), torch.split(y, ROWS), strict=True):
        outputs.append(model(rows.clone()))  # which a model may change in place
        total += float(loss(outputs[-1], labels)) * len(labels)
    whole = torch.cat(outputs)
    found = {LOSS: total / len(y)}
    if numbers_classes(whole, y):
        found[ACCURACY] = accuracy(whole, y)
    for name, metric in metrics.items():
        try:
            found[name] = float(metric(whole, y))
        except (TypeError, ValueError, RuntimeError) as error:
            which = f"metrics[{name!r}]"
            raise ArgumentError(which, "another", "one number", f"{error}", code="type") from error
    return found


def numbers_classes(outputs: Tensor, labels: Tensor) -> bool:
    """Whether labels are numbers of classes, of which there is an output each."""
    return outputs.ndim == 2 and labels.ndim == 1 and not labels.is_floating_point()


def _tried(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, name: str) -> bool:
    """Returns whether labels number classes, of which the loss takes the first rows."""
    try:
        return ACCURACY in evaluate(model, x[:ROWS], y[:ROWS], loss, {})
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        shown = f"{y.dtype} of shape {tuple(y.shape)}"
        rule, hint = "what the loss accepts for the model's outputs", f"{error}"
        raise ArgumentError(f"labels of {name}", shown, rule, hint, code="data") from error


class Tests:
    """The records by which the models of a run are evaluated: a test set, and clients' own.

    `model_of` returns the model of a client.

    Raises ArgumentError if records or labels do not fit the model; names whose.
    """

    def __init__(
        self,
        model: nn.Module,
        test_set: Records | None,
        own: Mapping[int, Records],
        loss: Loss,
        metrics: Mapping[str, Metric],
        model_of: Callable[[int], nn.Module],
    ) -> None:
        named = {} if test_set is None else {"test_set": test_set}
        named |= {f"own_tests[{client}]": records for client, records in own.items()}
        found = checked_records(model, named, loss)
        tried = [_tried(model, *test, loss, name) for name, test in zip(named, found, strict=True)]
        classes = dict(zip(own, tried[len(named) - len(own) :], strict=True))
        if len(set(classes.values())) > 1:
            those = [client for client, numbered in classes.items() if not numbered]
            rule = "class numbers for all clients, or for none"
            raise ArgumentError("own_tests", f"those of clients {those}", rule, code="data")
        self._test = None if test_set is None else found.pop(0)
        self._own = dict(zip(own, found, strict=True))
        self._model = model
        self._model_of = model_of
        self._asked = loss, metrics

    def evaluated(self, report: RoundReport) -> RoundReport:
        """Returns the report with what the present model does."""
        own = {k: evaluate(self._model_of(k), *test, *self._asked) for k, test in self._own.items()}
        report = replace(report, of_clients=own)
        if self._test is None:
            return report
        found = evaluate(self._model, *self._test, *self._asked)
        accuracy, loss = found.pop(ACCURACY, None), found.pop(LOSS)
        return replace(report, accuracy=accuracy, loss=loss, metrics=found)
