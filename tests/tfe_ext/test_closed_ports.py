"""Ports of players that are closed to other hosts, which try to come in all the same."""

import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.helpers.commands import PROGRAM, ROOT, pea
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.patience import wait_until
from tests.helpers.players import SERVERS, write
from tests.tfe_ext.test_compat import needs_tensorflow

REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"


def on(hosts, name, *arguments):
    """The command of a Python on that host."""
    return ["ip", "netns", "exec", hosts.space(name), sys.executable, *arguments]


LISTENING = """
import socket, sys
from tfe_ext.players.sockets import close_to_other_hosts

with socket.create_server(("", 4440)), socket.create_server(("", 4441)):
    close_to_other_hosts(4440)
    print("listens", flush=True)
    sys.stdin.read()
"""

WITHOUT_RIGHTS = """
import ctypes, os
import tfe_ext.players.sockets  # while its file may be read

os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # or who was root before may not list what it has open
"""

CONNECTING = """
import sys
import tensorflow as tf
from tfe_ext.players.connection import Connection

player = "127.0.0.1:4441"
server = tf.distribute.Server(
    tf.train.ClusterSpec({"tfe": [player]}), job_name="tfe", task_index=0
)
Connection("tfe", {"server0": player}, "127.0.0.1:4440").open()
print("listens", flush=True)
sys.stdin.read()
"""


def reach(hosts, *connections):
    """Of each of (who, host, port), whether nobody answers there."""
    return [
        subprocess.run(
            on(hosts, who, "-c", REACH, host, str(port)), capture_output=True, check=False
        ).returncode
        for who, host, port in connections
    ]


@needs_root
@needs_tensorflow
@pytest.mark.parametrize(
    "script",
    [LISTENING, WITHOUT_RIGHTS + LISTENING, CONNECTING],
    ids=["listening", "without rights", "client"],
)
def test_a_port_that_is_closed_is_reached_from_its_own_host_alone(script):
    with Hosts(["here", "there"]) as hosts:
        process = subprocess.Popen(
            on(hosts, "here", "-c", script),
            env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout.readline() == "listens\n"
            here = hosts.addresses["here"]
            ways = (("here", "127.0.0.1", 4440), ("there", here, 4440), ("there", here, 4441))
            assert reach(hosts, *ways) == [0, 1, 0]
        finally:
            process.communicate()


CLOSING = """
import json, socket, sys
from tfe_ext.players.sockets import close_to_other_hosts

family = socket.AF_INET6 if sys.argv[1] == "both" else socket.AF_INET
with socket.create_server(
    ("", 4440), family=family, dualstack_ipv6=family == socket.AF_INET6
) as port:
    print("listens", flush=True)
    accepted, _ = port.accept()
    print("accepted", flush=True)
    sys.stdin.readline()
    close_to_other_hosts(4440)
    print("closed", flush=True)
    sys.stdin.readline()
    port.settimeout(4)  # a handshake's next message is sent after 3 s at the latest
    came = []
    try:
        while True:
            came.append(port.accept()[1][0].removeprefix("::ffff:"))
    except TimeoutError:
        pass
    try:
        read = accepted.recv(9).decode()
    except OSError:
        read = ""
    print(json.dumps([came, read]), flush=True)
"""


@contextmanager
def in_steps(command):
    """That command's process; `told` is what it says next."""
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:

        def go_on(expected):
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == expected

        try:
            yield process, go_on
        finally:
            process.terminate()


def half_open(address):
    """A socket that connects to the address, and does not wait for an answer."""
    one = socket.socket()
    one.setblocking(False)
    with suppress(BlockingIOError):
        one.connect(address)
    return one


def has_half_open():
    """Whether a handshake with this host has begun and not ended."""
    tables = Path("/proc/thread-self/net")
    return any(" 03 " in (tables / name).read_text() for name in ("tcp", "tcp6"))


@needs_root
@needs_tensorflow
@pytest.mark.parametrize("protocols", ["ipv4", "both"])
def test_what_came_from_another_host_before_a_port_is_closed_is_not_let_in(protocols):
    with (
        Hosts(["here", "there"]) as hosts,
        in_steps(on(hosts, "here", "-c", CLOSING, protocols)) as (process, go_on),
        ExitStack() as stack,
    ):

        def connect(connecting, host):
            end = (hosts.addresses["here"] if host == "there" else "127.0.0.1", 4440)
            return stack.enter_context(hosts.on(host, lambda: connecting(end)))

        assert process.stdout.readline() == "listens\n"
        accepted = connect(socket.create_connection, "there")
        accepted.sendall(b"unread")
        assert process.stdout.readline() == "accepted\n"
        waiting = connect(socket.create_connection, "there")
        hosts.mute("here", "there")
        begun = connect(half_open, "there")
        wait_until(lambda: hosts.on("here", has_half_open), "a handshake that does not end")
        go_on("closed\n")
        hosts.rejoin("here", "there")
        own = connect(socket.create_connection, "here")
        go_on(json.dumps([["127.0.0.1"], ""]) + "\n")
        assert own.recv(1) == b""  # the process has ended
        for one in (accepted, waiting, begun):
            one.settimeout(0.1)
            with pytest.raises((ConnectionError, TimeoutError)):
                assert one.recv(1)


@pytest.mark.long
@needs_root
@needs_tensorflow
def test_a_handshake_that_begins_while_a_player_starts_is_not_let_in(tmp_path):
    file = write(tmp_path / "players.json", {n: f"127.0.0.1:444{n[-1]}" for n in SERVERS})
    begun = deque()
    run = ("-c", PROGRAM, "players", "--players", str(file), "--player", "server0")
    with Hosts(["here", "there"]) as hosts, ExitStack() as stack:
        address = (hosts.addresses["here"], 4440)
        hosts.mute("here", "there")
        process, _ = stack.enter_context(in_steps(on(hosts, "here", *run)))

        def begin():
            while is_starting.is_set():
                begun.append(stack.enter_context(half_open(address)))
                if len(begun) > 200:
                    begun.popleft().close()
                time.sleep(0.02)

        is_starting = threading.Event()
        is_starting.set()
        flood = threading.Thread(target=hosts.on, args=("there", begin))
        flood.start()
        try:
            while " listens on port " not in process.stdout.readline():
                assert process.poll() is None
        finally:
            is_starting.clear()
            flood.join()
        hosts.rejoin("here", "there")
        answered, begun_at = select.poll(), {one.fileno(): one for one in begun}
        for one in begun:
            answered.register(one, select.POLLIN)
        for descriptor, _ in answered.poll(5000):
            with pytest.raises(ConnectionError):  # refused, or aborted
                begun_at[descriptor].recv(1)
        assert reach(hosts, ("here", "127.0.0.1", 4440)) == [0]


@pytest.mark.long
@needs_root
@needs_tensorflow
def test_a_player_with_an_address_of_this_host_alone_is_closed_to_others(tmp_path):
    """TensorFlow listens on every interface: a player whose port is left open shows it."""
    with Hosts(["here", "there"]) as hosts, ExitStack() as stack:
        here = hosts.addresses["here"]
        file = write(
            tmp_path / "players.json",
            {"server0": "127.0.0.1:4440", "server1": f"{here}:4441", "server2": "127.0.0.1:4442"},
        )
        refused = pea("players", "--players", file, "--player", "server1")
        assert refused.returncode == 1
        assert f", not '{here}:4441'" in refused.stderr
        for options in (["server0"], ["server1", "--insecure-open-port"]):
            run = ("-c", PROGRAM, "players", "--players", str(file), "--player", *options)
            command = subprocess.Popen(
                on(hosts, "here", *run),
                env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(command.communicate)
            stack.callback(command.terminate)
            while " listens on port " not in command.stdout.readline():
                assert command.poll() is None
        ways = (("here", "127.0.0.1", 4440), ("there", here, 4440), ("there", here, 4441))
        assert reach(hosts, *ways) == [0, 1, 0]
