"""What server and clients have in common; PEA_DATA is a folder with MNIST's files in mnist."""

import functools
import os
from pathlib import Path

import torch
from flwr.app import Context
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import fl
from extensions.data.datasets.mnist import read_mnist
from fl.training.data import Records

CLIENTS = 5


def new_model() -> nn.Module:
    """Returns the model from which all parties start."""
    torch.manual_seed(0)
    return fl.models.mlp()


SETTINGS = {
    "model": new_model(),
    "clients": CLIENTS,
    "client_fraction": 1.0,
    "aggregator": fl.MaskedAggregator(timeout=60.0),
}


@functools.cache
def _split(part: str) -> tuple[torch.Tensor, torch.Tensor]:
    raw = read_mnist(Path(os.environ["PEA_DATA"]) / "mnist", download=False)
    x, y = (torch.tensor(getattr(raw, f"{part}_{name}")) for name in ("x", "y"))
    return x.reshape(len(x), -1) / 255, y


def test_records() -> Records:
    """Returns the images that no client has."""
    return _split("test")


def own_records(context: Context) -> Records:
    """Returns the images of this SuperNode; an owner reads files of its own here."""
    return fl.partition(_split("train"), CLIENTS)[int(context.node_config["partition-id"])]


def train(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    """Trains the model in place; it sees neither masks nor other clients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(records, batch_size=50, shuffle=True):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
