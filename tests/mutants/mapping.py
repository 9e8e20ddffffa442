"""Which tests run each function of the packages whose changes are tried, the best ones first."""

import ast
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.__main__ import run_tests, write_program
from tests.mutants.changes import functions
from tests.mutants.reached import VARIABLE

PACKAGES = ("extensions.protocols", "extensions.privacy", "fl.masked")
GOLDEN = "tests/golden/test_clear.py"
"""Tests that whatever is computed otherwise fails, so that they come behind a module's own."""
TESTS = (
    *(f"tests/extensions/{part}" for part in ("protocols", "privacy", "network")),
    *(f"tests/fl/{part}" for part in ("masked", "attacks", "privacy")),
    "tests/conformance", "tests/extensions/runs", GOLDEN,
)  # fmt: skip
TESTS_OF_OTHERS = (
    "tests/extensions/runs", "tests/crypten_ext/pencil",
    *(f"tests/crypten_ext/test_{name}.py" for name in (
        "adam", "checkpoints", "conversion", "guards", "images", "optim", "pieces", "whitening",
    )),
)  # fmt: skip
"""Tests of the functions that none of `TESTS` runs, most of which only hosts use."""
PROCESSES = 2
_REACHED = "tests.mutants.reached"


@dataclass(frozen=True)
class Reaching:
    """A test that runs a function: its name, its seconds, and whether other processes take part."""

    test: str
    seconds: float
    started: bool


def modules(tree: Path) -> Iterator[tuple[str, Path]]:
    """Yields the names and files of all modules of the packages."""
    for package in PACKAGES:
        for file in sorted((tree / package.replace(".", "/")).rglob("*.py")):
            parts = file.relative_to(tree).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), file


def reaching(tree: Path, folder: Path) -> dict[str, list[Reaching]]:
    """Returns the tests that run each function, those to be tried first first.

    The module's own tests come first and golden values second, one of each test function before a
    second one with other parameters, and fast before slow.
    What is found is kept in the folder, and read there if it exists.
    """
    if not folder.exists():
        folder.mkdir(parents=True)
        _measure(tree, folder, TESTS, "REACHED.add", set())
        (folder / "now").mkdir()
        _measure(tree, folder, TESTS_OF_OTHERS, "touch", {*_found(folder)})
    return {name: _in_order(name, tests) for name, tests in _found(folder).items()}


def _found(folder: Path) -> dict[str, list[Reaching]]:
    found = defaultdict(list)
    for file in folder.glob("*.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            for function in row["reached"]:
                found[function].append(Reaching(row["test"], row["seconds"], row["started"]))
    return found


def _measure(tree: Path, folder: Path, tests: Sequence[str], says: str, known: set[str]) -> None:
    """Runs tests that say which functions they run, but for known ones."""
    kept = {file: file.read_bytes() for _, file in modules(tree)}
    for module, file in modules(tree):
        program = ast.parse(kept[file])
        for name, function in functions(program):
            if f"{module}:{name}" not in known:
                plugin = f"__import__({_REACHED!r}, fromlist=[''])"
                [call] = ast.parse(f"{plugin}.{says}('{module}:{name}')").body
                function.body.insert(ast.get_docstring(function) is not None, call)
        write_program(file, ast.unparse(program).encode())
    os.environ[VARIABLE] = str(folder)
    workers = ["-n0"] if says == "touch" else [f"-n{PROCESSES}", "--dist=loadfile"]
    run_tests(tree, tests, "-p", _REACHED, *workers)
    for file, content in kept.items():
        write_program(file, content)
    run_tests(tree, tests, "--collect-only")  # compiles all again


def _in_order(function: str, tests: list[Reaching]) -> list[Reaching]:
    own = f"/test_{function.partition(':')[0].rpartition('.')[2]}.py::"
    seen: Counter[str] = Counter()
    ranked = []
    for each in sorted(tests, key=lambda test: test.seconds):
        base = each.test.partition("[")[0]
        kind = 0 if own in each.test else 1 if each.test.startswith(GOLDEN) else 2
        rank = each.started, kind, seen[base], each.seconds, each.test
        ranked.append((rank, each))
        seen[base] += 1
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]
