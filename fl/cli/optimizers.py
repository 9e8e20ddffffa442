"""The server's optimizer that the options of `pea fl` ask for."""

from extensions.errors import ArgumentError
from extensions.rules import one_of
from fl.cli.choices import as_options
from fl.training.optimizers import FedAdagrad, FedAdam, FedAvgM, FedYogi, ServerOptimizer

_OPTIMIZERS: dict[str, type[ServerOptimizer]] = {
    "none": ServerOptimizer,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedadagrad": FedAdagrad,
}


def optimizer_of(name: str, lr: float | None) -> ServerOptimizer:
    """Returns the optimizer, with its usual learning rate where none is given.

    Raises:
        ArgumentError: no such optimizer, or a rate out of range.
    """
    if name not in _OPTIMIZERS:
        raise ArgumentError("server_optimizer", name, one_of(_OPTIMIZERS))
    with as_options(**{"server_optimizer.lr": "server_lr"}):
        return _OPTIMIZERS[name]() if lr is None else _OPTIMIZERS[name](lr=lr)
