"""Federated learning on plain PyTorch, with aggregators that say who learns what.

    run = fl.FederatedAveraging(
        model=fl.models.mlp(), clients=fl.partition(train, 100), aggregator=fl.PlainAggregator()
    )
    history = run.fit(rounds=100, test_set=test)

`FederatedAveraging` runs rounds, `partition` deals records out, `models` has those of the papers,
`tokens` makes integers of texts. Its ``train=`` is what a client does, a function of model, records
and `ClientRound`; its ``server_optimizer=`` (`FedAvgM`, `FedAdam`, `FedYogi`, `FedAdagrad`) is what
the server makes of the mean; ``fit(callbacks=[CSVWriter(file), TensorBoardWriter(folder)])`` tells
of every round. A `Mechanism` transforms updates on clients and their mean on the server, and keeps
the ledger: `LocalDP`, `SignDS`, `CentralDP` and `DistributedDP` protect clients or updates,
`RecordDP` single records. `leakage` rebuilds records from what a coalition saw. The command `pea
fl` runs experiments from the shell.

**Errors** are `PeaError`s: `ArgumentError` says what does not go together before anything is sent,
`RoundError` that a round failed, and a client's training raises `UpdateError` to withdraw from one.

**An aggregator** is a subclass of `Aggregator`. It makes one machine a party for every round:
`server(round)`, `client(round, client, update)` and, if there are further parties, `others(round)`.
A machine (`Machine`) answers `start`, `receive` and `expire` with outputs, mostly as a generator:

- `self.send(receiver, kind, name=value, ...)`: a message; arrays, integers, bytes, strings,
  floats and lists of these have an encoding, each with a bound;
- `Timer(name, at)`: calls `expire(name, at)`; the only way to wait for somebody who may be gone;
- `Refusal(client, reason)`: the server leaves a client out, or a client withdraws; if it does, or
  its machine raises an error, the server receives a message of kind "withdraw";
- `Aggregate(mean, included)`: the server's result.

The server raises `self.failure(reason)` where the round cannot go on. `FixedPoint` encodes an
update with its weight into Z_2^32 or Z_2^64; an aggregator that has one as `fixed_point` has
weights and updates checked by it. `leaks_to(coalition, outcome)` says whose sums a coalition
computes, and the tests prove it on `outcome.transcript.view(coalition)`.

`aggregate(aggregator, updates, weights, transport=...)` runs one aggregation by itself, on an
`InProcessTransport` with a `Network` of delays and bandwidths and with `DropOut`s: a party vanishes
before or after it sends a message of some kind. `PlainAggregator` is the example to start from;
`MaskedAggregator` hides every update from the server; in `PaillierAggregator` it adds ciphertexts;
with `ChainAggregator` clients hand on a masked sum, to those in lists such as `neighbours` makes,
also without a server. `latency` has times by formula.
"""

# ruff: noqa: E402 - what the extra brings is looked for before it is imported

import os
from importlib.util import find_spec

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from extensions import __version__
from extensions.errors import (
    ArgumentError,
    CiphertextError,
    MessageError,
    MissingExtraError,
    PeaError,
    RoundError,
    UpdateError,
    WorkerLostError,
)

for _package in ("torch", "gmpy2"):
    if find_spec(_package) is None:
        raise MissingExtraError(_package, "fl")

from fl import leakage, paillier
from fl.chain import ChainAggregator, neighbours
from fl.clients import ClientRound
from fl.masked import MaskedAggregator, SparseGraph
from fl.paillier import PaillierAggregator
from fl.plain import PlainAggregator
from fl.privacy.adaptive_clipping import AdaptiveClipping
from fl.privacy.central_dp import CentralDP
from fl.privacy.distributed_dp import DistributedDP
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.local_dp import LocalDP
from fl.privacy.mechanism import Mechanism
from fl.privacy.record_dp import RecordDP
from fl.privacy.signds import SignDS
from fl.round import latency
from fl.round.aggregator import Aggregator, Leaks, check_update, inherent_leaks
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer, Vector
from fl.round.messages import SERVER, Message, Party, Value, party_name
from fl.round.network import DropOut, Link, Network
from fl.round.quantization import FixedPoint, RingVector
from fl.round.rounds import aggregate
from fl.round.transport import InProcessTransport
from fl.round.view import Coalition, Outcome, Sent, Transcript
from fl.training import models
from fl.training.callbacks.table import CSVWriter
from fl.training.callbacks.tensorboard import TensorBoardWriter
from fl.training.federated import FederatedAveraging
from fl.training.history import History, RoundReport
from fl.training.optimizers import FedAdagrad, FedAdam, FedAvgM, FedYogi, ServerOptimizer
from fl.training.records.partitions import partition
from fl.training.records.texts import tokens

__all__ = [
    "SERVER",
    "AdaptiveClipping",
    "Aggregate",
    "Aggregator",
    "ArgumentError",
    "CSVWriter",
    "CentralDP",
    "ChainAggregator",
    "CiphertextError",
    "ClientLedgers",
    "ClientRound",
    "Coalition",
    "DistributedDP",
    "DropOut",
    "FedAdagrad",
    "FedAdam",
    "FedAvgM",
    "FedYogi",
    "FederatedAveraging",
    "FixedPoint",
    "History",
    "InProcessTransport",
    "Leaks",
    "Link",
    "LocalDP",
    "Machine",
    "MaskedAggregator",
    "Mechanism",
    "Message",
    "MessageError",
    "MissingExtraError",
    "Network",
    "Outcome",
    "Output",
    "PaillierAggregator",
    "Party",
    "PeaError",
    "PlainAggregator",
    "RecordDP",
    "Refusal",
    "RingVector",
    "Round",
    "RoundError",
    "RoundReport",
    "Sent",
    "ServerOptimizer",
    "SignDS",
    "SparseGraph",
    "TensorBoardWriter",
    "Timer",
    "Transcript",
    "UpdateError",
    "Value",
    "Vector",
    "WorkerLostError",
    "__version__",
    "aggregate",
    "check_update",
    "inherent_leaks",
    "latency",
    "leakage",
    "models",
    "neighbours",
    "paillier",
    "partition",
    "party_name",
    "tokens",
]
