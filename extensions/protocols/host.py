"""What Protocol 5 needs of a host: a ring, and how owners' records come into it.

In some hosts each party is a process of its own, whose program computes with that party's records
and shares alone. In others one program computes for all parties, whose records and shares lie on
devices that it directs, or all in one place. A protocol that is written against `Host` cannot tell.
"""

import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from extensions.layers.passes import Parameters
from extensions.privacy.randomness import uniform
from extensions.privacy.sampling import Batch as Batch
from extensions.privacy.sampling import OwnRecords, draw_rows
from extensions.protocols.agreement import Words
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource, Ring, Share

Computation = Callable[..., Parameters]
"""What it makes of shares, and of public integers that may be others whenever it is called."""
T = TypeVar("T")
Compute = Callable[[Parameters], Sequence[Share]]
Arrays = Sequence[Integers]
Placed = Any
"""What the parties of this program have, where their host wants it."""


class Carried(NamedTuple):
    """Bytes of one party's messages, as TCP carries them.

    Attributes:
        sent: to the other parties, and to whoever gives them records or gets results.
        dealt: sent to and received from who deals correlated randomness and is no party.
    """

    sent: int = 0
    received: int = 0
    dealt: int = 0

    @property
    def bytes(self) -> int:
        """What it sent and received, but for what was dealt."""
        return self.sent + self.received


class Traffic(NamedTuple):
    """What a run took so far.

    Attributes:
        carried: bytes of each of them, in order; empty where the system does not count them.
    """

    rounds: int = 0
    carried: Sequence[Carried] = ()

    @property
    def mean(self) -> int | None:
        """Bytes that one of these parties sent and received on the average; None if not counted."""
        return mean([one.bytes for one in self.carried])

    @property
    def largest(self) -> int | None:
        """Bytes of the party that sent and received most; None if not counted."""
        return max((one.bytes for one in self.carried), default=None)

    def plus(self, other: "Traffic", times: int = 1) -> "Traffic":
        """Returns the sum of this and so many times the other; of equally many parties."""
        carried = [
            Carried(*(a + times * b for a, b in zip(*pair, strict=True)))
            for pair in zip(self.carried, other.carried, strict=True)
        ]
        return Traffic(self.rounds + times * other.rounds, carried)


class StepForecast(NamedTuple):
    """What one step takes.

    Attributes:
        bytes: that a party sends to and receives from the others on the average, headers not
            counted; None where nobody can tell.
        memory: bound of the bytes that a party's process takes beside records and model, about;
            None likewise.
        trips: messages one after the other between parties; a round of many words takes two.
        once: bytes as `bytes` of a batch that is made once for all steps, beside them.
    """

    rounds: int
    bytes: int | None = None
    memory: int | None = None
    trips: int = 0
    once: int = 0


class Speed(NamedTuple):
    """How fast parties compute together here and now, as far as it was timed.

    Attributes:
        trip: seconds of a message to everybody and of what is computed for it.
        byte: seconds that each byte takes, of what a party sends and receives, likewise.
        work: how much longer this processor takes than the one on which figures were measured.
        overhead: seconds that a run takes before its first step and after its last one.
        counted: whether what parties tell each other beside steps counts as rounds.
        averaging: rounds that the mean of iterates takes at the end.
    """

    trip: float = 0.0
    byte: float = 0.0
    work: float = 1.0
    overhead: float = 0.0
    counted: bool = False
    averaging: int = 0


Tell = Callable[[StepForecast, Speed], None]


def mean(values: Sequence[int]) -> int | None:
    """Returns the mean, rounded; None of nothing."""
    return round(sum(values) / len(values)) if values else None


def flat(model: Sequence[tuple[Share, Share]]) -> list[Share]:
    """Returns the weight and the bias of each layer in turn."""
    return [part for pair in model for part in pair]


@dataclass(frozen=True)
class Blocks:
    """Columns of the same rows, placed where their owners have them, turned to be rows of blocks.

    Attributes:
        placed: blocks of features, the squared norms of their rows, and labels.
        sizes: how many rows of each of them every party has.
    """

    placed: tuple[Placed, Placed, Placed]
    sizes: tuple[Sequence[int], Sequence[int], Sequence[int]]

    @classmethod
    def of(
        cls, host: "Host", own: Sequence[OwnRecords], widths: Sequence[int], outputs: Sequence[int]
    ) -> "Blocks":
        """Returns the blocks of this program's owners.

        A row's squared norm is the sum of its blocks', which are exact integers.

        Args:
            widths: number of columns of each party.
            outputs: of its columns of labels.
        """
        norms = [np.einsum("ij,ij->i", each.features, each.features)[None] for each in own]
        blocks = (
            [[each.features.T] for each in own],
            [[n] for n in norms],
            [[x.labels.T] for x in own],
        )
        x, n, y = (host.place(each) for each in blocks)
        return cls((x, n, y), (widths, [1] * len(widths), outputs))

    def shared(self, host: "Host") -> Batch:
        """Returns shares of all rows, whole; where `Host.share_rows` may be called."""
        own, norms, y = self.beside(host)
        (x,) = host.share_rows(self.sizes[0], own)
        return Batch(x.T, y, norms, None)

    def pieces(self, host: "Host", rows: int, count: int) -> Iterator[Batch]:
        """Yields the same in that many pieces of the rows."""
        batch = self.shared(host)
        for i in range(count):
            yield batch.part(part_of(rows, i, count))

    def beside(self, host: "Host") -> tuple[Placed, Share, Share]:
        """Returns the blocks as they lie, and shares of squared norms and labels, likewise."""
        x, norms, y = self.placed
        (norms,), (y,) = (
            host.share_rows(*each) for each in zip(self.sizes[1:], (norms, y), strict=True)
        )
        return x, norms.sum(0), y.T


@dataclass(frozen=True, kw_only=True)
class SumOf:
    """What is added up over records, block by block, and what is made of the sum.

    Attributes:
        count: of the model and some records, unpadded, returns it, (size,).
        finish: of the model and the sum.
    """

    size: int
    count: Callable[[Parameters, Batch], Share]
    finish: Callable[[Parameters, Share], Sequence[Share]]


class Host(Protocol):
    """One host of secure computation, as one program sees it.

    A host overrides what it must, and what it does in another way; the rest is that of a host in
    which all parties share one program, and arrays are shared as they come.

    Attributes:
        ranks: the parties whose records this program has, in order.
        holders: the parties whose shares it has, in order.
        software: distributions that it is made of, whose versions must be equal at all parties.
    """

    software: Sequence[str] = ()
    ring: Ring
    noise: NoiseSource
    ranks: Sequence[int]
    holders: Sequence[int]

    def exchange(self, own: Sequence[Words]) -> Sequence[Words]:
        """Returns every party's words by rank, given those of this program's parties; one round."""
        return own

    def begin(self, run: str) -> None:
        """Takes note of what a run is known by, for whoever deals to its parties.

        Traffic counts from here.
        """
        return

    def measure_speed(self) -> None:
        """Finds how fast parties are, for `forecast`; nothing is shared. All call it at once."""
        return

    def forecast(self, config: Any, records: Any, step: Any, tell: Tell) -> None:
        """Has somebody told what a step will take, before any record is shared; or nobody.

        Args:
            tell: is called once, where it can be known.
        """
        return

    def place(self, own: Sequence[OwnRecords | Arrays]) -> Placed:
        """Returns what this program's owners have, there where the host shares it from.

        Args:
            own: of each of `ranks` its records, or equally many arrays.
        """
        return own

    def share_rows(self, rows: Sequence[int], own: Placed) -> list[Share]:
        """Returns shares of all parties' rows, one party's after the other's.

        Args:
            rows: public number of rows of each party.
            own: arrays of so many rows, placed.
        """
        ...

    def prefetch(self, steps: int, outputs: int | None) -> None:
        """Takes note that so many steps follow which sample alike, and draw the same noise.

        A host may begin a sample while the step before it works, and draw noise while one waits.

        Args:
            steps: that will call `samples` with the same arguments, one after the other.
            outputs: columns of what rows are multiplied with first; None if they are not.
        """
        return

    def samples(
        self, records: Placed, rows: Sequence[int], rate: float, pieces: int
    ) -> Iterator[Batch]:
        """Yields a fresh Poisson sample of every owner's records, padded to its number of rows.

        It is where a step begins. Each owner draws in private.

        Args:
            rate: Poisson sampling rate q.
            pieces: in which it comes, at least 1, each with its part of every owner's rows.
        """
        for sizes, own in self.drawn(records, rows, rate, pieces):
            yield self.batch_of(sizes, own)

    def drawn(
        self, records: Placed, rows: Sequence[int], rate: float, pieces: int
    ) -> Iterator[tuple[list[int], list[Batch]]]:
        """Yields each piece's rows of every party, and of each of `ranks` its own; as `samples`."""
        drawn = [
            draw_rows(own, party=rank, sample_rate=rate, rows=rows[rank], source=self.noise)
            for rank, own in zip(self.ranks, records, strict=True)
        ]
        for i in range(pieces):
            parts = [part_of(n, i, pieces) for n in rows]
            own = [one.part(parts[rank]) for rank, one in zip(self.ranks, drawn, strict=True)]
            yield [part.stop - part.start for part in parts], own

    def standing(self, records: Placed, rows: Sequence[int], pieces: int) -> Sequence[Batch] | None:
        """Returns the batch of all steps of a run whose sampling rate is 1: all records, in pieces.

        It is made once, before the first of these steps, and belongs to these records; a run that
        goes on makes another. None where each step has to call `samples`. `Blocks` are shared once.
        """
        if not isinstance(records, Blocks):
            return None
        return [*records.pieces(self, rows[0], pieces)]

    def begin_step(self) -> None:
        """Takes note that a step on a standing batch begins; `samples` begins any other."""
        return

    def batch_of(self, rows: Sequence[int], own: Sequence[Batch]) -> Batch:
        """Returns the batch of all parties' samples.

        Args:
            own: of each of `ranks` its sample.
        """
        return Batch(*self.share_rows(rows, [[*one] for one in own]))

    def everything(self, records: Placed, rows: Sequence[int]) -> Batch:
        """Returns all records, unpadded."""
        x, y = self.share_rows(rows, [[own.features, own.labels] for own in records])
        return Batch(x, y, None, None)

    def summands(self, model: Parameters, compute: Compute = flat) -> list[list[Integers]]:
        """Returns, for each of `holders`, its summand of each share that is computed of a model.

        The sum over all holders of all programs, modulo 2^64, is what is shared. Nothing is opened.

        Args:
            compute: by default each weight and bias in turn.
        """
        ...

    def total(
        self,
        model: Parameters,
        records: Sequence[OwnRecords],
        rows: Sequence[int],
        blocks: int,
        sum_of: SumOf,
    ) -> list[list[Integers]]:
        """Returns, for each of `holders`, its summands of what is made of a sum over records.

        Args:
            blocks: in which they come, one after the other.
        """

        def compute(model: Parameters) -> Sequence[Share]:
            each = (
                self.everything(self.place(own), sizes)
                for own, sizes in in_blocks(records, rows, blocks)
            )
            counts = (sum_of.count(model, batch) for batch in each)
            return sum_of.finish(model, functools.reduce(operator.add, counts))

        return self.summands(model, compute)

    def restore(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the model of which `summands` returned these."""
        ...

    def reshared(self, summands: Sequence[Sequence[Integers]]) -> Parameters:
        """Returns the model that summands of a computation make; local where these are shares."""
        return self.restore(summands)

    def with_both_classes(self, model: Parameters) -> Parameters:
        """Returns a model of one output with the other class's too, its negative; local."""
        words = self.summands(model)
        return self.restore(
            [[*own[:-2], *(np.concatenate([-part, part]) for part in own[-2:])] for own in words]
        )

    def compile(self, step: Computation) -> Computation:
        """Returns what computes the step, as often as it is called with one and the same model.

        Args:
            step: is given the model, and the public integers that its caller gives.
        """
        return step

    def open(self, summands: Sequence[Sequence[Integers]]) -> list[Integers]:
        """Returns to every party what the summands of all holders add up to; one round.

        Exactly these words are sent, so that it tells the same however often it is done.
        """
        return [np.sum(column, axis=0) for column in zip(*summands, strict=True)]

    def masked(self, own: Sequence[Arrays]) -> list[list[Integers]]:
        """Returns, for each of `holders`, words that add up to the sum of all owners' arrays.

        Whoever sees all words of all holders but those of some owners learns the sum of the arrays
        of these owners, and nothing else of them.

        Args:
            own: of each of `ranks` its integers, of the same shapes at every party.
        """
        sums = [np.sum(column, axis=0, dtype=np.int64) for column in zip(*own, strict=True)]
        masks = [[uniform(part.shape) for part in sums] for _ in self.holders[1:]]
        rest = [part - sum(column) for part, *column in zip(sums, *masks, strict=True)]
        return [*masks, rest]

    def traffic(self) -> Traffic:
        """Returns what this program's parties sent and received so far; of every holder."""
        return Traffic(0, [Carried() for _ in self.holders])

    def noise_failure(self, parameters: int) -> float:
        """Returns how probable it is that one step's noise deviates from a discrete Gaussian."""
        return 0.0


def share_public(host: Host, values: Sequence[Integers]) -> Parameters:
    """Returns shares of a public model: party 0's are its values, and all others are zero.

    Args:
        values: each weight and bias in turn.
    """
    return host.restore(
        [
            [value if rank == 0 else np.zeros_like(value) for value in values]
            for rank in host.holders
        ]
    )


def pairs(parts: Sequence[Share]) -> Parameters:
    """Returns weights and biases, given in turn, as the parameters of layers."""
    return list(zip(parts[::2], parts[1::2], strict=True))


def named(parts: Sequence[T]) -> dict[str, T]:
    """Returns weights and biases, given in turn, by the names that they have in files."""
    return {f"{'bias' if i % 2 else 'weight'}_{i // 2}": part for i, part in enumerate(parts)}


def unnamed(arrays: Mapping[str, Integers]) -> list[Integers]:
    """Returns what `named` was given."""
    layers = range(len(arrays) // 2)
    return [arrays[f"{kind}_{i}"] for i in layers for kind in ("weight", "bias")]


def total_of_blocks(
    host: Host, model: Parameters, own: Blocks, rows: int, blocks: int, sum_of: SumOf
) -> list[list[Integers]]:
    """Returns what `Host.total` does, of so many rows whose columns are apart."""

    def compute(model: Parameters) -> Sequence[Share]:
        counts = (sum_of.count(model, batch) for batch in own.pieces(host, rows, blocks))
        return sum_of.finish(model, functools.reduce(operator.add, counts))

    return host.summands(model, compute)


def pieces_of(rows: Sequence[int], most: int | None) -> int:
    """Returns in how many pieces a step's rows are computed: each has some of every party's.

    Args:
        most: about how many rows a piece may have; None for all.
    """
    return 1 if most is None else min(-(-sum(rows) // most), *(n for n in rows if n))


def in_blocks(
    records: Sequence[OwnRecords], rows: Sequence[int], count: int
) -> Iterator[tuple[list[OwnRecords], list[int]]]:
    """Yields that many parts of records in this process, as equal as can be, and their sizes."""
    for i in range(count):
        parts = []
        for each in records:
            own = part_of(len(each.features), i, count)
            parts.append(replace(each, features=each.features[own], labels=each.labels[own]))
        yield parts, [len(range(n)[part_of(n, i, count)]) for n in rows]


def part_of(size: int, i: int, count: int) -> slice:
    """The i-th of that many parts."""
    return slice(size * i // count, size * (i + 1) // count)
