"""Records and models that the options of `pea fl` ask for."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from extensions.data.datasets import classes_in
from extensions.data.origin import Origin
from extensions.errors import ArgumentError
from fl.cli.choices import as_options
from fl.training import models
from fl.training.records import UNEVEN, partition, tokens

Shape = tuple[int, ...]

ALPHA = 0.5
LARGEST_PIXEL = 255


@dataclass(frozen=True, kw_only=True)
class Data:
    """Records (records, *shape) of a data set, in single precision or numbers of words, and labels.

    Attributes:
        train: to be dealt out to clients.
        test: held out.
        classes: number of classes.
        names: of the classes of a table, else empty.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    classes: int
    names: tuple[str, ...]

    @property
    def shape(self) -> Shape:
        """That of one record."""
        return tuple(self.train[0].shape[1:])

    def dealt(
        self, clients: int, scheme: str, alpha: float | None, seed: int
    ) -> list[TensorDataset]:
        """Returns each client's records."""
        if alpha is not None and scheme not in UNEVEN:
            raise ArgumentError("alpha", alpha, "{partition=dirichlet}", code="needs")
        with as_options(n="clients", scheme="partition"):
            usual = ALPHA if alpha is None else alpha
            return partition(self.train, clients, scheme, alpha=usual, seed=seed)


def read(origin: Origin) -> Data:
    """Returns images (channels, height, width) in [0, 1], tables as they are, texts as `tokens`."""
    (split,) = origin.read(1)

    def tensor(x: Any) -> Tensor:
        if split.kind == "texts":
            return torch.from_numpy(tokens(list(x), buckets=models.BUCKETS))
        values = torch.tensor(x, dtype=torch.float32)
        if split.kind == "table":
            return values
        images = values.unsqueeze(1) if values.ndim == 3 else values.permute(0, 3, 1, 2)
        return images.contiguous() / LARGEST_PIXEL

    return Data(
        train=(tensor(split.train_x), torch.tensor(split.train_y)),
        test=(tensor(split.test_x), torch.tensor(split.test_y)),
        classes=split.classes,
        names=classes_in(split.recipe),
    )


def _numbers(data: Data) -> bool:
    return data.train[0].is_floating_point()


def _of_mnist(data: Data) -> bool:
    return (data.shape, data.classes) == ((1, 28, 28), 10)


_MODELS: dict[str, tuple[Callable[[Data], bool], Callable[[Shape, int], nn.Module]]] = {
    "logistic": (_numbers, lambda shape, classes: models.logistic(math.prod(shape), classes)),
    "mlp": (_numbers, lambda shape, classes: models.mlp(math.prod(shape), classes=classes)),
    "cnn": (_of_mnist, lambda shape, classes: models.cnn()),
    "cnn-mnist": (_of_mnist, lambda shape, classes: models.cnn_mnist()),
    "lenet": (
        lambda data: data.shape[1:] == (32, 32),
        lambda shape, classes: models.lenet(shape[0], classes),
    ),
    "embedding": (
        lambda data: not _numbers(data),
        lambda shape, classes: models.embedding(classes=classes),
    ),
}
"""By name: whether a model fits the records, and how it is made for a shape and classes."""


def model_of(name: str, data: Data, seed: int) -> nn.Module:
    """Returns the model, with initial values drawn from the seed, which is public."""
    fitting = [other for other, (fits, _) in _MODELS.items() if fits(data)]
    if name not in fitting:
        kind = f"records of shape {data.shape}" if _numbers(data) else "texts"
        allowed = f"one of {', '.join(fitting)} for {kind}, {data.classes} classes"
        raise ArgumentError("model", name, allowed)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return _MODELS[name][1](data.shape, data.classes)
