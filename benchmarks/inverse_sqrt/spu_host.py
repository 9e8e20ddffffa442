"""1/sqrt(x) in SecretFlow SPU's ABY3: three processes of an interpreter that has the package."""

import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.instruments.hosts import SPU
from benchmarks.instruments.spu import SpuParties
from benchmarks.inverse_sqrt.session import Session
from benchmarks.inverse_sqrt.spu_party import METHODS

_MESSAGES = re.compile(r"Link details: .*send actions (\d+)")
_PARTY = "benchmarks.inverse_sqrt.spu_party"


@contextmanager
def session(*, frac_bits: int, python: str) -> Iterator[Session]:
    """Yields three parties on SPU's own link over TCP, of an interpreter that has SPU."""
    with SpuParties(python, _PARTY) as parties:

        def call(method: str, batch: int, calls: int) -> list[float]:
            task = {"method": method, "frac_bits": frac_bits, "batch": batch}
            seconds: list[float] = parties.run(task="call", calls=calls, **task)[0]
            return seconds

        def warm_up(method: str, batch: int) -> dict[str, int]:
            call(method, batch, 2)
            parties.logged()
            parties.run(task="profile", method=method, frac_bits=frac_bits, batch=batch)
            messages = [int(actions) for actions in _MESSAGES.findall(parties.logged())]
            return {"messages": round(statistics.median(messages))}

        yield Session(host=SPU, pids=parties.pids, warm_up=warm_up, call=call)


def values(*, frac_bits: int, count: int, python: str) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`."""
    with SpuParties(python, _PARTY) as parties:
        task = {"task": "approximate", "frac_bits": frac_bits, "count": count}
        return {method: parties.run(method=method, **task)[0] for method in METHODS}
