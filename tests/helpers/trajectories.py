"""The model after every step of a run, on whichever host, beside the same run in the clear.

A truncation rounds up or down by a coin. The clear ring makes a run twice: by coins of its own, and
by those of the run on shares, whose every weight it must meet then.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from extensions.data.datasets import Split
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.host import Host, share_public
from extensions.protocols.optimizer import State
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.settings import Training
from extensions.protocols.step import Step
from extensions.ring.clear import Coins
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import checked_records
from extensions.runs.options import RunOptions

Models = Sequence[Sequence[Integers]]


def in_crypten(
    context: Any, *, config: TrainConfig, files: Sequence[Path], steps: int, coins: Path
) -> Models:
    """Returns weights and biases after each of the first steps; in every party.

    The first party writes by which coins it rounded.
    """
    from crypten_ext.run.training import join

    host, part, _ = join(config, files[context.rank], RunOptions())
    records = [checked_records(part.train_x, part.train_y, config)]
    with ExitStack() as stack:
        if context.rank == 0:
            keep_coins(host.ring, stack.enter_context(coins.open("wb")))
        return trajectory(host, config, records, _start(config, part), range(1, steps + 1))


def flat_model(parts: Sequence[Integers]) -> Integers:
    """Returns all weights and biases as one vector."""
    return np.concatenate([part.ravel() for part in parts])


def rows_of(
    start: Sequence[Integers], secure: Models, clear: Models, alike: Models, every: int
) -> list[dict[str, Any]]:
    """Returns how far a run on shares is from one in the clear, by step.

    Args:
        start: the model before the first step.
        secure: after each step on shares.
        clear: after each step in the clear, by coins of its own.
        alike: by those of the run on shares.
        every: one of so many steps is shown, with the farthest weights since the last one shown.
    """
    rows: list[dict[str, Any]] = []
    by_same: list[float] = []
    for t, models in enumerate(zip(secure, clear, alike, strict=True), start=1):
        found, expected, same = map(flat_model, models)
        by_same.append(np.abs(found - same).max())
        if t % every:
            continue
        apart = np.abs(found - expected)
        way = np.linalg.norm(expected - flat_model(start))
        rows.append(
            {
                "step": t,
                "farthest by the same coins, ulps": int(max(by_same[-every:])),
                "within 2 ulps a step by others, %": 100 * float(np.mean(apart <= 2 * t)),
                "median ulps apart": float(np.median(apart)),
                "farthest, ulps": int(apart.max()),
                "apart, % of their way": 100 * float(np.linalg.norm(apart) / way),
            }
        )
    return rows


def beside_the_clear(
    config: TrainConfig, parts: Sequence[Split], secure: Models, coins: Path, every: int
) -> list[dict[str, Any]]:
    """Returns the rows of a run on shares, whose randomness a seed determines.

    Args:
        config: of the run.
        parts: the parties' records.
        secure: the model after each of the first steps.
        coins: by which it rounded.
        every: as for `rows_of`.
    """
    start, numbers = _start(config, parts[0]), range(1, len(secure) + 1)
    records = [checked_records(part.train_x, part.train_y, config) for part in parts]
    with coins.open("rb") as file:
        clear, alike = (
            trajectory(_in_the_clear(config, tossed), config, records, start, numbers)
            for tossed in (None, Again(file))
        )
    return rows_of(start, secure, clear, alike, every)


def _start(config: TrainConfig, part: Split) -> list[Integers]:
    return public_start(config, part.train_x.shape[1])


def _in_the_clear(config: TrainConfig, coins: Coins | None) -> ClearHost:
    assert config.insecure_seed is not None
    source = InsecureSeededSource(config.insecure_seed)
    owners = config.parties
    return ClearHost(
        config.frac_bits, parties=config.parties, owners=owners, source=source, coins=coins
    )


class Opened(pea.RunCallbacks):
    """Opens the model after each step.

    Args:
        host: of the run.
        steps: numbers of those that are made.
    """

    def __init__(self, host: Host, steps: range) -> None:
        super().__init__(host)
        self._steps = steps
        self.models: list[list[Integers]] = []

    def steps(self, config: Training) -> range:
        """Returns the numbers of the steps that are to be made."""
        return self._steps

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        """Takes the model after a step."""
        self.models.append([np.array(part) for part in self._host.open(self._summands(state))])

    def _summands(self, state: State) -> Sequence[Sequence[Integers]]:
        return self._host.summands(state.model)


def trajectory(
    host: Host,
    config: Training,
    records: Sequence[OwnRecords],
    start: Sequence[Integers],
    steps: range,
) -> list[list[Integers]]:
    """Returns weights and biases after each step, in units of an ulp.

    Args:
        host: whose parties own the records.
        config: of the run.
        records: of this program's owners.
        start: each weight and bias in turn, public.
        steps: numbers of those that are made, which may be some of the run's.
    """
    begun = State.begin(host, config, share_public(host, start))
    callbacks = Opened(host, steps)
    known = Records.agreed(host.exchange, records)
    pea.descend(Step.of(config, known), host, known, begun, Ledger(), callbacks)
    return callbacks.models


def keep_coins(ring: Any, file: BinaryIO) -> None:
    """A ring adds to a file, from here on, the coins of all that it truncates.

    They are uniform words that every party sees, and tell nothing of what is truncated.

    Args:
        ring: of a host, as `extensions.ring.masked_opening.MaskedOpening` truncates.
        file: which has one array behind the other, of words of as many bytes as they need.
    """
    shift_opened = ring.shift_opened

    def kept(c: Any, shift: int, *mask: Any) -> Any:
        if shift:
            low = (1 << shift) - 1
            np.save(file, np.asarray(c & low).astype(np.min_scalar_type(low)))
        return shift_opened(c, shift, *mask)

    ring.shift_opened = kept


class Again:
    """`extensions.ring.clear.Coins` from a file of `keep_coins`, each once.

    Args:
        file: at its beginning.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def integers(self, low: int, high: int, size: Sequence[int]) -> Integers:
        """Returns the next coins.

        Raises:
            EOFError: there are no more.
            ValueError: they were of another number of values.
        """
        if high - low == 1:
            return np.zeros(size, np.int64)
        coins: Integers = np.load(self._file).astype(np.int64).reshape(size)
        return coins
