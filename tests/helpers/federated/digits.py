"""Digits dealt out to clients who train a linear model, as tests of mechanisms share them."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import fl
from fl.protocols import Mechanism

X, Y = load_digits(return_X_y=True)
X = X / 16
TRAIN, TEST = (X[:1500], Y[:1500]), (X[1500:], Y[1500:])
SIZE = 650


def linear() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(64, 10)


def run_on_digits(
    mechanism: Mechanism, *, rounds: int, clients: int = 50, **settings: object
) -> fl.FederatedAveraging:
    """Returns a run of so many rounds, evaluated after the last."""
    given: dict[str, object] = {
        "aggregator": fl.PlainAggregator(),
        "client_fraction": 1.0,
        "local_epochs": 1,
        "lr": 0.5,
        "weighting": "equal",
        **settings,
    }
    run = fl.FederatedAveraging(
        model=linear(), clients=fl.partition(TRAIN, clients), mechanism=mechanism, **given
    )  # type: ignore[arg-type]
    if rounds:
        run.fit(rounds, TEST, evaluate_every=rounds, progress=False)
    return run
