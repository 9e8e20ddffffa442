"""What the hosts have in common: three parties that compute 1/sqrt(x) repeatedly."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.instruments.socket_diag import carried

PARTIES = 3
OURS, PAPER = "one-hot, degree 4 (ours)", "Protocol 1 as in the paper"
INV_SQRT, SQRT_RECIPROCAL = "inv_sqrt()", "sqrt().reciprocal()"
_SETTLING = 0.1
"""Seconds in which the last bytes are acknowledged; only those count as sent."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """Parties of one host, each a process of its own, ready to compute.

    Attributes:
        host: its name.
        pids: of the parties.
        dealer: the process id of the dealer of correlated randomness, where there is one.
        warm_up: of a method and a batch, at least two calls; returns "rounds", the longest chain
            of messages, or the "messages" that one party sends where the host does not tell it.
        call: of a method and a batch, so many calls one after the other; returns the seconds of
            each.
    """

    host: str
    pids: Sequence[int]
    dealer: Sequence[int] = ()
    warm_up: Callable[[str, int], dict[str, int]]
    call: Callable[[str, int, int], list[float]]


def measure(session: Session, method: str, batch: int, repeats: int) -> dict[str, Any]:
    """Returns seconds of each call, rounds, and bytes a call: what each party sent over TCP.

    Bytes include the headers of messages, but not those of TCP/IP. Shares of the input, which
    are made before the first call, are among them: at most 16 bytes an element of one party.
    """
    count = session.warm_up(method, batch)
    time.sleep(_SETTLING)
    before = carried([*session.pids, *session.dealer])
    seconds = session.call(method, batch, repeats)
    time.sleep(_SETTLING)
    after = carried([*session.pids, *session.dealer])
    sent = [(b - a) / repeats for (a, _), (b, _) in zip(before, after, strict=True)]
    return {
        "host": session.host,
        "method": method,
        "batch": batch,
        "seconds": seconds,
        "rounds": count.get("rounds"),
        "messages": count.get("messages"),
        "sent": sent[:PARTIES],
        "dealt": sum(sent[PARTIES:]),
    }
