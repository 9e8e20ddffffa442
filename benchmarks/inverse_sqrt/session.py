"""What the hosts have in common: three parties that compute 1/sqrt(x) repeatedly."""

import time
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.instruments.socket_diag import carried

PARTIES = 3
OURS, PAPER = "one-hot, degree 4 (ours)", "Protocol 1 as in the paper"
INV_SQRT, SQRT_RECIPROCAL = "inv_sqrt()", "sqrt().reciprocal()"
_SETTLING = 0.1
"""Seconds in which the last bytes are acknowledged; only those count as sent."""


@dataclass(frozen=True, kw_only=True)
class Count:
    """What a host counts of one call.

    Attributes:
        rounds: the longest chain of messages; None where the host does not tell.
        messages: that one party sends; told where rounds are not.
    """

    rounds: int | None
    messages: int | None = None


class Session(Protocol):
    """Parties of one host, each a process of its own, ready to compute; they end with its block."""

    host: str

    @property
    def pids(self) -> list[int]:
        """The parties' process ids."""

    @property
    def dealer_pid(self) -> int | None:
        """The process id of the dealer of correlated randomness; None without one."""

    def warm_up(self, method: str, batch: int) -> Count:
        """Returns what the host counts of one call, after at least two calls to warm up."""

    def call(self, method: str, batch: int, calls: int) -> list[float]:
        """Returns the seconds of each of that many calls, one after the other."""


def measure(session: Session, method: str, batch: int, repeats: int) -> dict[str, Any]:
    """Returns seconds of each call, rounds, and bytes a call: what each party sent over TCP.

    Bytes include the headers of messages, but not those of TCP/IP. Shares of the input, which
    are made before the first call, are among them: at most 16 bytes an element of one party.
    """
    count = session.warm_up(method, batch)
    dealer = [] if session.dealer_pid is None else [session.dealer_pid]
    time.sleep(_SETTLING)
    before = carried([*session.pids, *dealer])
    seconds = session.call(method, batch, repeats)
    time.sleep(_SETTLING)
    after = carried([*session.pids, *dealer])
    sent = [(b - a) / repeats for (a, _), (b, _) in zip(before, after, strict=True)]
    return {
        "host": session.host,
        "method": method,
        "batch": batch,
        "seconds": seconds,
        "rounds": count.rounds,
        "messages": count.messages,
        "sent": sent[:PARTIES],
        "dealt": sum(sent[PARTIES:]),
    }
