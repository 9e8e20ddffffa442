"""The example of MNIST beside plain FedAvg in Flower, on the engine in one process.

    PEA_DATA=... python -m benchmarks.federated.flower.mnist ROUNDS

prints, as JSON, the accuracies of both after every round, in percent; run by a Python that has
flwr. Clients of FedAvg train by the example's function, on the same records in the same batches.
"""

import json
import logging
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import fl
import fl.flower
from benchmarks.federated.flower.engine import FIRST, Loop, context, serve
from benchmarks.federated.scale.large import deal_keys
from benchmarks.instruments.child_process import ROOT
from fl.clients import training_seed
from fl.protocols import History
from fl.training.inputs import checked_records

sys.path.insert(0, str(ROOT / "examples" / "flower" / "mnist"))
from mnist_app import client_app, task


def ours(rounds: int) -> list[float]:
    """Returns the accuracies of the example's own clients, and of a server with its settings."""
    history: list[float] = []

    def note(found: History, model: torch.nn.Module) -> None:
        history.append(100 * (found[-1].accuracy or 0.0))

    server = fl.flower.server_app(
        **task.SETTINGS, rounds=rounds, test_set=task.test_records, callbacks=[note]
    )
    with TemporaryDirectory() as folder:
        deal_keys(Path(folder), task.CLIENTS)
        clients = {
            FIRST + k: (
                client_app.app,
                context(
                    FIRST + k,
                    {"partition-id": k, "fl-peers": folder, "fl-key": f"{folder}/{k}"},
                    {},
                ),
            )
            for k in range(task.CLIENTS)
        }
        serve(server, Loop(clients), {"fl-peers": folder})
    return history


def fedavg(rounds: int) -> list[float]:
    """Returns the accuracies of Flower's FedAvg."""
    history: list[float] = []
    x, y = task.test_records()

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        model = task.new_model()
        model.load_state_dict(arrays.to_torch_state_dict())
        with torch.no_grad():
            right = float((model(x).argmax(1) == y).double().mean())
        if number:
            history.append(100 * right)
        return MetricRecord({"accuracy": right})

    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=task.CLIENTS)
        start = ArrayRecord(task.new_model().state_dict())
        strategy.start(grid, start, num_rounds=rounds, evaluate_fn=evaluate)

    client = _fedavg_client()
    clients = {
        FIRST + k: (client, context(FIRST + k, {"partition-id": k}, {}))
        for k in range(task.CLIENTS)
    }
    serve(app, Loop(clients), {})
    return history


def _fedavg_client() -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        number = int(message.content["config"]["server-round"])
        model = task.new_model()
        own = {"client": task.own_records(context)}
        (pair,) = checked_records(model, own, cross_entropy)
        records = TensorDataset(*pair)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        seed = training_seed(0, number, client)
        torch.manual_seed(seed)
        task.train(model, records, fl.ClientRound(number=number, client=client, seed=seed))
        arrays, count = ArrayRecord(model.state_dict()), len(records)
        metrics = MetricRecord({"num-examples": count})
        content = RecordDict({"arrays": arrays, "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


def main(rounds: int) -> dict[str, Any]:
    """Returns both ways' accuracies."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    return {"ours": ours(rounds), "FedAvg": fedavg(rounds)}


if __name__ == "__main__":
    if "PEA_DATA" not in os.environ:
        sys.exit("PEA_DATA must name a folder with MNIST's files in mnist.")
    print(json.dumps(main(int(sys.argv[1]))))
