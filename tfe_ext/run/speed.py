"""How fast ABY3's servers are: as the tracing of a graph tells, which takes this processor as long.

Figures are those of two cores. A run's first step and its evaluation are graphs as well.
"""

from extensions.protocols.host import Speed

_TRACED, _PLANNED = 4.0, 10.0
"""Seconds in which a step was traced there, and planned by a process that began for that."""
_TRIP, _BYTE = 0.6e-3, 1e-8
"""Seconds there of what servers compute for a round, and for a byte."""
_OTHERS = 1.6
"""What the first run of a step, and the graph of the evaluation, take of such a time."""
BESIDE = 2.0
"""Seconds of a run without graphs beside its steps."""


def traced_speed(seconds: float, trip: float, byte: float) -> Speed:
    """Returns the pace of servers, a step of which was traced in so many seconds.

    A message between servers takes `trip` seconds, 0 within a process, and `byte` for each byte.
    """
    slower = seconds / _TRACED
    return Speed(
        trip=trip + slower * _TRIP,
        byte=byte + slower * _BYTE,
        work=slower,
        overhead=_OTHERS * seconds + BESIDE,
        averaging=2,
    )


def planned_speed(seconds: float) -> Speed:
    """Returns the pace of servers that share a process, of which a plan took so long."""
    found = traced_speed(seconds * _TRACED / _PLANNED, 0.0, 0.0)
    return found._replace(overhead=_OTHERS * seconds)
