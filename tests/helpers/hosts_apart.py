"""Hosts of their own on one switch: network namespaces, whose cables can be pulled.

They need root and the command `ip`. A process starts on a host by being started `inside` it.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_CLONE_NEWNET = 0x40000000
_NAMED = Path("/run/netns")

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None,
    reason="needs root and the command ip, for network namespaces",
)


class Hosts:
    """One host for each name; `addresses` has theirs."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self.addresses = {name: f"10.77.0.{i}" for i, name in enumerate(names, 1)}
        self._switch = self._space("switch")

    def __enter__(self) -> "Hosts":
        with ExitStack() as stack:
            self._add(self._switch, stack)
            on_switch = ("-n", self._switch, "link")
            _ip(*on_switch, "add", "bridge0", "type", "bridge")
            _ip(*on_switch, "set", "bridge0", "up")
            for i, name in enumerate(self._names, 1):
                space = self._space(name)
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

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """This thread, and what it starts, is on the host."""
        with open("/proc/thread-self/ns/net") as before, open(_NAMED / self._space(name)) as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def pull(self, name: str) -> None:
        """Pulls the host's cable: all that is sent to it or by it is lost."""
        self._port(name, "down")

    def plug(self, name: str) -> None:
        """Plugs the cable in again."""
        self._port(name, "up")

    def _port(self, name: str, state: str) -> None:
        number = self._names.index(name) + 1
        _ip("-n", self._switch, "link", "set", f"port{number}", state)

    def _space(self, name: str) -> str:
        return f"pea-{os.getpid()}-{name}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _enter(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
