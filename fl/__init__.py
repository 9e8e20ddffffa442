"""Federated learning on plain PyTorch, with aggregators that say who learns what.

    run = fl.FederatedAveraging(
        model=fl.models.mlp(), clients=fl.partition(train, 100), aggregator=fl.PlainAggregator()
    )
    history = run.fit(rounds=100, test_set=test)

`FederatedAveraging` runs rounds, `partition` deals records out, `models` has those of the papers.
A `Mechanism` transforms updates on clients and their mean on the server, and keeps the ledger:
`LocalDP`, `SignDS` and `CentralDP`. `leakage` rebuilds records from what a coalition saw. The
command `pea fl` runs experiments from the shell.

**An aggregator** is a subclass of `Aggregator`. It makes one machine a party for every round:
`server(round)`, `client(round, client, update)` and, if there are further parties, `others(round)`.
A machine (`Machine`) answers `start`, `receive` and `expire` with outputs, mostly as a generator:

- `self.send(receiver, kind, name=value, ...)`: a message; arrays, integers of any size, bytes,
  strings, floats and lists of these have an encoding;
- `Timer(name, at)`: calls `expire(name, at)`; the only way to wait for somebody who may be gone;
- `Refusal(client, reason)`: the server leaves a client out, or a client withdraws;
- `Aggregate(mean, included)`: the server's result.

The server raises `self.failure(reason)` where the round cannot go on. `FixedPoint` encodes an
update with its weight into Z_2^32 or Z_2^64; an aggregator that has one as `fixed_point` has
weights and updates checked by it. `leaks_to(coalition, outcome)` says whose sums a coalition
computes, and the tests prove it on `outcome.transcript.view(coalition)`.

`aggregate(aggregator, updates, weights, transport=...)` runs one aggregation by itself, on an
`InProcessTransport` with a `Network` of delays and bandwidths and with `DropOut`s: a party vanishes
before or after it sends a message of some kind. `PlainAggregator` is the example to start from;
`MaskedAggregator` hides every update from the server; in `PaillierAggregator` it adds ciphertexts;
with `ChainAggregator` clients hand on a masked sum. `latency` has times by formula.
"""

from fl import latency, leakage, models, paillier
from fl.adaptive_clipping import AdaptiveClipping
from fl.aggregator import Aggregator, Leaks, check_update, inherent_leaks
from fl.central_dp import CentralDP
from fl.chain import ChainAggregator
from fl.federated import FederatedAveraging
from fl.history import History, RoundReport
from fl.ledgers import ClientLedgers
from fl.local_dp import LocalDP
from fl.masked import MaskedAggregator
from fl.mechanism import Mechanism
from fl.messages import SERVER, Message, Party, Value, party_name
from fl.network import DropOut, Link, Network
from fl.paillier import PaillierAggregator
from fl.partitions import partition
from fl.plain import PlainAggregator
from fl.protocol import Aggregate, Machine, Output, Refusal, Round, Timer, Vector
from fl.quantization import FixedPoint, RingVector
from fl.rounds import aggregate
from fl.signds import SignDS
from fl.transport import InProcessTransport
from fl.view import Coalition, Outcome, Sent, Transcript

__all__ = [
    "SERVER",
    "AdaptiveClipping",
    "Aggregate",
    "Aggregator",
    "CentralDP",
    "ChainAggregator",
    "ClientLedgers",
    "Coalition",
    "DropOut",
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
    "Network",
    "Outcome",
    "Output",
    "PaillierAggregator",
    "Party",
    "PlainAggregator",
    "Refusal",
    "RingVector",
    "Round",
    "RoundReport",
    "Sent",
    "SignDS",
    "Timer",
    "Transcript",
    "Value",
    "Vector",
    "aggregate",
    "check_update",
    "inherent_leaks",
    "latency",
    "leakage",
    "models",
    "paillier",
    "partition",
    "party_name",
]
