"""How fast CrypTen's parties are: timed over their connections before a run, or as is usual."""

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from extensions.protocols.host import Host, Speed
from extensions.runs.config.run_time import MANY, opened_bytes, work

_TRIP, _BYTE = 0.7e-3, 3.5e-9
"""Seconds of a round of few words, and of each byte of many, between three parties on two cores."""
_ROUND_OF_STEP, _BYTE_OF_STEP = 1.85e-3, 6e-9
"""What a step takes beside that, for what parties compute and are dealt."""
_BESIDE = 1.0
"""Seconds until a first step begins, and from the end until processes have ended."""
_TRIPS, _BURSTS = 4, 2
_WORDS = 8 * MANY


def default_speed() -> Speed:
    """Returns the pace of three parties and a dealer on a machine like this one."""
    return _speed(_TRIP, _BYTE, work())


def measured_speed(host: Host) -> Speed:
    """Returns that of the parties as they are connected: trips of few words, and of a megabyte.

    All parties call it at the same time. Some rounds pass, of zeros: nothing is shared.
    """
    host.exchange([[0]])  # it waits for the last one
    trip = median(_seconds(lambda: host.exchange([[0]])) for _ in range(_TRIPS))
    zeros = [[np.zeros(_WORDS, np.int64)]]
    burst = min(_seconds(lambda: host.open(zeros)) for _ in range(_BURSTS))
    found = host.exchange([[round(1e6 * each) for each in (trip, burst, work())]])
    trips, bursts, works = zip(*found, strict=True)
    byte = max(0, min(bursts) - 2 * min(trips)) / opened_bytes(_WORDS, len(found))
    return _speed(1e-6 * min(trips), 1e-6 * byte, 1e-6 * max(works))


def _seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def _speed(trip: float, byte: float, slower: float) -> Speed:
    return Speed(
        trip=trip + slower * _ROUND_OF_STEP,
        byte=byte + slower * _BYTE_OF_STEP,
        work=slower,
        overhead=slower * _BESIDE,
        counted=True,
        averaging=1,
    )
