"""ABY3 as a host: one program directs three servers, on whose devices their records lie."""

import math
import time
from collections.abc import Sequence
from typing import Any, cast

import tensorflow as tf

from extensions.layers.passes import Parameters
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import (
    Arrays,
    Batch,
    Blocks,
    Carried,
    Computation,
    Compute,
    Host,
    Placed,
    Speed,
    StepForecast,
    SumOf,
    Tell,
    Traffic,
    flat,
    pairs,
)
from extensions.protocols.optimizer import State
from extensions.protocols.step import SampledStep
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.checkpoints import run_concurrently
from extensions.runs.config.run_time import work
from tfe_ext.aby3.protocol import ABY3
from tfe_ext.graphs.batches import OwnersRecords, SharedRecords
from tfe_ext.graphs.program import Program
from tfe_ext.graphs.programs import InPieces, Sampling, total_of
from tfe_ext.players.job import SOFTWARE
from tfe_ext.ring.aby3_ring import ABY3Ring, noise_failure
from tfe_ext.ring.inputs import share_rows
from tfe_ext.ring.placed import concatenate
from tfe_ext.ring.shares import Additive3, Replicated, Share
from tfe_ext.ring.variables import ScalarVariables, assign, from_summands, in_variables, present
from tfe_ext.run.speed import BESIDE, traced_speed
from tfe_ext.streams.devices import on_each


class ABY3Host(Host):
    """The servers of a protocol, each the owner of its records.

    A model is replicated shares whose parts are variables on the servers' devices; a step changes
    them in place. Traffic is that of the graphs that ran.
    """

    software = SOFTWARE
    ranks = holders = range(ABY3Ring.parties)

    def __init__(self, prot: ABY3, source: NoiseSource) -> None:
        self.ring = prot.ring
        self.noise = source
        self._servers = prot.ring.servers
        self._names = [server.name for server in prot.servers]
        self._on = prot.ring.servers.devices
        self._traffic = super().traffic()
        self._tell: Tell | None = None
        self._once = 0

    def forecast(self, config: Any, records: Any, step: Any, tell: Tell) -> None:
        """Lets the forecast of a step be told once it is traced, and before it runs."""
        if config.hidden:
            self._tell = tell
        else:
            tell(StepForecast(0, 0), Speed(work=work(), overhead=BESIDE))

    def place(self, own: Sequence[OwnRecords | Arrays]) -> Placed:
        """Returns variables on the device of each owner, and on no other.

        They are no constants of a graph, of which every player gets a copy.
        """
        records = [each for each in own if isinstance(each, OwnRecords)]
        if records:
            return OwnersRecords(self._servers, dict(zip(self._names, records, strict=True)))

        def variables(arrays: Arrays) -> list[tf.Variable]:
            return [tf.Variable(array, trainable=False) for array in arrays]

        return on_each(self._on, variables, cast(Sequence[Arrays], own))

    def everything(self, records: Placed, rows: Sequence[int]) -> Batch:
        """Returns all records."""
        batch: Batch = records.everything()
        return batch

    def share_rows(self, rows: Sequence[int], own: Placed) -> list[Share]:
        """Returns shares of what every server has."""
        return list[Share](share_rows(self._servers, zip(self._on, own, strict=True)))

    def summands(self, model: Parameters, compute: Compute = flat) -> list[list[Integers]]:
        """Returns x_R of every share, for each server R; what is computed is one graph."""
        if compute is flat:
            parts = [part.parts for part in flat(model)]
            return self._kept_words([[own[2 * rank] for own in parts] for rank in self.holders])
        program = Program(lambda: self._words(compute(_read(model))))
        found = self._kept_words(program())
        self._traffic = self._traffic.plus(program.cost.traffic)
        return found

    def total(
        self,
        model: Parameters,
        records: Sequence[OwnRecords],
        rows: Sequence[int],
        blocks: int,
        sum_of: SumOf,
    ) -> list[list[Integers]]:
        """Returns x_R of what is made of the sum, for each server R; records stay with owners."""
        total = total_of(
            self._on,
            self.place(records),
            blocks,
            sum_of.size,
            lambda batch: sum_of.count(_read(model), batch),
            lambda found: self._words(sum_of.finish(_read(model), found)),
        )
        found = self._kept_words(total())
        self._traffic = self._traffic.plus(total.cost.traffic)
        return found

    def _kept_words(self, found: list[list[tf.Tensor]]) -> list[list[Integers]]:
        return [[part.numpy() for part in own] for own in found]

    def _words(self, shares: Sequence[Share]) -> list[list[tf.Tensor]]:
        """x_R of every share, on server R."""
        parts = [share.additive3() for share in shares]
        return [[_whole(share, rank) for share in parts] for rank in self.holders]

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the model, every part on its server."""
        columns = zip(*summands, strict=True)
        return pairs([in_variables(from_summands(self._on, column)) for column in columns])

    def reshared(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the model that summands make; one round, in which a server gets another's."""
        size = 8 * sum(math.prod(part.shape) for part in summands[0])
        each = [Carried(sent=size, received=size) for _ in self.holders]
        self._traffic = self._traffic.plus(Traffic(1, each))
        return self.restore(summands)

    def with_both_classes(self, model: Parameters) -> Parameters:
        """Returns a model of one output with the other class's too, each part on its server."""
        *hidden, last = model
        both = [concatenate([-share, share]) for share in flat(_read([last]))]
        return [*hidden, *pairs([in_variables(share) for share in both])]

    def compile(self, step: Computation) -> Computation:
        """Returns the step as one graph, or in pieces as three; traced when it is first called."""
        found: tuple[Program | InPieces, ScalarVariables] | None = None

        def run(model: Parameters, *integers: int) -> Parameters:
            nonlocal found
            if found is None:
                began = time.perf_counter()
                found = self._program(step, model, integers)
                if isinstance(step, SampledStep) and self._tell is not None:
                    self._told(found[0], time.perf_counter() - began)
            program, public = found
            public.assign(integers)
            if program.standing is not None and (once := program.standing.prepare()) is not None:
                self._traffic = self._traffic.plus(once.traffic)
            program()
            self._traffic = self._traffic.plus(program.cost.traffic)
            return model

        return run

    def _told(self, program: Program | InPieces, seconds: float) -> None:
        """Tells what a step takes, whose graph was traced in so many seconds."""
        assert self._tell is not None
        step = self._forecast(program)
        self._tell(step._replace(trips=step.rounds), traced_speed(seconds, *self._between()))
        self._tell = None

    def _between(self) -> tuple[float, float]:
        """Seconds of a message from one server to another, and of each byte that one carries."""
        return 0.0, 0.0

    def foreseen(
        self, step: Computation, model: Parameters, integers: Sequence[int]
    ) -> StepForecast:
        """Returns what a step takes that is traced and not run."""
        return self._forecast(self._program(step, model, integers)[0])

    def _forecast(self, program: Program | InPieces) -> StepForecast:
        """Returns what a traced step takes; rows are shared once, whole or by columns."""
        cost, once = program.cost, self._once
        if program.standing is not None:
            once = program.standing.cost.traffic.mean or 0
        return StepForecast(cost.rounds, cost.traffic.mean, program.memory, once=once)

    def _program(
        self, step: Computation, model: Parameters, integers: Sequence[int]
    ) -> tuple[Program | InPieces, ScalarVariables]:
        public = ScalarVariables(self._on, integers)
        if not isinstance(step, SampledStep):
            return Program(lambda: self._store(model, step(_read(model), *public.read()))), public
        placed = step.placed
        if isinstance(placed, Blocks):
            placed = self._shared_once(placed)
        sampling = Sampling(placed, [*step.rows], step.rate, self.noise, step.pieces)
        program = sampling.program(
            self.ring,
            step.step.plan,
            lambda: State.of(_read(model), step.step.config).model,
            step.step.clipped,
            lambda sums: self._store(model, step.finish(_read(model), sums, *public.read())),
        )
        return program, public

    def _shared_once(self, own: Blocks) -> SharedRecords:
        """Returns rows whose columns are apart, in shares that every step takes; one round."""
        program = Program(lambda: [share.parts for share in [*own.shared(self)][:3]])
        shares = [Replicated(self._on, parts) for parts in program()]
        self._traffic = self._traffic.plus(program.cost.traffic)
        self._once = program.cost.traffic.mean or 0
        return SharedRecords(shares)

    def _store(self, model: Parameters, after: Parameters) -> None:
        for variables, share in zip(flat(model), self.ring.replicate(flat(after)), strict=True):
            assign(variables, share)

    def traffic(self) -> Traffic:
        """Returns what the servers sent and received in all compiled steps, by their graphs."""
        return self._traffic

    def noise_failure(self, parameters: int) -> float:
        """Returns a bound of the probability that a draw of one step lies beyond its table."""
        return noise_failure(parameters, 1)


class RemoteHost(ABY3Host):
    """The servers of a protocol in processes of their own, where summands stay until opened."""

    def _between(self) -> tuple[float, float]:
        """Times messages that go around the servers: small ones, and some of a megabyte."""
        trip, large = (_around(self._on, words) for words in (8, 1 << 17))
        return trip, max(0.0, large - trip) / (8 << 17) / (2 * (len(self._on) - 1))

    def _kept_words(self, found: list[list[tf.Tensor]]) -> list[list[Any]]:
        """Tensors on their servers' devices."""

        def stay(device: str, own: Sequence[Any]) -> list[Any]:
            with tf.device(device):
                return [tf.identity(part) for part in own]

        return run_concurrently(stay, self._on, found)

    def open(self, summands: Sequence[Sequence[Any]]) -> list[Integers]:
        """Returns what the summands add up to, which come here."""
        return super().open([[part.numpy() for part in own] for own in summands])


def _around(devices: Sequence[str], words: int, turns: int = 3) -> float:
    """Returns the seconds in which so many words get from one device to the next one."""

    def around() -> tf.Tensor:
        with tf.device(devices[0]):
            passed = tf.zeros(words, tf.int64)
        for device in [*devices[1:], devices[0]] * turns:
            with tf.device(device):
                passed += 1
        return passed[0]

    program = Program(around)
    program()
    began = time.perf_counter()
    program().numpy()
    return (time.perf_counter() - began) / (turns * len(devices))


def _whole(share: Additive3, rank: int) -> tf.Tensor:
    """A server's summand of a share, zeros where it has none."""
    part = share.parts[rank]
    return tf.zeros(share.shape, tf.int64) if part is None else part


def _read(model: Parameters) -> Parameters:
    """The model as it is now, or whenever the graph runs that is being traced."""
    return pairs([present(share) for share in flat(model)])
