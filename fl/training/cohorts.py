"""Trains clients of one small model at once: their parameters are rows of one tensor.

A step of one client on a small model is too little work for torch, whose time then goes into
calling operations. Here each operation serves a cohort of clients (`torch.func.vmap`). A client's
batches are those that `LocalSGD` takes by the client's seed, and its result is the same within
1e-5; nothing of it depends on another client's records.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import TensorDataset

from fl.clients import ClientRound, LocalSGD
from fl.weights import Weights, device_of, get_weights, set_weights

CLIENTS = 64
"""In a cohort, at most. It depends on nothing that varies, such as workers, so results do not."""
MOST_PARAMETERS = 2**16
"""On a processor: a larger model keeps a core busy with one client."""
MOST_VALUES = 2**26
"""Of records and models of a cohort, beside each other: 256 MB."""
_CLOSE = 1e-5

Own = tuple[Tensor, Tensor]
"""A client's records and labels."""


@dataclass(frozen=True)
class Cohorts:
    """Trains cohorts of a model.

    Attributes:
        model: its structure, and what is frozen in it.
        training: what each client does.
        without: names of values that are no part of the weights.
    """

    model: nn.Module
    training: LocalSGD
    without: tuple[str, ...] = ()

    def why_not(self, records: Own) -> str:
        """Returns why clients are trained one by one, or "" if they need not be.

        Both ways are tried on made-up records of the shape and type of the given ones.
        """
        x, y = records
        size = sum(p.numel() for p in self.model.parameters())
        if device_of(self.model).type == "cpu" and size > MOST_PARAMETERS:
            return f"its {size} parameters keep a core busy (up to {MOST_PARAMETERS} share steps)"
        if not x.is_floating_point() or not (y.is_floating_point() or self._of_classes(y)):
            return "records must be numbers with targets, or with classes for cross_entropy"
        short = replace(self.training, epochs=1, batch_size=2, lr=0.1, drop_last=False)
        tried = replace(self, training=short)
        try:
            return tried._differs(x, y)
        except Exception as error:  # whatever torch says of a model or a loss
            return f"{error}".splitlines()[0]

    def clients(self, records: Iterable[Own]) -> int:
        """Returns how many of these clients are in a cohort at most, by their public sizes."""
        each = 4 * sum(p.numel() for p in self.model.parameters())
        return max(1, min(CLIENTS, MOST_VALUES // (each + max(x.numel() for x, _ in records))))

    def _of_classes(self, y: Tensor) -> bool:
        """Whether labels are classes, and the loss a mean in which each record counts alike."""
        loss = self.training.loss
        if isinstance(loss, nn.CrossEntropyLoss):
            return y.ndim == 1 and loss.weight is None and loss.ignore_index < 0
        return y.ndim == 1 and loss is cross_entropy

    def _differs(self, x: Tensor, y: Tensor) -> str:
        weights = get_weights(self.model, without=self.without)
        draws = torch.Generator().manual_seed(0)
        records, rounds, apart = [], [], []
        for client, rows in enumerate((3, 5)):  # batches of 2 and 1: one client pauses, all pad
            made = torch.randn((rows, *x.shape[1:]), generator=draws, dtype=x.dtype)
            labels = torch.rand((rows, *y.shape[1:]), generator=draws).to(y.dtype)
            own = made.to(device_of(self.model)), labels.to(device_of(self.model))
            records.append(own)
            rounds.append(ClientRound(number=1, client=client, seed=client))
            model = copy.deepcopy(self.model)
            torch.default_generator.manual_seed(client)
            self.training(model, TensorDataset(*own), rounds[-1])
            apart.append(get_weights(model, without=self.without, like=self.model))
        for one, other in zip(apart, self.train(weights, records, rounds), strict=True):
            if not abs(one - other).max() <= _CLOSE * max(1.0, abs(one).max()):
                return "its loss is not a batch mean, or training changes more than weights"
        return ""

    def train(
        self, weights: Weights, records: Sequence[Own], rounds: Sequence[ClientRound]
    ) -> list[Weights]:
        """Returns each client's weights after its training.

        Raises:
            Exception: whatever torch raises for a model, loss or record that no cohort takes.
        """
        model = copy.deepcopy(self.model).train()
        set_weights(model, weights, without=self.without)
        plans = [
            list(self.training.batches(len(x), torch.Generator().manual_seed(each.seed)))
            for (x, _), each in zip(records, rounds, strict=True)
        ]
        order = sorted(range(len(plans)), key=lambda k: len(plans[k]), reverse=True)
        device = device_of(model)
        x, y = (
            pad_sequence([records[k][part] for k in order], batch_first=True).to(device)
            for part in (0, 1)
        )
        trained = [(k, p) for k, p in model.named_parameters() if p.requires_grad]
        starts = {k: p.detach().clone() for k, p in trained}
        rows = {k: p.expand(len(order), *p.shape).clone() for k, p in starts.items()}
        losses = vmap(partial(self._loss, model))
        for step in range(len(plans[order[0]])):
            batches = [plans[k][step] for k in order if step < len(plans[k])]
            places, shares = (part.to(device) for part in _padded(batches))
            clients = torch.arange(len(batches), device=device)[:, None]
            active = {k: p[: len(batches)].requires_grad_() for k, p in rows.items()}
            # A row is in its client's loss only. torch.func.grad would import a compiler.
            total = losses(active, x[clients, places], y[clients, places], shares).sum()
            found = torch.autograd.grad(total, list(active.values()), materialize_grads=True)
            with torch.no_grad():
                for (k, p), gradient in zip(active.items(), found, strict=True):
                    against = self.training.direction(gradient, p.detach(), starts[k])
                    p.detach().add_(against, alpha=-self.training.lr)
        results: dict[int, Weights] = {}
        for row, client in enumerate(order):
            with torch.no_grad():
                for k, p in trained:
                    p.copy_(rows[k][row])
            results[client] = get_weights(model, without=self.without, like=self.model)
        return [results[client] for client in range(len(order))]

    def takes(self, records: Sequence[Own]) -> list[bool]:
        """Returns which clients' records cannot stop a cohort, each by its own records alone."""
        x, y = records[0]
        classes = 0
        if not y.is_floating_point():
            with torch.no_grad():
                one = torch.zeros((1, *x.shape[1:]), dtype=x.dtype, device=device_of(self.model))
                classes = copy.deepcopy(self.model).eval()(one).shape[1]
        labelled = [
            y.isfinite().all() if y.is_floating_point() else ((y >= 0) & (y < classes)).all()
            for _, y in records
        ]
        finite = [x.isfinite().all() for x, _ in records]
        return [bool(both) for both in map(torch.logical_and, finite, labelled)]

    def _loss(
        self, model: nn.Module, parameters: dict[str, Tensor], x: Tensor, y: Tensor, shares: Tensor
    ) -> Tensor:
        """Returns the loss of one client's batch, of which each record has its share."""
        outputs = functional_call(model, parameters, (x,))
        if self.training.loss is cross_entropy and not y.is_floating_point():
            return cross_entropy(outputs, y, reduction="none") @ shares
        each = vmap(lambda row, label: self.training.loss(row[None], label[None]))
        return each(outputs, y) @ shares


def _padded(batches: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Returns each batch's places, and the share of each in the mean, 0 where it is padded.

    A place is padded by the batch's first: a record that is not there cannot make a gradient NaN.
    """
    most = max(map(len, batches))
    places = torch.stack([torch.cat([b, b[:1].expand(most - len(b))]) for b in batches])
    sizes = torch.tensor([len(b) for b in batches])[:, None]
    return places, (torch.arange(most) < sizes) / sizes
