"""Tasks on files of players, and on players that are not there."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import tensorflow as tf

import tfe_ext
from extensions.checks import check_address
from extensions.errors import PlayerLostError
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tfe_ext.players.connection import Connection, broken_link
from tfe_ext.players.job import JOB, SOFTWARE, check_software
from tfe_ext.players.sockets import end_if_silent, quiet_for
from tfe_ext.players.status import Statuses
from tfe_ext.players.watch import Watch

CALL = (
    "\nAdditional GRPC error information from remote target /job:{}{} "
    "while calling /tensorflow.{}:\n"
)
GOOD = '{"server0": "localhost:1", "server1": "localhost:2", "server2": "localhost:3"}'


def nobody_answers(file, seconds):
    with pytest.raises(PlayerLostError) as caught:
        tfe_ext.remote_config(file, join_timeout=seconds)
    assert caught.value.player == "server0"
    text = str(caught.value)
    assert text.startswith("player server0 did not answer at 127.0.0.1:")
    assert "within 2 s, nor did player server1, nor did player server2." in text
    assert "Start it on its host by `pea players`." in text


def other_software_is_named():
    mine = JOB.split("__")
    task = "/job:{}/replica:0/task:1".format
    check_software("server1", task(JOB))
    check_software("server1", "/job:tfe/replica:0/task:1")  # another programme, told elsewhere
    for place, name in enumerate(("pea-mpl", *SOFTWARE), start=1):
        other = [*mine[:place], "9_9_1", *mine[place + 1 :]]
        expected = f"{name} 9.9.1 at player server1, {mine[place].replace('_', '.')} here"
        with refused("versions", "value", expected):
            check_software("server1", task("__".join(other)))


def unsuitable_files(folder):
    file = Path(folder) / "players.json"
    for text in (
        "{",
        "[]",
        '{"server0": "localhost:1", "server1": "localhost:2"}',
        GOOD.replace('"localhost:3"', "3"),
        GOOD.replace("localhost:3", "localhost:1"),
        GOOD.replace("server1", "server0"),
    ):
        file.write_text(text)
        with refused("players", "file", str(file)):
            tfe_ext.remote_config(file)
    for address in ("localhost", ":3", "localhost:65536", "localhost:0"):
        file.write_text(GOOD.replace("localhost:3", address))
        with refused("players['server2']", "value", address):
            tfe_ext.remote_config(file)
    file.write_text(GOOD)
    with refused("join_timeout", "value", value=0):
        tfe_ext.remote_config(file, join_timeout=0)
    missing = file.with_name("missing.json")
    with refused("players", "file", str(missing)):
        tfe_ext.remote_config(missing)


def what_waits_for_a_silent_player_is_broken_off():
    with ExitStack() as stack:
        ends = {}
        for name in ("server0", "server1"):
            player = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            near = stack.enter_context(socket.create_connection(player.getsockname()))
            stack.enter_context(player.accept()[0])
            ends[name] = near
        addresses = {name: "127.0.0.1:{1}".format(*end.getpeername()) for name, end in ends.items()}
        for other in socket.socketpair():  # as between this process and those that it starts
            stack.enter_context(other)
        connection = Connection("tfe", addresses, None)
        waiting = ThreadPoolExecutor(1).submit(ends["server0"].recv, 1)
        connection.break_off(["server0"])
        assert waiting.result(PATIENCE) == b""
        ends["server1"].sendall(b"still connected")


def connections_to_a_silent_host_end():
    """The kernel ends those of before, and what is accepted later."""
    with ExitStack() as stack:
        here = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        before = stack.enter_context(socket.create_connection(here.getsockname()))
        for other in socket.socketpair():
            stack.enter_context(other)
        stack.enter_context(here.accept()[0])
        end_if_silent(20)
        stack.enter_context(socket.create_connection(here.getsockname()))
        accepted = stack.enter_context(here.accept()[0])
        options = ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        for end in (before, accepted):
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            values = [end.getsockopt(socket.IPPROTO_TCP, getattr(socket, o)) for o in options]
            assert values == [20_000, 5, 5, 3]


def an_error_tells_which_link_broke():
    """As TensorFlow writes it: the innermost call, then who made it, and all that once more."""
    here, first, second = "localhost/replica:0/task:0", *(f"tfe/replica:0/task:{i}" for i in (0, 1))
    fetching, running = "WorkerService/RecvTensor", "eager.EagerService/RunComponentFunction"
    for calls, said in (
        (
            [(here, "", fetching), (second, "/device:CPU:0", running)],
            "server1 at b:2 does not reach this process, though it answers",
        ),
        (
            [(first, "", fetching), (second, "/device:CPU:0", running)],
            "server0 at a:1 is not reached by player server1, though both answer this process",
        ),
        ([(first, "", fetching)], "server0 at a:1 was not reached, though it answers now"),
        ([(second, "", running)], "server1 at b:2 was not reached, though it answers now"),
        ([(here, "", fetching)], None),
        ([], None),
    ):
        text = "sendmsg: Connection reset by peer" + "".join(CALL.format(*call) for call in calls)
        error = tf.errors.UnavailableError(None, None, 2 * text)
        lost = broken_link(error, "tfe", {"server0": "a:1", "server1": "b:2"})
        assert said == (lost and str(lost).removeprefix("player "))
        refused = tf.errors.InvalidArgumentError(None, None, text)
        assert broken_link(refused, "tfe", {"server0": "a:1", "server1": "b:2"}) is None


def this_process_keeps_one_address_that_players_reach():
    first, again = (_own_address({"server0": "127.0.0.1:1"}) for _ in range(2))
    assert first == again != "localhost"
    here, port = check_address("own", first)
    assert here == "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect(("192.0.2.1", 1))
        host = way.getsockname()[0]
    elsewhere = {"server0": "127.0.0.1:1", "server1": "192.0.2.1:1"}
    assert _own_address(elsewhere) == f"{host}:{port}"
    given = f"here.example:{port}"
    assert _own_address(elsewhere, given) == given
    for own in ("here.example:1", "here.example", "here.example:0"):
        with refused("own_address", "value", own):
            _own_address(elsewhere, own)


def _own_address(addresses, own=None):
    cluster = Connection("tfe", addresses, own)._cluster
    return cluster.task_address("localhost", 0)


def a_host_that_is_cut_off_is_suspected_itself():
    """Connections that nobody answers are broken off, and the first of several players is named."""
    addresses = {"server0": "127.0.0.1:1", "server1": "127.0.0.1:2"}
    broken = []
    watch = Watch(Statuses(addresses), dict.fromkeys(addresses, b""), broken.append)
    watch.start()
    wait_until(lambda: broken, "the loss")
    watch.stop()
    assert broken[0] == ["server0", "server1"]
    lost = watch.explain()
    assert str(lost).startswith("player server0 no longer answers at 127.0.0.1:1, nor does any")


def a_process_knows_since_when_nobody_sent_anything():
    """Of all connections the one that heard something last decides."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pairs = []
        for _ in range(2):
            one = stack.enter_context(socket.create_connection(listening.getsockname()))
            pairs.append((one, stack.enter_context(listening.accept()[0])))
        wait_until(lambda: quiet_for() > 1.0, "silence")
        (one, other), _ = pairs
        one.sendall(b"a")
        wait_until(lambda: quiet_for() < 0.5, "what was sent")
        assert other.recv(1) == b"a"
        wait_until(lambda: quiet_for() > 1.0, "silence again")
