"""An emulated network delays and limits what it says, and leaves nothing behind."""

import json
import os
import signal
import struct
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks import tables
from benchmarks.network import PROFILES, calibration, call, inside, link, netem, switch
from extensions.errors import EmulationError
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused

COMMAND = "import sys; from benchmarks.__main__ import Benchmarks; "
COMMAND += "from extensions.cli.main import run; sys.argv.insert(1, 'network'); "
COMMAND += "run(Benchmarks, 'benchmarks')"
MARK = "PEA_TEST_NETWORK"

Run = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    code = "from benchmarks.network import namespace, switch; "
    code += "namespace.enter(); switch.open_device()"
    tried = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if "EmulationError" in tried.stderr:
        pytest.skip(tried.stderr.strip().splitlines()[-1])
    assert not tried.returncode, tried.stderr


@pytest.fixture(scope="module")
def usual() -> str:
    """What delays packets on this machine unless something else is asked for."""
    code = "from benchmarks.network import PROFILES, namespace, netem, routes; namespace.enter(); "
    code += "routes.loopback_up(); netem.delay_by_netem(PROFILES['lan'])"
    tried = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not tried.returncode or "network: netem: " in tried.stderr
    return "switch" if tried.returncode else "netem"


@pytest.fixture
def run() -> Iterator[Run]:
    mark = uuid.uuid4().hex
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *arguments],
            env={**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    (process,) = started
    try:
        wait_until(lambda: not _marked(mark), "the end of all that the command started")
    finally:
        for pid in _marked(mark):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def _marked(mark: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (
                (entry / "environ").read_bytes().split(b"\0")
            ):
                found.append(int(entry.name))
    return found


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid:
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize("profile", ["lan", "wan"])
def test_rounds_take_their_number_of_delays(profile):
    chosen = PROFILES[profile]
    number = 15
    found, network = call(
        link(profile, means="switch"), "tests.helpers.emulated_tasks:rounds", number=number
    )
    assert found["seconds"] >= (1 + number) * chosen.delay_ms / 1000
    assert found["bypassed"] == 0
    assert (network["profile"], network["means"]) == (profile, "switch")
    assert network["round trip ms"] >= 2 * chosen.delay_ms
    assert 0 < network["bulk Mbit/s"] <= chosen.mbit


def test_no_connection_exceeds_the_rate():
    rate, size = 100.0, 5_000_000
    chosen = link("loopback", mbit=rate, means="switch")
    seconds, network = call(chosen, "tests.helpers.emulated_tasks:two_senders", size=size)
    assert seconds >= 8e-6 * size / rate
    assert network["profile"] == "loopback-100mbit"


class Wire:
    """A device and the time: packets leave it at given seconds, and come back when it is written.

    Time passes only while the switch waits, and by a microsecond each time that it looks.
    """

    def __init__(self, packets: list[tuple[float, bytes]]) -> None:
        self._left, self._packets, self._now = 0, packets, 0.0
        self.back: list[tuple[float, bytes]] = []

    def look(self) -> float:
        self._now += 1e-6
        return self._now

    def select(self, ends: list[int], _w: Any, _x: Any, wait: float | None) -> tuple[list[int]]:
        """Waits for the next packet, or so long; the end can be read once all packets are back."""
        due = [at for at, _ in self._packets[self._left : self._left + 1]]
        due += [] if wait is None else [self._now + wait]
        self._now = max(self._now, min(due, default=0.0))
        return ([] if len(self.back) < len(self._packets) else ends[1:],)

    def read(self, _device: int, _size: int) -> bytes:
        if self._left == len(self._packets) or self._packets[self._left][0] > self._now:
            raise BlockingIOError
        self._left += 1
        return self._packets[self._left - 1][1]

    def write(self, _device: int, packet: bytes) -> None:
        self.back.append((self._now, packet))


def packet_of(connection: int, size: int, segment: int = 0) -> bytes:
    """Returns a packet of so many bytes, of a numbered connection, with the device's own header."""
    header = struct.pack("=BBHHHH", 0, 0, 0, segment, 0, 0)
    return header + bytes(12) + struct.pack("=QI", connection, 0) + bytes(size - 24)


def test_packets_come_back_after_exactly_their_links_time(monkeypatch):
    """1 Mbit/s is 8 us a byte: two of 1000 bytes of one connection queue, of two they do not.

    A long one is charged with the headers of its segments.
    """
    one, other, long = packet_of(1, 1000), packet_of(2, 1000), packet_of(3, 5000, segment=1000)
    wire = Wire([(1.0, one), (1.0, one), (1.0, other), (3.0, long)])
    monkeypatch.setattr(switch, "perf_counter", wire.look)
    monkeypatch.setattr(switch.select, "select", wire.select)
    monkeypatch.setattr(switch.os, "read", wire.read)
    monkeypatch.setattr(switch.os, "write", wire.write)
    monkeypatch.setattr(switch.os, "sched_setscheduler", lambda *_: None)
    switch.run(-1, link("loopback", delay_ms=100.0, mbit=1.0), -2)
    charged = 3.0 + 0.1 + 8e-6 * (5000 + 5 * 52)
    expected = [(1.108, one), (1.108, other), (1.116, one), (charged, long)]
    assert [packet for _, packet in wire.back] == [packet for _, packet in expected]
    for (found, _), (due, _) in zip(wire.back, expected, strict=True):
        assert 0 <= found - due < 1e-4


def test_the_loopback_profile_is_this_machine_as_it_is(run):
    process = run("--profile", "loopback", "--", "readlink", "/proc/self/ns/net")
    out, err = process.communicate(timeout=PATIENCE)
    assert out.strip() == os.readlink("/proc/self/ns/net")
    assert "network loopback (as it is): 0 ms one-way, no limit" in err


def test_a_command_keeps_its_input_output_and_status_and_leaves_nothing(run, usual):
    process = run("--profile", "lan", "--", "sh", "-c", "sleep 600 > /dev/null 2>&1 & cat; exit 7")
    out, err = process.communicate("as it was", timeout=PATIENCE)
    assert (out, process.returncode) == ("as it was", 7)
    assert err.startswith(f"network lan ({usual}): 0.1 ms one-way, 1000 Mbit/s")


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGTERM", "SIGKILL", "switch killed"])
def test_nothing_is_left_of_a_command_that_is_ended(run, how):
    script = "import os, subprocess, time; "
    script += "subprocess.Popen(['sleep', '600'], start_new_session=True); "
    script += "print(os.readlink('/proc/self/ns/net'), os.getpid(), flush=True); "
    script += "time.sleep(600)"
    means = "switch" if how == "switch killed" else "auto"
    process = run("--delay-ms", "0.1", "--means", means, "--", sys.executable, "-c", script)
    namespace, pid = process.stdout.readline().split()
    assert namespace not in ("", os.readlink("/proc/self/ns/net"))
    if how == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
    elif how == "SIGTERM":
        process.terminate()
    elif how == "SIGKILL":
        process.kill()
    elif how == "switch killed":
        (keeper,) = set(_children(process.pid)) - {int(pid)}
        os.kill(keeper, signal.SIGKILL)
    statuses = {"Ctrl-C": 130, "SIGTERM": 143, "SIGKILL": -9, "switch killed": 125}
    assert process.wait(PATIENCE) == statuses[how]
    if how == "switch killed":
        assert "the switch: it ended with status -9" in process.stderr.read()


def test_a_task_that_fails_says_so(capfd):
    with pytest.raises(
        EmulationError, match="tests.helpers.emulated_tasks:fail on the network lan"
    ):
        call(link("lan"), "tests.helpers.emulated_tasks:fail")
    assert "the task's own error" in capfd.readouterr().err


def test_a_task_that_takes_too_long_is_ended():
    with pytest.raises(EmulationError, match="not done after 2 s"):
        call(link("loopback", delay_ms=0.5), "subprocess:run", timeout=2.0, args=["sleep", "600"])


def test_an_unknown_command_is_an_error_before_anything_runs(run):
    process = run("--profile", "lan", "no-such-program")
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "command must be a program" in err


def test_a_network_within_a_network_is_an_error_before_anything_runs(run):
    within = ["--profile", "lan", "--", sys.executable, "-c", "1"]
    process = run("--profile", "loopback", "--", sys.executable, "-c", COMMAND, *within)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "network must be asked for outside a network, not 'lan'. This is on 'loopback'." in err


def test_a_task_is_not_called_on_a_network_within_a_network(monkeypatch):
    monkeypatch.setenv(calibration.VARIABLE, '{"profile": "wan"}')
    with refused("network", "value", value="loopback"):
        call(link(), "os:getpid")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"profile": "moon"}, "choice"),
        ({"delay_ms": -1.0}, "range"),
        ({"delay_ms": float("nan")}, "range"),
        ({"mbit": 0.0}, "range"),
        ({"mbit": 1e5}, "range"),
        ({"means": "magic"}, "choice"),
    ],
)
def test_a_link_outside_its_range_is_an_error(arguments, code):
    with refused(*arguments, code):
        link(**arguments)


def test_a_missing_device_is_named_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(switch, "TUN", str(tmp_path / "tun"))
    with pytest.raises(EmulationError, match=f"{tmp_path}/tun: .* modprobe tun"):
        switch.open_device()


def test_a_kernel_with_netem_needs_no_device(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(inside, "delay_by_netem", asked.append)
    monkeypatch.setattr(switch, "TUN", str(tmp_path / "tun"))
    assert inside._device(PROFILES["wan"]) is None
    assert asked == [PROFILES["wan"]]
    with pytest.raises(EmulationError, match="tun"):
        inside._device(link("wan", means="switch"))


def test_netem_that_is_asked_for_is_not_replaced_by_the_switch(run, usual):
    process = run("--profile", "lan", "--means", "netem", "--", "true")
    _, err = process.communicate(timeout=PATIENCE)
    if usual == "netem":
        assert err.startswith("network lan (netem): ")
        assert process.returncode == 0
    else:
        assert "netem: " in err
        assert process.returncode == 125


def test_netem_is_asked_for_as_tc_does():
    # tc qdisc add dev lo root netem delay 20ms rate 100mbit limit 100000, of iproute2 6.1.0, as
    # strace shows it; the sequence number is 0 here.
    sent = (
        "60000000 2400 0506 00000000 00000000"
        "00000000 01000000 00000000 ffffffff 00000000"
        "0a00 0100 6e6574656d00 0000"
        "3000 0200 b4c40400 a0860100 00000000 00000000 00000000 00000000"
        "1400 0600 20bcbe00 00000000 00000000 00000000"
    )
    assert netem.request(PROFILES["wan"]) == bytes.fromhex(sent)


def test_a_table_names_the_network_it_was_made_on(monkeypatch, tmp_path, capsys):
    network = {"profile": "wan", "one-way ms": 20.0, "Mbit/s": 100.0, "means": "switch"}
    network |= {"round trip ms": 40.1, "bulk Mbit/s": 88.0}
    monkeypatch.setenv(calibration.VARIABLE, json.dumps(network))
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    tables.Table("table", [{"rounds": 15}], network="loopback").write(record=True)
    assert json.loads((tmp_path / "table-wan.json").read_text())["settings"]["network"] == network
    assert "measured: round trip 40.100 ms, bulk 88 Mbit/s" in capsys.readouterr().out
