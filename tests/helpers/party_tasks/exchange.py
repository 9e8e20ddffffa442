"""What CrypTen's collective returns and counts with openings that are exchanged directly."""

from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
from torch.distributed import ReduceOp

from crypten_ext import gaussian_noise, nn, optim, vouch_for
from crypten_ext.functions import count_correct
from crypten_ext.processes.worker import Context
from crypten_ext.ring import exchange
from crypten_ext.transport.group import Links
from extensions.transport import Mesh
from tests.helpers.party_tasks.protocols import session

import crypten
from crypten import communicator

Answer = tuple[list[torch.Tensor], dict[str, Any]]


def both_ways(context: Context, *, words: int) -> dict[str, tuple[Answer, Answer]]:
    """Returns results and traffic of each kind of call, ours first and then CrypTen's own."""
    draws = torch.Generator().manual_seed(context.rank)
    full = {"low": -(2**63), "high": 2**63 - 1, "generator": draws}
    x, y = (torch.randint(size=(n,), **full) for n in (words, 3))
    calls: dict[str, Any] = {
        "sum": lambda world: [world.all_reduce(x)],
        "xor": lambda world: [world.all_reduce(x.reshape(1, -1), op=ReduceOp.BXOR)],
        "batched": lambda world: world.all_reduce([x, y.reshape(3, 1)], batched=True),
        "mixed": lambda world: world.all_reduce([x, y.double(), y.int()], batched=True),
        "largest": lambda world: [world.all_reduce(y, op=ReduceOp.MAX)],
        "scalar": lambda world: [world.all_reduce(torch.tensor(context.rank + 1.5))],
        "slice": lambda world: [world.all_reduce(y.flip(0)[1:])],
    }
    answers = {}
    with session():
        for name, call in calls.items():
            kept = x.clone(), y.clone()
            ours = _answer(call)
            exchange.remove()
            answers[name] = ours, _answer(call)
            exchange.install()
            assert torch.equal(kept[0], x)
            assert torch.equal(kept[1], y)
    return answers


def _answer(call: Any) -> Answer:
    crypten.reset_communication_stats()
    results = call(communicator.get())
    statistics = communicator.get().get_communication_stats()
    return results, {name: statistics[name] for name in ("rounds", "bytes")}


def messages(context: Context, *, sizes: list[int]) -> list[int]:
    """Returns how many messages this party sends to others, for openings of that many bytes.

    Over gloo those that it sends itself, without what gloo does for a ring.
    """
    sent = []

    def counting(send: Any) -> Any:
        def counted(*arguments: Any, **others: Any) -> Any:
            sent[-1] += 1
            return send(*arguments, **others)

        return counted

    isend = patch.object(exchange.distributed, "isend", counting(exchange.distributed.isend))
    with session(), isend, patch.object(Mesh, "send", counting(Mesh.send)):
        for size in sizes:
            sent.append(0)
            communicator.get().all_reduce(torch.zeros(size // 8, dtype=torch.int64))
    return sent


def received(context: Context) -> npt.NDArray[np.int64]:
    """Returns all words that others sent this party as their shares of sums, where all is zero."""
    words: list[torch.Tensor] = []
    combined, all_to_all = Links.combined, Links._all_to_all
    adding = False

    def noting(self: Links, own: torch.Tensor, combine: Any) -> torch.Tensor:
        nonlocal adding
        adding = combine is torch.add
        return combined(self, own, combine)

    def keeping(self: Links, own: torch.Tensor, **others: Any) -> dict[int, torch.Tensor]:
        found = all_to_all(self, own, **others)
        words.extend(found.values() if adding else ())
        return found

    with patch.multiple(Links, combined=noting, _all_to_all=keeping), session():
        x = crypten.cryptensor(torch.zeros(64, 16))
        y = crypten.cryptensor(torch.eye(4)[torch.zeros(64, dtype=torch.int64)])
        model = nn.Linear(16, 4).encrypt()
        optimizer = optim.DPSGD(
            model, lr=1.0, max_grad_norm=1.0, noise_multiplier=1.0, sample_rate=1.0
        )
        xb, yb = vouch_for(x, y, sample_rate=1.0, max_feature_norm=1.0)
        nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        optimizer.step()
        count_correct(model.eval()(x), y)
        x.inverse_sqrt()
        gaussian_noise(500, 1.0).reveal()
        for parameter in model.parameters():
            parameter.reveal()
    return torch.cat([each.reshape(-1) for each in words]).numpy()
