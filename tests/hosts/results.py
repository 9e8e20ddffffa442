"""What became of a host's tests, as a process of their own writes it down."""

import json
import sys
import time
import unittest
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """What became of one test.

    Attributes:
        result: "passes", "fails" or "skipped".
        why: the last line of its error, or the reason to skip it.
        seconds: that it took.
    """

    result: str
    why: str = ""
    seconds: float = 0.0


class Results(unittest.TextTestResult):
    """The outcome of each test by module, class and name."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.found: dict[str, Outcome] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._started = time.monotonic()

    def _note(self, test: unittest.TestCase, result: str, why: str = "") -> None:
        seconds = round(time.monotonic() - self._started, 1)
        self.found[test.id().removeprefix("test.")] = Outcome(result, why, seconds)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._note(test, "passes")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        super().addFailure(test, err)  # type: ignore[arg-type]
        self._note(test, "fails", _last_line(self.failures[-1][1]))

    def addError(self, test: unittest.TestCase, err: object) -> None:
        super().addError(test, err)  # type: ignore[arg-type]
        self._note(test, "fails", _last_line(self.errors[-1][1]))


def run(suite: unittest.TestSuite, out: Path) -> None:
    """Runs the tests, and writes the outcome of each as JSON."""
    runner = unittest.TextTestRunner(sys.stderr, verbosity=2, resultclass=Results)
    result = runner.run(suite)
    assert isinstance(result, Results)
    out.write_text(json.dumps(result.found))


def _last_line(trace: str) -> str:
    """Returns what an error says at its end."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (errors or lines)[-1][:200]
