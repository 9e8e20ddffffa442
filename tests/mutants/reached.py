"""A plugin of pytest that writes down which of the functions in question each test runs.

`tests.mutants.mapping` has each function of a copied tree say so as it begins, in this process or
in one that the test asks.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "PEA_TEST_REACHED"
"""The folder to write into: a file for each process of pytest, or one for each function now."""
REACHED: set[str] = set()
MODULE_SECONDS = 4.0
"""That all tests of a module are taken for; they come behind the single ones."""
STARTS = {"subprocess.Popen", "os.fork", "os.posix_spawn"}
_seen: dict[str, Any] = {"started": False, "passed": True, "began": 0.0}


def touch(function: str) -> None:
    """Says from any process that a function runs."""
    (Path(os.environ[VARIABLE]) / "now" / function).touch()


def _audit(event: str, _: Any) -> None:
    if event in STARTS:
        _seen["started"] = True


def pytest_configure() -> None:
    sys.addaudithook(_audit)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what runs in processes that tests share, unless these are listened to."""
    from tests.conftest import SHARED

    if not _now().exists():
        items[:] = [i for i in items if SHARED.keys().isdisjoint(getattr(i, "fixturenames", ()))]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """What runs when a module of tests is imported, all its tests depend on."""
    REACHED.clear()
    report = yield
    if isinstance(collector, pytest.Module) and report.passed:
        _write(collector.nodeid, MODULE_SECONDS, started=False)
    REACHED.clear()
    return report


def _write(test: str, seconds: float, *, started: bool) -> None:
    if REACHED:
        row = {"test": test, "seconds": seconds, "started": started, "reached": sorted(REACHED)}
        with (Path(os.environ[VARIABLE]) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")


def pytest_collection_finish() -> None:
    _seen["began"] = time.process_time()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes a line for each test that passed, once it is over, with seconds of the processor."""
    _seen["passed"] &= report.passed
    if report.when != "teardown":
        return
    seconds, _seen["began"] = time.process_time() - _seen["began"], time.process_time()
    for file in _now().glob("*"):
        REACHED.add(file.name)
        _seen["started"] = True
        file.unlink()
    if _seen["passed"]:
        _write(report.nodeid, seconds, started=_seen["started"])
    REACHED.clear()
    _seen.update(started=False, passed=True)


def _now() -> Path:
    return Path(os.environ[VARIABLE]) / "now"
