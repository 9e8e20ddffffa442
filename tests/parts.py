"""Runs the tests in parts, side by side, and says which of them failed: `python -m tests.parts`.

The core and `fl` are one part, what needs CrypTen's parties another, and ABY3's servers the third.
The fourth, `doors`, is what new users meet: what builds, installs and types what documents say. It
gives way to the others.
"""

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.helpers.paths import ROOT

PARTS = {"core": 2, "crypten": 1, "aby3": 1, "doors": 1}
"""The parts, each with its workers: CrypTen's parties and ABY3's servers are processes besides."""
LAST, NICENESS = "doors", "3"
"""The part that gives way to the others, but not so far that what it starts waits for minutes."""
NOTHING = 5
"""What pytest returns if there was no test."""
_CLOSING = re.compile(r"^=+ (.*) in ([\d.]+)s.* =+$")
_KINDS = ("failed", "error", "passed", "skipped", "deselected", "xfailed", "xpassed", "warning")


def counted(closing: str) -> Counter[str]:
    """Returns how many tests passed, failed and so on, from pytest's last line."""
    found = _CLOSING.match(closing)
    return Counter(
        {
            word.removesuffix("s") if word[:-1] in _KINDS else word: int(number)
            for number, word in re.findall(r"(\d+) (\w+)", found[1] if found else "")
        }
    )


def closing_line(counts: Counter[str], seconds: float) -> str:
    """Returns a line as pytest's last one."""
    told = [f"{counts[kind]} {kind}" for kind in _KINDS if counts[kind]] or ["no tests ran"]
    return f" {', '.join(told)} in {seconds:.2f}s ".center(80, "=")


def run_part(part: str, prefix: str = "", options: Sequence[str] = ()) -> tuple[int, str]:
    """Returns pytest's exit status and last line; shows what it prints, with a prefix."""
    workers = ["-n", str(PARTS[part]), "--dist", "loadgroup", "--no-loadscope-reorder"]
    nice = ["nice", "-n", NICENESS] if part == LAST else []
    command = [*nice, sys.executable, "-m", "pytest", "--part", part, *workers, *options]
    closing = ""
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(prefix + line, end="", flush=True)
            closing = line.strip() if _CLOSING.match(line.strip()) else closing
    return run.returncode if counted(closing)["passed"] else run.returncode or NOTHING, closing


def main() -> int:
    """Returns 0 if every part passes, and none is empty."""
    parser = argparse.ArgumentParser(prog="python -m tests.parts", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {[*PARTS]}; default: all")
    parts, began = parser.parse_args().parts or [*PARTS], time.monotonic()
    if unknown := {*parts} - {*PARTS}:
        parser.error(f"no part {sorted(unknown)}; there are {[*PARTS]}")
    prefixes = [f"{part:<8}" if len(parts) > 1 else "" for part in parts]
    with ThreadPoolExecutor(len(parts)) as pool:
        results = list(pool.map(run_part, parts, prefixes))
    total: Counter[str] = Counter()
    for part, (status, closing) in zip(parts, results, strict=True):
        total += counted(closing)
        print(f"{part}: {'failed' if status else 'passed'}: {closing.strip('= ') or 'no tests'}")
    print(closing_line(total, time.monotonic() - began))
    return max((status for status, _ in results), key=abs)


if __name__ == "__main__":
    sys.exit(main())
