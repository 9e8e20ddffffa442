"""Fetches the hosts' source distributions and runs their tests on our classes.

The command ends with status 1 if a test fails that is not listed in `tests.hosts.expected`, or if
one passes that is.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from extensions.owners.data.download import Published, fetch_folder
from tests.helpers.paths import ROOT
from tests.hosts import expected

DOCUMENT = ROOT / "docs" / "host_tests.md"
FILES = "https://files.pythonhosted.org/packages"


@dataclass(frozen=True)
class HostTests:
    """The tests of one host.

    Attributes:
        title: host and version.
        source: its source distribution.
        module: that runs them.
        what: are run, and how.
        listed: tests that do not pass, with outcome and reason.
    """

    title: str
    source: Published
    module: str
    what: str
    listed: dict[str, tuple[str, str]]


HOSTS = {
    "tf-encrypted": HostTests(
        "TF Encrypted 0.9.1",
        Published(
            f"{FILES}/41/94/2ed94158c754a2552b3425a49a4b7d4b0124748480cb65834dbb42251728/"
            "tf-encrypted-0.9.1.tar.gz",
            "sha256:8f8c43733e57e94e5005ec1a97ad542b0383a425ec745eb6c0dd8dac89f284b1",
        ),
        "tests.hosts.tf_encrypted_tests",
        "`aby3_test.py` with `tfe_ext.ABY3` in place of its class and a device for each player; "
        "`test_error`, which asserts nothing, makes 2,000 rounds instead of 100,000.",
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
        "`test_binary`, `test_communicator` and `test_context` after `crypten_ext.enable()`, whose "
        "processes are forked instead of started anew.",
        expected.CRYPTEN,
    ),
}


def cache() -> Path:
    """Returns where archives are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pea-mpl" / "hosts"


def outcomes(host: HostTests, folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Returns what became of each test, and of one that fails its error."""
    stem = host.source.name.removesuffix(".tar.gz")
    unpacked = fetch_folder(host.source, folder, stem)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "results.json"
        command = [sys.executable, "-m", host.module, str(unpacked), str(out), *names]
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run(command, env=environment, cwd=scratch, check=True)
        found: dict[str, list[str]] = json.loads(out.read_text())
    return found


def page(host: HostTests, found: dict[str, list[str]]) -> list[str]:
    """Returns what the document says of one host."""
    passed = sum(outcome == "passes" for outcome, _ in found.values())
    lines = [f"## {host.title}", "", f"{passed} of {len(found)} tests pass: {host.what}", ""]
    rest = {name: why for name, why in host.listed.items() if name in found}
    if rest:
        lines += ["| Test | Result | Why |", "| --- | --- | --- |"]
        lines += [f"| `{name}` | {result} | {why} |" for name, (result, why) in rest.items()]
        lines += [""]
    return lines


def surprises(host: HostTests, found: dict[str, list[str]]) -> list[str]:
    """Returns a line for each test of which something else is listed than what came of it."""
    lines = []
    for name, (outcome, why) in found.items():
        listed, _ = host.listed.get(name, ("passes", ""))
        if outcome != listed:
            lines.append(f"{host.title}: {name} {outcome}, but {listed} is listed. {why}")
    return lines


def main() -> None:
    """Runs the tests of all hosts, or of those that are named."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description=__doc__)
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=f"of {', '.join(HOSTS)}; all")
    parser.add_argument("--data-dir", type=Path, default=cache(), help="where the archives lie")
    parser.add_argument("--tests", nargs="*", default=[], help="only these tests, of one host")
    parser.add_argument("--write", action="store_true", help=f"renew {DOCUMENT.name}")
    given = parser.parse_args()
    unknown = set(given.hosts) - set(HOSTS)
    if unknown:
        parser.error(f"no such host: {', '.join(sorted(unknown))}")
    pages, wrong = [], []
    for name in given.hosts or HOSTS:
        found = outcomes(HOSTS[name], given.data_dir, given.tests)
        pages += page(HOSTS[name], found)
        wrong += surprises(HOSTS[name], found)
    text = "\n".join(["# The hosts' own tests on our classes", "", INTRODUCTION, "", *pages])
    print(text)
    if given.write and not wrong and not given.hosts:
        DOCUMENT.write_text(text)
    if wrong:
        sys.exit("\n".join(wrong))


INTRODUCTION = (
    "`make host-tests` fetches the hosts' source distributions, runs these tests and renews this\n"
    "page; it fails where something else comes out than what is listed."
)


if __name__ == "__main__":
    main()
