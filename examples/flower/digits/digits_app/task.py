"""What server and clients have in common, and what each client does on its own records."""

import torch
from flwr.app import Context
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import fl
from fl.training.data import Records

CLIENTS, TRAIN = 5, 1500


def new_model() -> nn.Module:
    """Returns the model from which all parties start."""
    torch.manual_seed(0)
    return fl.models.mlp(64)


SETTINGS = {
    "model": new_model(),
    "clients": CLIENTS,
    "client_fraction": 1.0,
    "aggregator": fl.MaskedAggregator(timeout=60.0),
}


def test_records() -> tuple[object, object]:
    """Returns digits that no client has."""
    x, y = load_digits(return_X_y=True)
    return x[TRAIN:] / 16, y[TRAIN:]


def own_records(context: Context) -> Records:
    """Returns the digits of this SuperNode; an owner reads files of its own here."""
    x, y = load_digits(return_X_y=True)
    return fl.partition((x[:TRAIN] / 16, y[:TRAIN]), CLIENTS)[
        int(context.node_config["partition-id"])
    ]


def train(model: nn.Module, records: TensorDataset, round: fl.ClientRound) -> None:
    """Trains the model in place; it sees neither masks nor other clients."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        for x, y in DataLoader(records, batch_size=10, shuffle=True):
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()
