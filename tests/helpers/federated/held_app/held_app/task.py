"""What server and clients have in common."""

import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits

import fl

HOOKS = Path(os.environ["FL_HOOKS"])
CLIENTS = 5
X, Y = load_digits(return_X_y=True)
RECORDS = fl.partition((X[:100] / 16, Y[:100]), CLIENTS)
torch.manual_seed(1)
SETTINGS = {
    "model": fl.models.mlp(64, 8, 10),
    "clients": CLIENTS,
    "client_fraction": 1.0,
    "timeout": 3600.0,
    "aggregator": fl.MaskedAggregator(timeout=3600.0),
}
"""Nobody is left out because the machine is slow: who is gone is noticed by Flower."""
