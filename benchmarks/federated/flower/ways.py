"""The three ways as apps of Flower; imported by a Python that has flwr.

In all of them a client adds a number of its own to every value of a linear model, so that the mean
is known, and all clients weigh alike.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import Client, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch import nn

import fl
import fl.flower
from benchmarks.federated.flower.setting import (
    BITS,
    CLIP,
    FEDAVG,
    HOUR,
    OURS,
    OUTPUTS,
    SECAGG,
    STEP,
    Setting,
)
from fl.protocols import History

PART = "partition-id"
"""Name of a client's number in the configuration of its node."""
WEIGHT = 1000


@dataclass
class Course:
    """What came of the rounds of a server.

    Attributes:
        included: clients in each sum, an empty row for a round that was lost.
        seconds: of each round, by the clock.
        model: all values, at the end.
        began: of the present round.
    """

    included: list[list[int]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    model: Any = None
    began: float = field(default_factory=time.perf_counter)

    def end(self, included: list[int]) -> None:
        """Notes the end of a round."""
        now = time.perf_counter()
        self.included.append(sorted(included))
        self.seconds.append(now - self.began)
        self.began = now


def new_model(setting: Setting) -> nn.Module:
    """Returns a linear model of zeros with that many values."""
    model = nn.Linear(setting.values // OUTPUTS - 1, OUTPUTS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def error(setting: Setting, course: Course) -> float:
    """Returns the largest error of the model, after rounds that all had a sum."""
    steps = [np.mean([STEP * (k + 1) for k in clients]) for clients in course.included if clients]
    return float(np.abs(course.model - np.sum(steps)).max())


def _train(model: nn.Module, records: Any, round: fl.ClientRound) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(STEP * (round.client + 1))


# --- ours -----------------------------------------------------------------------------------------


def _settings(setting: Setting) -> dict[str, Any]:
    point = fl.FixedPoint(bits=BITS, frac_bits=setting.frac_bits, clip=CLIP)
    return {
        "model": new_model(setting),
        "clients": setting.clients,
        "client_fraction": 1.0,
        "weighting": "equal",
        "on_failure": "skip",
        "aggregator": fl.MaskedAggregator(fixed_point=point, timeout=HOUR),
        "timeout": HOUR,
    }


def _ours_server(setting: Setting, course: Course) -> ServerApp:
    def note(history: History, model: nn.Module) -> None:
        course.end(list(history[-1].included))
        course.model = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).numpy()

    return fl.flower.server_app(
        **_settings(setting), rounds=setting.rounds, callbacks=[note], patience=HOUR
    )


def _ours_client(setting: Setting) -> ClientApp:
    def records(context: Context) -> tuple[Any, Any]:
        return torch.zeros(1, setting.values // OUTPUTS - 1), torch.zeros(1, dtype=torch.int64)

    return fl.flower.client_app(**_settings(setting), records=records, train=_train)


# --- Flower's SecAgg+ -----------------------------------------------------------------------------


def _arrays(setting: Setting) -> list[Any]:
    return [p.detach().numpy() for p in new_model(setting).parameters()]


def _flat(arrays: list[Any]) -> Any:
    return np.concatenate([each.reshape(-1) for each in arrays])


class _Noting(LegacyFedAvg):
    """Flower's averaging, which notes who is in a sum."""

    def __init__(self, course: Course, **settings: Any) -> None:
        super().__init__(**settings)
        self.course = course
        self.included: list[int] = []

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Returns what the strategy does."""
        self.included = [int(result.metrics[PART]) for _, result in results]
        parameters, metrics = super().aggregate_fit(server_round, results, failures)
        if parameters is not None:
            self.course.model = _flat(parameters_to_ndarrays(parameters))
        return parameters, metrics


def _secagg_server(setting: Setting, course: Course) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = _Noting(
            course,
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=setting.clients,
            min_available_clients=setting.clients,
            initial_parameters=ndarrays_to_parameters(_arrays(setting)),
        )
        inner = SecAggPlusWorkflow(
            num_shares=1.0,
            reconstruction_threshold=setting.threshold / setting.clients,
            max_weight=float(WEIGHT),
            clipping_range=CLIP,
        )

        def round(grid: Grid, context: Context) -> None:
            strategy.included = []
            inner(grid, context)
            course.end(strategy.included)

        config = ServerConfig(num_rounds=setting.rounds)
        legacy = LegacyContext(context=context, config=config, strategy=strategy)
        course.began = time.perf_counter()
        DefaultWorkflow(fit_workflow=round)(grid, legacy)

    return app


class _Adding(NumPyClient):
    def __init__(self, client: int) -> None:
        self.client = client

    def fit(self, parameters: Any, config: Any) -> tuple[Any, int, dict[str, Any]]:
        """Returns the model with a number added."""
        step = np.float32(STEP * (self.client + 1))
        return [each + step for each in parameters], WEIGHT, {PART: self.client}


def _secagg_client(setting: Setting) -> ClientApp:
    def made(context: Context) -> Client:
        return _Adding(int(context.node_config[PART])).to_client()

    return ClientApp(client_fn=made, mods=[secaggplus_mod])


# --- Flower's FedAvg ------------------------------------------------------------------------------


class _Averaging(FedAvg):
    """Flower's averaging of the message API, which notes who is in a mean."""

    def __init__(self, course: Course, **settings: Any) -> None:
        super().__init__(**settings)
        self.course = course

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        """Returns what the strategy does."""
        replies = list(replies)
        arrays, metrics = super().aggregate_train(server_round, replies)
        valid = [reply for reply in replies if not reply.has_error()]
        self.course.end([int(reply.content["metrics"][PART]) for reply in valid])
        if arrays is not None:
            self.course.model = _flat(arrays.to_numpy_ndarrays())
        return arrays, metrics


def _fedavg_server(setting: Setting, course: Course) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        least = {"min_train_nodes": setting.clients, "min_available_nodes": setting.clients}
        strategy = _Averaging(course, fraction_evaluate=0.0, **least)
        arrays = ArrayRecord.from_numpy_ndarrays(_arrays(setting))
        course.began = time.perf_counter()
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=setting.rounds)

    return app


def _fedavg_client(setting: Setting) -> ClientApp:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config[PART])
        step = np.float32(STEP * (client + 1))
        arrays = [each + step for each in message.content["arrays"].to_numpy_ndarrays()]
        content = RecordDict(
            {
                "arrays": ArrayRecord.from_numpy_ndarrays(arrays),
                "metrics": MetricRecord({"num-examples": WEIGHT, PART: client}),
            }
        )
        return Message(content=content, reply_to=message)

    return app


SERVERS: dict[str, Callable[[Setting, Course], ServerApp]] = {
    OURS: _ours_server,
    SECAGG: _secagg_server,
    FEDAVG: _fedavg_server,
}
CLIENTS: dict[str, Callable[[Setting], ClientApp]] = {
    OURS: _ours_client,
    SECAGG: _secagg_client,
    FEDAVG: _fedavg_client,
}
