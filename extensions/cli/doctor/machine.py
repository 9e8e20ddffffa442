"""What `pea doctor` finds on this machine and in a folder; nothing is changed there."""

import datetime
import json
import platform
import resource
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from extensions import __version__
from extensions.checks import is_private_key
from extensions.machine import cores
from extensions.runs.budget.file import SUFFIX
from extensions.runs.summaries.forecast import size

_SECRETS = ("*.pem", f"*{SUFFIX}", "party-*.npz", "*/party-*.npz")
_LEAST_MEMORY, _LEAST_DISK = 2e9, 1e9
_SECONDS = 10.0
_OPEN = {
    "transport": ("gloo", 'Parties send each other their shares in the clear. Write: "tls"'),
    "provider": ("tfp", 'Party 0 can reconstruct every secret. Write: "dealer" or "parties"'),
    "rendezvous": (
        "tcp://",
        "Parties meet in the clear, and anybody can take part. Write: "
        'rendezvous = "tls://federation.toml" and key = "NAME.pem"',
    ),
}
"""Settings in files that give secrets away: how their values begin, and what to write instead."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        area: what it is about, in at most 9 characters.
        state: "fails" if what was asked for does not work.
        text: what was found.
        advice: what to type; empty if nothing need be done.
    """

    area: str
    state: Literal["ok", "note", "insecure", "fails"]
    text: str
    advice: str = ""


def conditions(folder: Path) -> Iterator[Finding]:
    """Yields what is found of the machine, and of the disk that has a folder."""
    yield Finding(
        "pea", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    yield _clock()
    yield Finding("cores", "ok", f"{cores()} for this process")
    yield _memory()
    free = shutil.disk_usage(folder).free
    where = f"{size(free)} free where {folder.resolve()} is"
    enough = free >= _LEAST_DISK
    advice = "" if enough else "Free some, or change to a folder on another disk."
    yield Finding("disk", "ok" if enough else "note", where, advice)
    gpus = _printed("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
    shown = "; ".join(gpus.splitlines()) or "none"
    yield Finding("GPU", "ok", f"{shown}. Secure training uses the cores only")
    yield _ports()
    yield from _left_behind()


def _clock() -> Finding:
    now = datetime.datetime.now().astimezone()
    text = f"{now.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC, zone {now:%z}"
    if _printed("timedatectl", "show", "--property=NTPSynchronized", "--value").strip() == "no":
        advice = "Type: timedatectl set-ntp true"
        return Finding("clock", "note", f"{text}; no time server sets it", advice)
    return Finding("clock", "ok", text)


def _memory() -> Finding:
    """What is available, within the limit of a container."""
    found: list[float] = []
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024.0 * int(next(x for x in lines if x.startswith("MemAvail")).split()[1]))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is no number
            found.append(float(Path("/sys/fs/cgroup", name).read_text()))
    if not found:
        return Finding("memory", "ok", "unknown on this system")
    least = min(found)
    if least >= _LEAST_MEMORY:
        return Finding("memory", "ok", f"{size(least)} available")
    advice = "Close other programs, or train with --physical-rows 64."
    return Finding("memory", "note", f"{size(least)} available", advice)


def _ports() -> Finding:
    """Whether a port can be opened on all interfaces, and reached on this machine."""
    try:
        with socket.create_server(("", 0)) as server:
            place = ("127.0.0.1", server.getsockname()[1])
            socket.create_connection(place, _SECONDS).close()
    except OSError as error:
        advice = "Parties on one machine meet at ports of 127.0.0.1: allow that in its firewall."
        return Finding("ports", "fails", f"no port can be opened and reached: {error}", advice)
    return Finding("ports", "ok", "one was opened on all interfaces and reached from here")


def _left_behind() -> Iterator[Finding]:
    """What may write secrets of a process to a disk."""
    if resource.getrlimit(resource.RLIMIT_CORE)[0]:
        text = "a process that crashes writes its memory to a file, with keys, records and shares"
        yield Finding("dumps", "insecure", text, "Type before PEA's commands: ulimit -c 0")
    with suppress(OSError):
        lines = Path("/proc/swaps").read_text().splitlines()[1:]
        used = [line.split()[0] for line in lines if not line.startswith("/dev/zram")]
        if used:
            text = f"memory with secrets may be written to {', '.join(used)}"
            yield Finding("swap", "insecure", text, "Encrypt it, or type as root: swapoff -a")


def _printed(*command: str) -> str:
    """What a program prints; nothing if there is none, or it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        return "" if done.returncode else done.stdout.strip()
    return ""


def files_in(folder: Path) -> Iterator[Finding]:
    """Yields which secrets in a folder others may read, and which settings give secrets away."""
    kept = 0
    for path in sorted({each for one in _SECRETS for each in folder.glob(one) if each.is_file()}):
        if path.suffix == ".pem" and not is_private_key(path):
            continue
        kept += 1
        if path.stat().st_mode & 0o077:
            what = "others on this machine can read it, or change it"
            yield Finding("files", "insecure", f"{path}: {what}", f"Type: chmod 600 {path}")
    yield Finding("files", "ok", f"{kept} keys, ledgers and shares in {folder.resolve()}")
    for path in sorted(folder.glob("*.toml")):
        with suppress(OSError, ValueError, RecursionError):
            for name, value in _flat(tomllib.loads(path.read_text())):
                begins, advice = _OPEN.get(name, ("", ""))
                if begins and str(value).startswith(begins):
                    said = f"{path}: {name} = {json.dumps(value)}"
                    yield Finding("settings", "insecure", said, advice)


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value)
        else:
            yield name, value
