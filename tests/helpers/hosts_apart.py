"""Hosts of their own on one switch: network namespaces, whose cables can be pulled.

Two of them can also be parted: what one sends to the other goes to an address that nobody has.

They need root and the command `ip`. ``python -m tests.helpers.hosts_apart SPACE MODULE ARGUMENT``
runs a module's function `main` on a host.
"""

import ctypes
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_NAMED = Path("/run/netns")
_NOBODY = "02:00:00:00:00:01"

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root and the command ip, for network namespaces",
)


class Hosts:
    """One host for each name; `addresses` has theirs."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.addresses = {name: f"10.77.0.{i}" for i, name in enumerate(names, 1)}
        self._switch = self.space("switch")

    def __enter__(self) -> "Hosts":
        with ExitStack() as stack:
            self._add(self._switch, stack)
            on_switch = ("-n", self._switch, "link")
            _ip(*on_switch, "add", "bridge0", "type", "bridge")
            _ip(*on_switch, "set", "bridge0", "up")
            for i, name in enumerate(self._names, 1):
                space = self.space(name)
                self._add(space, stack)
                far = ("peer", "name", "eth0", "netns", space)
                _ip(*on_switch, "add", f"port{i}", "type", "veth", *far)
                _ip(*on_switch, "set", f"port{i}", "master", "bridge0", "up")
                _ip("-n", space, "addr", "add", f"{self.addresses[name]}/24", "dev", "eth0")
                for device in ("lo", "eth0"):
                    _ip("-n", space, "link", "set", device, "up")
            self._spaces = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._spaces.close()

    def _add(self, space: str, stack: ExitStack) -> None:
        _ip("netns", "add", space)
        stack.callback(_ip, "netns", "del", space)

    def pull(self, name: str) -> None:
        """Pulls the host's cable: all that is sent to it or by it is lost."""
        self._port(name, "down")

    def plug(self, name: str) -> None:
        """Plugs the cable in again."""
        self._port(name, "up")

    def part(self, one: str, other: str) -> None:
        """All that these two send to each other is lost; others reach both."""
        self.mute(one, other)
        self.mute(other, one)

    def mute(self, one: str, other: str) -> None:
        """All that the one sends to the other is lost, and what the other sends comes."""
        self._neighbour(one, "replace", other, "lladdr", _NOBODY, "nud", "permanent")

    def rejoin(self, one: str, other: str) -> None:
        """They reach each other again."""
        for here, there in ((one, other), (other, one)):
            self._neighbour(here, "del", there)

    def on(self, name: str, act: Callable[[], T]) -> T:
        """Returns what the function returns there; the sockets that it opens stay there."""

        def act_there() -> T:
            enter(self.space(name))
            return act()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(act_there).result()

    def slow_down(self, name: str, rate: str) -> None:
        """What is sent to the host and by it is carried at a rate as of `tc`, such as 8kbit."""
        queue = ("root", "tbf", "rate", rate, "burst", "2kb", "latency", "60s")
        number = self._names.index(name) + 1
        for space, device in ((self._switch, f"port{number}"), (self.space(name), "eth0")):
            subprocess.run(["tc", "-n", space, "qdisc", "add", "dev", device, *queue], check=True)

    def _neighbour(self, here: str, what: str, there: str, *rest: str) -> None:
        end = ("dev", "eth0", *rest)
        _ip("-n", self.space(here), "neigh", what, self.addresses[there], *end)

    def _port(self, name: str, state: str) -> None:
        number = self._names.index(name) + 1
        _ip("-n", self._switch, "link", "set", f"port{number}", state)

    def space(self, name: str) -> str:
        """The network namespace that is this host."""
        return f"pea-{os.getpid()}-{name}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def enter(space: str) -> None:
    """This thread is on the host from now on; what it opens stays there."""
    with open(_NAMED / space) as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _CLONE_NEWNET):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


def main() -> None:
    """Goes on as the module, on the host."""
    enter(sys.argv.pop(1))
    importlib.import_module(sys.argv.pop(1)).main()


if __name__ == "__main__":
    main()
