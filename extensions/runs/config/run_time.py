"""How long a run will take, from public facts and from what was timed before it."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from extensions.layers.tally import compared
from extensions.protocols.host import Speed, StepForecast
from extensions.protocols.noisy_sums.additive.training import most_opened
from extensions.protocols.records import Records, blocks_for
from extensions.runs.config.train import TrainConfig

WORD = 8


class Network(NamedTuple):
    """What lies between parties, in one direction of each connection.

    Attributes:
        delay_ms: one-way.
        mbit: 10^6 bits a second; None is without limit.
    """

    delay_ms: float = 0.0
    mbit: float | None = None

    def slower(self, speed: Speed, parties: int) -> Speed:
        """Returns the pace of parties between which it lies.

        Args:
            speed: without it.
            parties: their number; each sends and receives equally much, on all connections alike.
        """
        byte = 0.0 if self.mbit is None else 8e-6 / (self.mbit * 2 * max(1, parties - 1))
        return speed._replace(trip=speed.trip + self.delay_ms / 1000, byte=speed.byte + byte)


NETWORKS = {
    "loopback": Network(),
    "lan": Network(delay_ms=0.1, mbit=1000.0),
    "wan": Network(delay_ms=20.0, mbit=100.0),
}
"""Those that tables and plans are made for."""


_REFERENCE = 2.9e-3
"""Seconds of `_exercise` where the figures of this module and of the hosts were measured."""
_PRODUCT, _ELEMENT = 3e-9, 5e-7
"""Seconds of a step in the clear, for each product of a matrix product and each row's output."""
_GRAM = 1.5e-10
"""Of a product of whitening, in floating point."""
_JUDGED = 30
"""Rounds that counting predictions takes, for each block of records; about."""
_COMPARED = 200
"""Bytes of each comparison, about."""


def work() -> float:
    """Returns how much longer this processor takes now than where figures were measured.

    Takes some milliseconds.
    """
    fastest = min(_exercise() for _ in range(5))  # turns of others are in the slower ones
    return max(0.3, min(3.0, fastest / _REFERENCE))


def _exercise() -> float:
    few, many = np.arange(64), np.arange(1 << 18)
    a, b = few, many
    began = time.perf_counter()
    for _ in range(4000):
        a = (a ^ few) + few
    for _ in range(4):
        b = (b ^ many) * many
    return time.perf_counter() - began


class RunForecast(NamedTuple):
    """What a run takes, from when it is told.

    Attributes:
        seconds: until its end.
        each: seconds of one step.
        after: seconds of what follows the last step.
        rounds: of all steps, and of what is before and after them; None if not known.
        bytes: that a party sends and receives on the average in them.
        memory: of a party's process, beside model and records, about.
    """

    seconds: float
    each: float
    after: float
    rounds: int | None = None
    bytes: int | None = None
    memory: int | None = None


def forecast_run(
    config: TrainConfig,
    records: Records,
    held_out: int,
    step: StepForecast,
    speed: Speed,
    steps: int | None = None,
    *,
    whitened: bool = False,
) -> RunForecast:
    """Returns what is to be said of a run whose steps are known.

    Args:
        config: resolved settings.
        records: of which the sizes are known.
        held_out: number of held-out records of all parties.
        step: what one step takes.
        speed: how fast they are.
        steps: that are left, if not all.
        whitened: whether features are, if they are to be.
    """
    steps = config.steps if steps is None else steps
    features, parties = records.features, config.parties
    parameters = config.spec(features).parameters
    rows, largest = sum(records.rows(config)), max(records.rows(config))
    clear = 0.0
    if not config.hidden:
        clear = _in_clear(config, features, largest)
    elif not step.rounds:
        clear = _in_clear(config, features, rows)
    each = step.trips * speed.trip + (step.bytes or 0) * speed.byte + clear * speed.work
    after = speed.overhead / 2 + _judging(config, records, held_out, step, speed)
    before = speed.overhead / 2
    if config.whiten and not whitened:
        before += _whitening(config, records, held_out, speed)
    before += step.once * speed.byte
    rounds, size = steps * step.rounds, steps * (step.bytes or 0) + step.once
    if speed.counted:
        more, words = _beside_steps(config, features, parameters)
        rounds, size = rounds + more, size + opened_bytes(words, parties)
    if config.average and config.hidden:
        rounds += speed.averaging
        size += opened_bytes(parameters, parties) * (speed.averaging > 0)
    exact = config.strategy is None
    return RunForecast(
        seconds=before + steps * each + after,
        each=each,
        after=after,
        rounds=rounds if exact else None,
        bytes=size if exact and step.bytes is not None else None,
        memory=step.memory,
    )


def openly(config: TrainConfig, features: int) -> StepForecast:
    """Returns what a step takes whose sum is opened, or the release of statistics.

    Args:
        config: of a run that is not hidden.
        features: of a record.
    """
    words = config.spec(features).parameters
    if config.grid is not None:
        words = most_opened(config.grid, config.classes)
    if config.method == "statistics":
        words = features * (features + 1) // 2 + features * config.classes
    return StepForecast(1, opened_bytes(words, config.parties), None, 1 + (words > MANY))


MANY = 1 << 14
"""Words of an opening in which parties share the work of adding up; it takes two trips."""


def opened_bytes(words: int, parties: int) -> int:
    """Returns the bytes that each party sends and receives to open so many words."""
    return round(2 * WORD * (parties - 1) * words * (1 if words <= MANY else 2 / parties))


def _beside_steps(config: TrainConfig, features: int, parameters: int) -> tuple[int, int]:
    """Rounds and words of what is not a step: parties agree, mask, whiten and start."""
    rounds, words = 1, 0
    if config.whiten or not config.hidden:
        rounds += 1
    if config.whiten:
        rounds, words = rounds + 1, words + features * (features + 1) // 2
    if config.open == "each-step":
        rounds, words = rounds + 1, words + parameters
    if config.grid is not None and config.cells != "equal":
        rounds, words = rounds + 1, words + config.grid.size
    return rounds, words


def _in_clear(config: TrainConfig, features: int, rows: int) -> float:
    """Seconds of a step of so many rows on plaintext."""
    if (encoder := config.encoder) is not None:
        return rows * encoder.pace
    products = 2 * rows * config.spec(features).parameters
    return products * _PRODUCT + rows * config.outputs * _ELEMENT + 2e-3


def _whitening(config: TrainConfig, records: Records, held_out: int, speed: Speed) -> float:
    """Seconds in which the sum is found and opened, and all features are mapped."""
    d = records.features
    products = d * d * (2 * (sum(records.sizes) + held_out) + 30 * d)
    opened = opened_bytes(d * (d + 1) // 2, config.parties) if speed.counted else 0
    return speed.work * products * _GRAM + 3 * speed.trip + opened * speed.byte


def _judging(
    config: TrainConfig, records: Records, held_out: int, step: StepForecast, speed: Speed
) -> float:
    """Seconds in which predictions on held-out records are counted."""
    if config.evaluate == "none" or not held_out:
        return 0.0
    if not config.hidden or not step.rounds:
        own = -(-held_out // config.parties) if config.hidden else held_out
        return speed.work * _in_clear(config, records.features, own) + 4 * speed.trip
    comparisons = config.outputs * (compared(config.classes) if config.judged == "all" else 1)
    sizes: Sequence[int] = [held_out // config.parties] * config.parties
    blocks = blocks_for([*sizes, 1], records.features, comparisons)
    words = held_out * (WORD * records.features + _COMPARED * comparisons)
    size = 4 * (config.parties - 1) / config.parties * words
    return blocks * _JUDGED * speed.trip + size * speed.byte
