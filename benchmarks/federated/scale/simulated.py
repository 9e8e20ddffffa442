"""Rounds of simulated clients by `fl`, by Flower's engine and by Apple's pfl.

    python -m benchmarks.federated.scale.simulated WAY ROUNDS GIVEN BEGUN

prints, as JSON, what they took since BEGUN, a time; run by a Python that has the way's package.
GIVEN is a file of a model, x and y of clients (clients, records, ...), and x and y to test. Every
client trains in every round, with the same epochs, batch size and learning rate.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.instruments.processes import of_session

End = Callable[..., None]
"""Notes the end of a round."""
EPOCHS, BATCH, RATE = 5, 5, 0.1


@cache
def given(path: str) -> Any:
    """Returns what the file has; a process of clients reads it once."""
    return torch.load(path, weights_only=False)


def _ours(rounds: int, path: str, end: End, *, masked: bool = False) -> Any:
    import fl

    model, x, y, *_ = given(path)
    sparse = fl.SparseGraph(corrupt=0.1, dropping=0.2) if len(x) > 100 else None
    run = fl.FederatedAveraging(
        model=model,
        clients=list(zip(x, y, strict=True)),
        aggregator=fl.MaskedAggregator(graph=sparse) if masked else fl.PlainAggregator(),
        client_fraction=1.0,
        local_epochs=EPOCHS,
        batch_size=BATCH,
        lr=RATE,
    )
    run.fit(rounds, callbacks=[end], progress=False)
    return run.model


def _flower(rounds: int, path: str, end: End) -> Any:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    model, x, *_ = given(path)
    server, client = ServerApp(), ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        own, x, y, *_ = given(path)
        own.load_state_dict(message.content["arrays"].to_torch_state_dict())
        _train(own, *(part[context.node_config["partition-id"]] for part in (x, y)))
        metrics = MetricRecord({"num-examples": x.shape[1]})
        content = RecordDict({"arrays": ArrayRecord(own.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        least = {"min_train_nodes": len(x), "min_available_nodes": len(x)}
        strategy: Any = FedAvg(fraction_evaluate=0.0, **least)
        strategy.aggregate_train = _then(strategy.aggregate_train, end)
        done = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds)
        model.load_state_dict(done.arrays.to_torch_state_dict())

    one: Any = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, len(x), backend_config=one)
    return model


def _then(act: Callable[..., Any], end: End) -> Callable[..., Any]:
    return lambda *given: (act(*given), end())[0]  # type: ignore[func-returns-value]


def _train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Trains the model without a loader, which takes longer."""
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for _ in range(EPOCHS):
        for batch in torch.split(torch.randperm(len(x)), BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[batch]), y[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _pfl(rounds: int, path: str, end: End) -> Any:
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
    from pfl.data import FederatedDataset, get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Weighted
    from pfl.model.pytorch import PyTorchModel

    model, x, y, *_ = given(path)
    model.loss = lambda x, y: cross_entropy(model(x), y)
    model.metrics = lambda x, y: {"none": Weighted(0.0, len(x))}
    users = dict(enumerate(zip(x, y, strict=True)))
    data = FederatedDataset.from_slices(users, get_user_sampler("minimize_reuse", [*users]))
    averaging: Any = FederatedAveraging()
    update = averaging.process_aggregated_statistics
    averaging.process_aggregated_statistics = _then(update, end)
    averaging.run(
        NNAlgorithmParams(rounds, rounds, len(users), None),
        SimulatedBackend(data, data),
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), 1.0)),
        NNTrainHyperParams(BATCH, EPOCHS, RATE),
        send_metrics_to_platform=False,
    )
    return model


WAYS: dict[str, Callable[..., Any]] = {
    "ours": _ours,
    "ours, masked": partial(_ours, masked=True),
    "pfl": _pfl,
    "Flower": _flower,
}


def main(way: str, rounds: str, path: str, begun: str) -> None:
    """Prints what the rounds took, by their median from the second on, and their accuracy."""
    os.setsid()
    noted = [(float(begun), 0.0, 0)]
    end: End = lambda *_: noted.append((time.time(), *of_session(os.getsid(0))))  # noqa: E731
    *_, tests, labels = given(path)
    guesses = WAYS[way](int(rounds), path, end).eval()(tests).argmax(1)
    seconds, cpu, _ = np.median(np.diff(noted, axis=0)[1:], axis=0).tolist()
    found = {
        "start, s": noted[1][0] - noted[0][0] - seconds,
        "seconds a round": seconds,
        "CPU s a round": cpu,
        "MB at most": max(peak for *_, peak in noted) / 1e6,
        "accuracy, %": 100 * (guesses == labels).float().mean().item(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    from benchmarks.federated.scale import simulated  # by whose name other processes find it

    simulated.main(*sys.argv[1:])
