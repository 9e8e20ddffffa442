"""Which frameworks are installed, and whether they work: each does a small run of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from extensions.cli.doctor.machine import Finding
from extensions.errors import install_command
from extensions.runs import entry_points, hosts
from extensions.runs.config import HOSTS

FEDERATED = "fl"
_SHOWN = {
    "crypten": ("crypten", "torch"),
    "tfe": ("tf-encrypted", "tensorflow"),
    FEDERATED: ("torch",),
    "clear": ("numpy",),
}
"""Whose versions are shown."""
_NOT_OF_USERS = {"all", "benchmarks", "dev", "docs", "spu"}
_TRAIN = ("train", "--no-dp", "--steps", "1", "--data", "digits", "--parties", "3", "--backend")
_ROUND = (
    *("fl", "--aggregator", "masked", "--clients", "4", "--client-fraction", "1"),
    *("--rounds", "1", "--local-epochs", "1", "--model", "logistic"),
)
_WORKED = {FEDERATED: "a masked sum of 4 clients' models"}
_IN_SCRIPTS = (
    "with CrypTen's default provider, party 0 of a script can reconstruct every secret; the "
    "commands of `pea` choose another"
)


def known() -> list[str]:
    """Returns the names of what can be tried."""
    return [*sorted(entry_points.offered(HOSTS)), FEDERATED]


def extras() -> Iterator[Finding]:
    """Yields which extras are installed, and which are not."""
    found = {name: _missing(name) for name in _extras() if name not in _NOT_OF_USERS}
    present = [name for name, missing in found.items() if not missing]
    yield Finding("extras", "ok", f"installed: {', '.join(present) or 'none'}")
    if absent := [name for name, missing in found.items() if missing]:
        advice = f"Type in your clone of PEA, with those that you need: {_install(absent)}"
        yield Finding("extras", "note", f"not installed: {', '.join(absent)}", advice)


def _install(extras: Sequence[str]) -> str:
    return install_command(",".join(extras))


def _extras() -> list[str]:
    with suppress(metadata.PackageNotFoundError):
        return metadata.metadata("pea-mpl").get_all("Provides-Extra") or []
    return []


def _missing(extra: str) -> list[str]:
    """The packages of an extra that are not installed."""
    marker = re.compile(rf"""extra == ['"]{extra}['"]""")
    needed = [line for line in metadata.requires("pea-mpl") or [] if marker.search(line)]
    names = [re.split(r"[^\w.-]", line)[0] for line in needed]
    return [name for name in names if not _version(name)]


def _version(package: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return ""


def trial(name: str, seconds: float, *, asked: bool) -> Iterator[Finding]:
    """Yields whether a framework works, after a run of a second or so in a process of its own.

    Args:
        name: one of `known`.
        seconds: after which the process is ended.
        asked: whether it must be installed.
    """
    missing = _missing(name) if name in _extras() else []
    if missing:
        if asked:
            text, advice = f"{missing[0]} is not installed", "Type in your clone of PEA: "
            yield Finding(name, "fails", text, advice + _install([name]))
        return
    words = _ROUND if name == FEDERATED else (*_TRAIN, name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        failure = _failure([str(told), name, *words], seconds)
        facts = json.loads(told.read_text()) if told.exists() else []
    versions = ", ".join(f"{each} {_version(each)}" for each in _SHOWN.get(name, ()))
    if failure:
        advice = f"Type, to see all of it: pea {' '.join(words)}"
        yield Finding(name, "fails", f"{versions}: {failure}", advice)
        return
    work = _WORKED.get(name, "a step of 3 parties")
    yield Finding(name, "ok", f"{work} in {time.monotonic() - began:.1f} s; {versions}")
    for text, advice in facts:
        yield Finding(name, "note" if advice else "ok", text, advice)
    if name == "crypten":
        advice = 'Write in scripts: crypten.cfg.mpc.provider = "DEALER"'
        yield Finding(name, "note", _IN_SCRIPTS, advice)


def _failure(arguments: Sequence[str], seconds: float) -> str:
    """Runs `main` in a process; returns why it failed, or nothing."""
    program = f"from {__name__} import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, printed = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"not done after {seconds:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    lines = printed.strip().splitlines() or ["it said nothing"]
    return "" if process.returncode == 0 else f"status {process.returncode}: {lines[-1].strip()}"


def main() -> None:
    """Runs the command that is typed, and writes what its backend says of itself to a file.

    A backend that has something to say offers a function `facts`: pairs of a text and what to type.
    """
    from extensions.cli.main import PeaCommands, run

    _, told, name, *words = sys.argv
    sys.argv[1:] = words
    try:
        run(PeaCommands, "pea")
    except SystemExit as end:
        if end.code:
            raise
    facts = getattr(hosts.find(name), "facts", list) if name != FEDERATED else list
    Path(told).write_text(json.dumps(facts()))
