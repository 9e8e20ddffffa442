"""Makes each mutant in a copy of the tree and runs its tests there: how many faults are found.

The tests must pass without a mutant; one of them must fail with it. The checkout is only read, and
may change meanwhile.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tests.helpers.paths import ROOT
from tests.mutants.catalogue import Mutant, find_mutants

MAY_SURVIVE = 3
LONGEST = 600.0
"""Seconds that the tests of one mutant have."""
HANGING = 10.0
"""A mutant of which it is said that tests hang died if they take so many times as without it."""
OUTCOMES = {0: "survived", 1: "died"}
"""By pytest's exit status; any other says that no test was run."""
GONE = "gone"


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    mutant: Mutant
    outcome: str
    seconds: float


def copy_tree(target: Path) -> None:
    """Copies the files of the checkout that git knows or does not ignore."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(
    tree: Path, tests: Sequence[str], *options: str, seconds: float | None = None
) -> int | None:
    """Returns pytest's exit status in the tree; None if it took longer than so many seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    with (tree.parent / "output").open("wb") as output:
        run = subprocess.Popen(
            command,
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return run.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()


def write_program(file: Path, content: bytes) -> None:
    """Writes a module anew and drops its bytecode.

    Python tells stale bytecode by size and second only, so that a mutant as long as the one before
    it could be run as that one.
    """
    file.write_bytes(content)
    for cached in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
        cached.unlink()


def try_mutants(tree: Path, mutants: Sequence[Mutant]) -> Iterator[Result]:
    """Yields what becomes of each mutant in the tree, which is as before afterwards."""
    for mutant in mutants:
        began = time.monotonic()
        if mutant.gone:
            yield Result(mutant, GONE, 0.0)
            continue
        try:
            changed = mutant.changed(tree)
        except LookupError:
            yield Result(mutant, "does not apply", 0.0)
            continue
        longest, too_long = LONGEST, "timed out"
        if mutant.hangs:
            run_tests(tree, mutant.tests)
            longest, too_long = HANGING * (time.monotonic() - began), "died"
        kept = {file: file.read_bytes() for file in changed}
        for file, text in changed.items():
            write_program(file, text.encode())
        status = run_tests(tree, mutant.tests, "-x", seconds=longest)
        outcome = too_long if status is None else OUTCOMES.get(status, "no test was run")
        for file, content in kept.items():
            write_program(file, content)
        yield Result(mutant, outcome, time.monotonic() - began)


def report(results: Sequence[Result]) -> str:
    """Returns a table by area, and below it the mutants that no test found."""
    lines = [f"{'area':<12}{'mutants':>8}{'died':>6}{'seconds':>9}"]
    by_area = groupby(results, key=lambda result: result.mutant.area)
    for area, rows in [*((area, list(group)) for area, group in by_area), ("all", results)]:
        died = sum(row.outcome == "died" for row in rows)
        lines.append(f"{area:<12}{len(rows):>8}{died:>6}{sum(row.seconds for row in rows):>9.0f}")
    for row in results:
        if row.outcome != "died":
            why = row.mutant.gone or row.mutant.promise
            lines.append(f"{row.outcome}: {row.mutant.name}: {why}")
    return "\n".join(lines)


def main() -> int:
    """Returns 0 if all but MAY_SURVIVE of the mutants die, or all of those that were named."""
    if sys.argv[1:2] == ["generated"]:
        from tests.mutants import generated

        return generated.main(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants or areas; default: all")
    parser.add_argument("--trust", action="store_true", help="skip the run without a mutant")
    arguments = parser.parse_args()
    try:
        mutants = find_mutants(arguments.names)
    except LookupError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        if not arguments.trust and run_tests(tree, tests) != 0:
            print(
                (tree.parent / "output").read_text(), "The tests fail without a mutant.", sep="\n"
            )
            return 2
        results = []
        for result in try_mutants(tree, mutants):
            print(f"{result.outcome:<16}{result.seconds:6.1f} s  {result.mutant.name}", flush=True)
            results.append(result)
    print(report(results))
    survivors = sum(result.outcome not in ("died", GONE) for result in results)
    return int(survivors > (0 if arguments.names else MAY_SURVIVE))


if __name__ == "__main__":
    sys.exit(main())
