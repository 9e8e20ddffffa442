"""1/sqrt(x) in SecretFlow SPU's ABY3: three processes of an interpreter that has the package."""

import re
import statistics
from typing import Any, Self

from benchmarks.instruments.hosts import SPU
from benchmarks.instruments.spu import SpuParties
from benchmarks.inverse_sqrt.session import Count
from benchmarks.inverse_sqrt.spu_party import METHODS

_MESSAGES = re.compile(r"Link details: .*send actions (\d+)")


class HostSession:
    """Three parties on SPU's own link over TCP.

    Args:
        frac_bits: of input and output.
        python: an interpreter that has SPU.
    """

    host = SPU
    dealer_pid = None

    def __init__(self, frac_bits: int, python: str) -> None:
        self._frac_bits = frac_bits
        self._parties = SpuParties(python, "benchmarks.inverse_sqrt.spu_party")

    def __enter__(self) -> Self:
        self._parties.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parties.__exit__(*error)

    @property
    def pids(self) -> list[int]:
        """The parties' process ids."""
        return self._parties.pids

    def warm_up(self, method: str, batch: int) -> Count:
        """Returns the messages that a party sends; SPU does not tell which wait for which."""
        self.call(method, batch, 2)
        self._parties.logged()
        self._run("profile", method=method, batch=batch)
        messages = [int(actions) for actions in _MESSAGES.findall(self._parties.logged())]
        return Count(rounds=None, messages=round(statistics.median(messages)))

    def call(self, method: str, batch: int, calls: int) -> list[float]:
        """Returns the seconds of each call, the first party's."""
        seconds: list[float] = self._run("call", method=method, batch=batch, calls=calls)
        return seconds

    def approximate(self, method: str, count: int) -> list[float]:
        """Returns what a method gives at the `points`."""
        found: list[float] = self._run("approximate", method=method, count=count)
        return found

    def _run(self, task: str, **arguments: Any) -> Any:
        """The first party's answer, once all have answered."""
        return self._parties.run(task=task, frac_bits=self._frac_bits, **arguments)[0]


def values(*, frac_bits: int, count: int, python: str) -> dict[str, list[float]]:
    """Returns each method's approximations at the `points`."""
    with HostSession(frac_bits, python) as session:
        return {method: session.approximate(method, count) for method in METHODS}
