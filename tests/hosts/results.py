"""What became of a host's tests, as a process of their own writes it down."""

import json
import sys
import unittest
from pathlib import Path


class Results(unittest.TextTestResult):
    """The outcome of each test by module, class and name; of one that fails also what it says."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.found: dict[str, list[str]] = {}

    def _note(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        self.found[test.id().removeprefix("test.")] = [outcome, why]

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
