"""Fetches the hosts' source distributions and runs their tests on our classes.

The command ends with status 1 if a test fails that is not listed in `tests.hosts.expected`, or if
one passes that is. With ``--results FOLDER`` what came of each part is kept there, and a later call
runs only those that are missing; ``--stock`` tells what comes of them without our classes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from extensions.data.datasets.download import Published, fetch_folder
from tests.helpers.paths import ROOT
from tests.hosts import crypten_tests, expected, tf_encrypted_tests
from tests.hosts.results import Outcome

DOCUMENT = ROOT / "docs" / "reference" / "host_tests.md"
FILES = "https://files.pythonhosted.org/packages"


@dataclass(frozen=True)
class HostTests:
    """The tests of one host.

    Attributes:
        title: host and version.
        source: its source distribution.
        module: that runs them.
        what: are run, and how.
        parts: of them, each of which runs in a process of its own.
        listed: patterns of tests that do not pass, with outcome and reason.
    """

    title: str
    source: Published
    module: str
    what: str
    parts: tuple[str, ...]
    listed: dict[str, tuple[str, str]]

    def expected(self, name: str) -> tuple[str, str]:
        """Returns what is to come of a test, and why if it is not to pass."""
        found = (each for pattern, each in self.listed.items() if fnmatch(name, pattern))
        return next(found, ("passes", ""))


HOSTS = {
    "tf-encrypted": HostTests(
        "TF Encrypted 0.9.1",
        Published(
            f"{FILES}/41/94/2ed94158c754a2552b3425a49a4b7d4b0124748480cb65834dbb42251728/"
            "tf-encrypted-0.9.1.tar.gz",
            "sha256:8f8c43733e57e94e5005ec1a97ad542b0383a425ec745eb6c0dd8dac89f284b1",
        ),
        "tests.hosts.tf_encrypted_tests",
        "`aby3_test.py` with `tfe_ext.ABY3` in place of its class. Each player has a device. "
        "`test_error` makes 2,000 rounds instead of 100,000.",
        tf_encrypted_tests.PARTS,
        expected.TF_ENCRYPTED,
    ),
    "crypten": HostTests(
        "CrypTen 0.4.1",
        Published(
            f"{FILES}/59/e3/38d581fc9f73d583b1578d4db810091659d64ed3904035940d7bf54a6275/"
            "crypten-0.4.1.tar.gz",
            "sha256:8c106ecc1547f892b488c560a27acd6787e216cb77bf7659a3d4e8271a1d4fb7",
        ),
        "tests.hosts.crypten_tests",
        "all files except three after `crypten_ext.enable()`. Their processes are forked. After "
        "`tls:` they meet over TLS. `test_cuda` needs a GPU. CrypTen itself skips all of "
        "`test_benchmark` and `test_models`.",
        crypten_tests.PARTS,
        expected.CRYPTEN,
    ),
}


def cache() -> Path:
    """Returns where archives are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pea-mpl" / "hosts"


Found = dict[str, Outcome]
"""What became of the tests of a part, by module, class and name."""


def outcomes(
    host: HostTests, folder: Path, results: Path, kind: str, names: list[str]
) -> dict[str, Found]:
    """Returns what became of each part.

    Args:
        host: whose tests they are.
        folder: of archives.
        results: folder of what came of each part, of which those are run that are missing.
        kind: "enabled", or "stock" for the host's own classes.
        names: of parts or tests; none for all.
    """
    stem = host.source.name.removesuffix(".tar.gz")
    unpacked = fetch_folder(host.source, folder, stem)
    found: dict[str, Found] = {}
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONPATH": str(ROOT)}
    for part in names or host.parts:
        out = results.absolute() / f"{stem}-{kind}-{part}-results.json"
        if not out.exists():
            command = [sys.executable, "-m", host.module, str(unpacked), str(out), kind, part]
            with tempfile.TemporaryDirectory() as scratch:
                subprocess.run(command, env=environment, cwd=scratch, check=True)
        found[part] = named(part, json.loads(out.read_text()))
    return found


def named(part: str, read: Mapping[str, Sequence[Any]]) -> Found:
    """Returns what became of a part's tests, each with the way before it in which the part runs."""
    way = part[: part.find(":") + 1]
    return {f"{way}{name}": Outcome(*each) for name, each in read.items()}


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """Yields the folder of results, one for the moment if none is given."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)


def page(host: HostTests, parts: dict[str, Found]) -> list[str]:
    """Returns what the document says of one host."""
    found = merged(parts)
    lines = [f"## {host.title}", "", f"{passed(found)} of {len(found)} tests pass: {host.what}", ""]
    lines += ["| Part | Tests | Pass | Seconds |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{part}` | {len(tests)} | {passed(tests)} | {seconds(tests):,} |"
        for part, tests in parts.items()
    ]
    if len(parts) > 1:
        lines += [f"| all | {len(found)} | {passed(found)} | {seconds(found):,} |"]
    lines += [""]
    rows = {
        pattern: (sum(fnmatch(name, pattern) for name in found), *why)
        for pattern, why in host.listed.items()
    }
    if any(count for count, _, _ in rows.values()):
        lines += ["| Tests | Number | Result | Why |", "| --- | --- | --- | --- |"]
        lines += [
            f"| `{pattern}` | {count} | {result} | {why} |"
            for pattern, (count, result, why) in rows.items()
            if count
        ]
        lines += [""]
    return lines


def merged(parts: dict[str, Found]) -> Found:
    """Returns what became of the tests of all parts."""
    return {name: outcome for found in parts.values() for name, outcome in found.items()}


def passed(found: Found) -> int:
    """Returns how many tests passed."""
    return sum(outcome.result == "passes" for outcome in found.values())


def seconds(found: Found) -> int:
    """Returns how long the tests took, by the clock."""
    return round(sum(outcome.seconds for outcome in found.values()))


def surprises(host: HostTests, found: Found) -> list[str]:
    """Returns a line for each test of which something else is listed than what came of it."""
    lines = []
    for name, (result, why, _) in found.items():
        listed, _ = host.expected(name)
        if result != listed:
            lines.append(f"{host.title}: {name} {result}, but {listed} is listed. {why}")
    return lines


def main() -> None:
    """Runs the tests of all hosts, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=f"of {', '.join(HOSTS)}; all")
    parser.add_argument("--data-dir", type=Path, default=cache(), help="where the archives lie")
    parser.add_argument("--tests", nargs="*", default=[], help="only these, of one host")
    parser.add_argument("--results", type=Path, help="where results are kept, and taken from")
    parser.add_argument("--stock", action="store_true", help="leave CrypTen as it is")
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    given = parser.parse_args()
    unknown = set(given.hosts) - set(HOSTS)
    if unknown:
        parser.error(f"no such host: {', '.join(sorted(unknown))}")
    if given.stock and (given.hosts != ["crypten"] or given.write):
        parser.error("--stock is for crypten alone, and is not written")
    kind = "stock" if given.stock else "enabled"
    pages, wrong = [], []
    for name in given.hosts or HOSTS:
        with kept(given.results) as results:
            parts = outcomes(HOSTS[name], given.data_dir, results, kind, given.tests)
        pages += page(HOSTS[name], parts)
        wrong += surprises(HOSTS[name], merged(parts))
    text = "\n".join(["# The frameworks' own tests on our classes", "", INTRODUCTION, "", *pages])
    print(text)
    if given.write and not wrong and not given.hosts:
        DOCUMENT.write_text(text)
    if wrong:
        sys.exit("\n".join(wrong))


INTRODUCTION = (
    "`make host-tests` fetches the frameworks' source distributions, runs their tests and\n"
    "renews this page. It fails if a result differs from the list. Seconds are those of a loaded\n"
    "machine, three hours in all."
)


if __name__ == "__main__":
    main()
