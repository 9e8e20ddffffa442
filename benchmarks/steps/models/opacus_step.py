"""Opacus at the steps of `benchmarks.steps.step`, in the clear.

``python -m benchmarks.steps.models.opacus_step MODEL BATCH STEPS`` answers one line of JSON: the
seconds of each step by kind, and versions. It imports nothing of this project.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

PLAIN, GHOST, MATERIALISED = "plain SGD", "DPSGD", "DPSGD, materialised"
MODES = {GHOST: "ghost", MATERIALISED: "hooks"}
"""What Opacus calls the ways to clip."""
WARM_UP = 2


def model_of(name: str) -> Any:
    """Returns the model of that name in PyTorch, for images of MNIST's size."""
    from torch.nn import (
        AvgPool2d,
        Conv2d,
        Flatten,
        Linear,
        MaxPool2d,
        ReLU,
        Sequential,
        Tanh,
    )

    layers: dict[str, Callable[[], list[Any]]] = {
        "LeNet-5": lambda: [
            *(Conv2d(1, 6, 5, padding=2), Tanh(), AvgPool2d(2)),
            *(Conv2d(6, 16, 5), Tanh(), AvgPool2d(2), Flatten()),
            *(Linear(400, 120), Tanh(), Linear(120, 84), Tanh(), Linear(84, 10)),
        ],
        "CNN": lambda: [
            *(Conv2d(1, 16, 8, stride=2, padding=3), Tanh(), MaxPool2d(2, 1)),
            *(Conv2d(16, 32, 4, stride=2), Tanh(), MaxPool2d(2, 1), Flatten()),
            *(Linear(512, 32), Tanh(), Linear(32, 10)),
        ],
        "MLP": lambda: [Flatten(), Linear(784, 128), ReLU(), Linear(128, 10)],
    }
    return Sequential(*layers[name]())


def measure(name: str, kind: str, batch: int, steps: int) -> list[float]:
    """Returns the seconds of so many steps of a kind, on one thread."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    x, y = torch.randn(batch, 1, 28, 28), torch.arange(batch) % 10
    model: Any = model_of(name)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=1.0)
    criterion: Any = torch.nn.CrossEntropyLoss()
    if kind != PLAIN:
        made = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            criterion=criterion,
            data_loader=DataLoader(TensorDataset(x, y), batch_size=batch),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
            grad_sample_mode=MODES[kind],
        )
        model, optimizer = made[:2]
        criterion = made[2] if kind == GHOST else criterion
    seconds = []
    for _ in range(WARM_UP + steps):
        started = time.perf_counter()
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - started)
    return seconds[WARM_UP:]


def main() -> None:
    """Answer what the arguments ask for."""
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    found = {kind: measure(name, kind, batch, steps) for kind in (PLAIN, *MODES)}
    versions = {f"{package} beside": version(package) for package in ("opacus", "torch")}
    print(json.dumps({"seconds": found, "versions": versions}))


if __name__ == "__main__":
    main()
