"""Tries one change of every function of some packages with the tests that run that function.

`tests.mutants.changes` makes the changes and `tests.mutants.mapping` finds the tests. Each change
is made in a copy of the tree and tried in a copy of a process that has imported all but the tree.
"""

import argparse
import ast
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT
from tests.mutants.__main__ import copy_tree, write_program
from tests.mutants.changes import SEED, Change, change_of, functions
from tests.mutants.mapping import PROCESSES, Reaching, modules, reaching

FILE = Path(__file__).with_suffix(".json")
FIRST, FIRST_SECONDS = 8, 3.0
"""Tests that a change is tried with first, and the seconds that they took; then come all others."""
ALL_SECONDS = 40.0
LEAST = 0.9
BROKEN = 99
"""The status of a process in which pytest could not even begin."""
MEMORY = 24 << 30
"""Bytes of addresses that the tests of a change have."""
DIED = ("died", "hung")
_OURS = ("tests", "extensions", "fl", "crypten_ext", "tfe_ext", "benchmarks")
_IMPORTED = (
    "numpy.testing", "scipy.stats", "scipy.optimize", "torch", "sklearn.datasets", "hypothesis",
    "cryptography.x509", "dp_accounting.pld", "dp_accounting.rdp", "cyclopts", "rich.console",
    "hypothesis.extra.numpy", "opendp.prelude", "pandas", "asyncio", "sqlite3",
)  # fmt: skip


@dataclass
class Row:
    """A change and what became of it."""

    function: str
    change: str
    outcome: str = "no test"
    seconds: float = 0.0
    test: str = ""
    reason: str = ""


def rounds(tests: Sequence[Reaching]) -> Iterator[list[Reaching]]:
    """Yields the tests of one change in turn; the next are needed if it survives these."""
    inside = [test for test in tests if not test.started] or list(tests)
    first = [test for test in inside[:FIRST] if test.seconds <= FIRST_SECONDS] or inside[:1]
    yield first
    rest, seconds = [], 0.0
    for test in inside:
        if test not in first and (seconds := seconds + test.seconds) <= ALL_SECONDS:
            rest.append(test)
    if rest:
        yield rest


class _First:
    """Remembers the first test that failed."""

    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


def run_apart(tree: Path, tests: Sequence[Reaching]) -> tuple[int | None, str]:
    """Returns pytest's exit status, or None after too long, and the first test that failed."""
    output = tree.parent / "output"
    if (child := os.fork()) == 0:
        status = BROKEN
        try:
            status = _child(tree, [test.test for test in tests], output)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    until = time.monotonic() + 20.0 + 10.0 * sum(test.seconds for test in tests)
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            [first, *_] = [*output.with_suffix(".first").read_text().splitlines(), ""]
            return os.waitstatus_to_exitcode(status), first
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None, ""


def _child(tree: Path, tests: list[str], output: Path) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    output.with_suffix(".first").write_text("")
    with output.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [str(tree), *(path for path in sys.path if Path(path) != ROOT)]
    for name in [name for name in sys.modules if name.partition(".")[0] in _OURS]:
        del sys.modules[name]
    import pytest

    options = ["-q", "-x", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported already
    status = int(pytest.main([*options, *tests], plugins=[seen := _First()]))
    output.with_suffix(".first").write_text(seen.test)
    sys.stdout.flush()
    return status


def try_change(job: tuple[Path, Change, list[Reaching]]) -> Row:
    """Returns what became of a change in this worker's own copy of the tree."""
    source, change, tests = job
    tree = source.parent / str(os.getpid()) / "tree"
    if not tree.exists():
        shutil.copytree(source, tree)  # with bytecode
    row = Row(change.function, change.change)
    file = tree / change.file.relative_to(source)
    kept, began = file.read_bytes(), time.monotonic()
    write_program(file, change.program.encode())
    for some in rounds(tests) if tests else ():
        status, first = run_apart(tree, some)
        row.outcome = {None: "hung", 0: "survived", BROKEN: "broken"}.get(status, "died")
        row.test = first or (some[0].test if row.outcome in DIED else "")
        if row.outcome in DIED:
            break
    write_program(file, kept)
    row.seconds = round(time.monotonic() - began, 1)
    return row


def whole(tree: Path, jobs: Sequence[tuple[Path, Change, list[Reaching]]]) -> bool:
    """Tells whether what changes are tried with first passes without any."""
    first = {test.test: test for _, _, tests in jobs if tests for test in next(rounds(tests))}
    return run_apart(tree, list(first.values()))[0] == 0


def read() -> list[Row]:
    """Returns what was found when it was last stored."""
    return [Row(**row) for row in json.loads(FILE.read_text())] if FILE.exists() else []


def share(rows: Sequence[Row]) -> float:
    """Returns the part of the changes that tests found."""
    return sum(row.outcome in DIED for row in rows) / max(1, len(rows))


def store(rows: Sequence[Row]) -> None:
    """Stores outcomes, a line each; what survived keeps its reason as long as it is the same."""
    stored = {row.function: row for row in read()}
    for row in rows:
        before = stored.get(row.function)
        if before and before.change == row.change and row.outcome not in DIED:
            row.reason = before.reason
        stored[row.function] = row
    lines = [json.dumps(asdict(stored[name])) for name in sorted(stored)]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def jobs_of(tree: Path, options: argparse.Namespace) -> list[tuple[Path, Change, list[Reaching]]]:
    """Returns what is to be tried, in an order that mixes quick and slow ones."""
    named = [Reaching(test, ALL_SECONDS, False) for test in options.tests or ()]
    tests = {} if named else reaching(tree, options.map or tree.parent / "reached")
    stored = {(row.function, row.change) for row in read() if options.missing}
    jobs = [
        (tree, change, named or tests.get(change.function, []))
        for module, file in modules(tree)
        for name in dict(functions(ast.parse(file.read_bytes())))
        if f"{module}:{name}".startswith(tuple(options.names) or "")
        if (change := change_of(file, module, name))
        if (change.function, change.change) not in stored
    ]
    return random.Random(SEED).sample(jobs, len(jobs))


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if the tests find nine of ten changes."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants generated", description=__doc__)
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="beginnings of module:function")
    add("--tests", nargs="+", help="try these, and not those that run it")
    add("--map", type=Path, help="folder that keeps which tests run what")
    add("--missing", action="store_true", help="only what is not stored as it is now")
    add("--trust", action="store_true", help="skip the run without a change")
    add("--workers", type=int, default=PROCESSES, help="changes tried at a time")
    add("--write", action="store_true", help=f"store each outcome in {FILE.name}")
    options = parser.parse_args(arguments)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        jobs = jobs_of(tree, options)
        for name in _IMPORTED:
            with suppress(ImportError):
                import_module(name)
        if not options.trust and not whole(tree, jobs):
            print((Path(folder) / "output").read_text(), "Tests fail without a change.", sep="\n")
            return 2
        with multiprocessing.get_context("fork").Pool(options.workers) as pool:
            for row in pool.imap_unordered(try_change, jobs):
                rows.append(row)
                print(f"{row.outcome:<9}{row.seconds:6.1f} s  {row.function}", flush=True)
                if options.write:
                    store([row])
    for row in (row for row in rows if row.outcome not in DIED):
        print(f"{row.outcome}: {row.function}: {row.change}: {row.reason or 'no reason'}")
    print(f"{len(rows)} changes, {share(rows):.1%} died")
    return int(share(rows) < LEAST)
