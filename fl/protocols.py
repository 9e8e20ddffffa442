"""What a protocol, a mechanism or a server optimizer of your own is made of; results and errors.

An aggregator is a subclass of `Aggregator`. It makes one machine a party for every round:
`server(round)`, `client(round, client, update)` and, if there are further parties, `others(round)`.
A machine (`Machine`) answers `start`, `receive` and `expire` with outputs, mostly as a generator:

- `self.send(receiver, kind, name=value, ...)`: a message; arrays, integers, bytes, strings,
  floats and lists of these have an encoding, each with a bound;
- `Timer(name, at)`: calls `expire(name, at)`; the only way to wait for somebody who may be gone;
- `Refusal(client, reason)`: the server leaves a client out, or a client withdraws; if it does, or
  its machine raises an error, the server receives a message of kind "withdraw";
- `Aggregate(mean, included)`: the server's result.

The server raises `self.failure(reason)` where the round cannot go on. `fl.FixedPoint` encodes an
update with its weight into Z_2^32 or Z_2^64; an aggregator that has one as `fixed_point` has
weights and updates checked by it. `leaks_to(coalition, outcome)` says whose sums a coalition
computes, and the tests prove it on `outcome.transcript.view(coalition)`.

`aggregate(aggregator, updates, weights, transport=...)` runs one aggregation by itself.
`fl.PlainAggregator` is the example to start from.

A `Mechanism` changes updates and their mean, and keeps a ledger, such as `ClientLedgers`; a
`ServerOptimizer` makes a step of the mean. A run returns a `History` of `RoundReport`s.

Errors are `PeaError`s: `ArgumentError` says what does not go together before anything is sent,
`RoundError` that a round failed, `MessageError` and `CiphertextError` what a party sent, and
`WorkerLostError` that a process which trains clients died. A client's training raises
`fl.UpdateError` to withdraw from a round.
"""

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
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.aggregator import Aggregator, Leaks, check_update, inherent_leaks
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer, Vector
from fl.round.messages import SERVER, Message, Party, Value, party_name
from fl.round.quantization import RingVector
from fl.round.transport import aggregate
from fl.round.view import Outcome, Sent, Transcript
from fl.training.history import History, RoundReport
from fl.training.optimizers import ServerOptimizer

__all__ = [
    "SERVER",
    "Aggregate",
    "Aggregator",
    "ArgumentError",
    "CiphertextError",
    "ClientLedgers",
    "History",
    "Leaks",
    "Machine",
    "Mechanism",
    "Message",
    "MessageError",
    "MissingExtraError",
    "Outcome",
    "Output",
    "Party",
    "PeaError",
    "Refusal",
    "RingVector",
    "Round",
    "RoundError",
    "RoundReport",
    "Sent",
    "ServerOptimizer",
    "Timer",
    "Transcript",
    "UpdateError",
    "Value",
    "Vector",
    "WorkerLostError",
    "aggregate",
    "check_update",
    "inherent_leaks",
    "party_name",
]
