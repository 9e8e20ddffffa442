"""Players in processes of their own compute, are named when lost, and leave nothing behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from extensions.machine import cores
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from tests.conformance.arenas.arena import ABY3Arena
from tests.conftest import SHARED
from tests.extensions.cli.test_cli_checkpoints import LONG_RUN, wait_for
from tests.extensions.protocols.test_inverse_sqrt import assert_within_guarantee
from tests.helpers.commands import ROOT, once, pea, started
from tests.helpers.patience import PATIENCE
from tests.helpers.players import SERVERS, free_addresses, running_players, write
from tests.helpers.strategies import boundaries
from tests.helpers.tfe_process import TFEProcess
from tests.tfe_ext.test_compat import needs_tensorflow

TASKS = "tests.helpers.tfe_tasks.players"
CLIENT = """
import sys, time
import tfe_ext
import tensorflow as tf
import tf_encrypted as tfe

def run():
    x = tfe.define_private_input("server0", lambda: tf.constant([3.0]))
    return (x * x).reveal().to_native()

def work(config):
    tfe.set_config(config)
    tfe.set_protocol(tfe_ext.ABY3())
    compute = tf.function(run, autograph=False)
    for _ in range({calls}):
        assert abs(compute()[0] - 9.0) < 0.01
        print("computed", flush=True)
        time.sleep(0.05)

"""
BLOCK = (
    CLIENT
    + """
with tfe_ext.remote_config(sys.argv[1]) as config:
    work(config)
"""
)
PLAIN = (
    CLIENT
    + """
work(tfe_ext.remote_config(sys.argv[1]))
"""
)
IDLE = (
    PLAIN
    + """
sys.stdin.readline()
print("goes on")
"""
)


@contextmanager
def client(file, script, calls=1_000_000):
    """A script that computes that many times, once it has computed for the first time."""
    process = subprocess.Popen(
        [sys.executable, "-c", script.replace("{calls}", str(calls)), str(file)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "computed\n", process.communicate()[1]
        yield process
    finally:
        process.kill()
        process.communicate()


@needs_tensorflow
@pytest.mark.parametrize(
    "task",
    [
        "shares_lie_in_four_processes",
        pytest.param("protocols_compute", marks=pytest.mark.long),
        "a_total_of_blocks_stays_with_the_servers",
        "calls_differ",
        "a_data_set_is_read_by_its_owner",
        "functions_run_after_assignments",
        "an_owner_without_the_compiled_words_draws_the_portable_ones",
        "an_error_of_the_script_stays_as_it_is",
        "players_under_other_names_are_refused",
        "players_in_another_order_are_refused",
    ],
)
def test_property_of_players(tfe_players, task):
    tfe_players.run(f"{TASKS}:{task}")


@needs_tensorflow
@pytest.mark.long
def test_memory_of_players_and_script_is_flat(players, tfe_players):
    """At most 10 MB for 10,000 steps; in the first thousand queues and caches fill."""
    _, (_, pids) = players
    sizes = tfe_players.run(f"{TASKS}:memory_of_all", pids=pids, steps=3000, every=1000)
    assert set(sizes) == {*SERVERS, "owner", "script"}
    for name, (before, _, after) in sizes.items():
        assert after - before < 2e6, (name, before, after)


@needs_tensorflow
@pytest.mark.xdist_group(SHARED["tfe_players"])
def test_players_of_one_host_share_its_cores(players, monkeypatch):
    from tfe_ext.threads import SHORT_WAYS, THREADS, environment_of

    share = os.environ.get(THREADS, max(1, cores() // len(SERVERS)))
    _, (_, pids) = players
    for name in SERVERS:
        own = Path(f"/proc/{pids[name]}/environ").read_bytes().split(b"\0")
        assert f"{THREADS}={share}".encode() in own
        for way, value in SHORT_WAYS.items():
            assert f"{way}={os.environ.get(way, value)}".encode() in own
    monkeypatch.delenv(THREADS, raising=False)
    assert environment_of(1)[THREADS] == str(cores())
    assert environment_of(cores() + 1)[THREADS] == "1"
    monkeypatch.setenv(THREADS, "7")
    monkeypatch.setenv("GRPC_POLL_STRATEGY", "epoll1")
    assert environment_of(3) == {**SHORT_WAYS, **os.environ}
    assert environment_of(3)["GRPC_POLL_STRATEGY"] == "epoll1"


@needs_tensorflow
def test_threads_run_while_a_player_is_waited_for(players, tfe_players):
    _, (_, pids) = players
    tfe_players.run(f"{TASKS}:threads_run_while_a_player_is_waited_for", pid=pids["server1"])


@needs_tensorflow
@pytest.mark.long
@pytest.mark.parametrize("frac_bits", [16, 20])
def test_inverse_square_root_on_players_is_never_above(tfe_players, frac_bits):
    plan = InverseSqrtPlan(frac_bits=frac_bits)
    x = boundaries(plan.live_bits)
    (y,) = ABY3Arena(tfe_players).evaluate("inverse_sqrt", [x], frac_bits=frac_bits, plan=plan)
    assert_within_guarantee(x, y, plan)


@needs_tensorflow
@pytest.mark.ends_all
def test_a_run_that_loses_a_player_names_it_and_can_be_resumed(
    players, tfe_players, tmp_path, monkeypatch
):
    """The last test of these servers: the others end with the one that dies."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file, (command, pids) = players
    tfe_players.run(f"{TASKS}:calls_differ")
    folder, address = tmp_path / "kept", json.loads(file.read_text())["server1"]
    squares = ("--loss", "least-squares", "--lr", 1, "--max-grad-norm", 0.2)
    run = once("train", "--backend", "tfe", "--players", file, *LONG_RUN, *squares)
    with started(*run, "--checkpoint-every", 1, "--checkpoint", folder) as training:
        wait_for(training, folder, 2, 2)
        os.kill(pids["server1"], signal.SIGKILL)
        done = training.finish()
    assert done.returncode == 1
    *_, lost, hint = done.stderr.splitlines()
    assert lost == f"pea: player server1 no longer answers at {address}"
    assert (
        hint == f"What players keep in {folder} is not lost: give the same command with --resume."
    )
    ended = command.finish()
    assert ended.returncode == 1
    assert "pea: player server1 ended with status -9" in ended.stderr
    tfe_players.run(f"{TASKS}:lost_players_are_an_error_in_the_block")


@needs_tensorflow
@pytest.mark.long
def test_players_that_were_lost_come_back_and_compute(tmp_path):
    file = write(tmp_path / "players.json", free_addresses([*SERVERS, "owner"]))
    script = TFEProcess(PLAYERS=str(file))
    try:
        with running_players(file) as (command, pids):
            script.run(f"{TASKS}:calls_differ")
            os.kill(pids["server1"], signal.SIGKILL)
            assert command.finish().returncode == 1
        with running_players(file):
            script.run(f"{TASKS}:players_that_came_back_compute")
    finally:
        script.close()


@needs_tensorflow
@pytest.mark.long
def test_players_end_once_no_script_comes_any_more(tmp_path):
    """A script that only waits has a session, and keeps them."""
    file, idle = write(tmp_path / "players.json", free_addresses(SERVERS)), 20
    script = "import sys, time, tfe_ext; tfe_ext.remote_config(sys.argv[1]); time.sleep(30)"
    with started("players", "--players", file, "--idle-timeout", idle) as command:
        done = subprocess.run([sys.executable, "-c", script, str(file)], cwd=ROOT, check=False)
        assert done.returncode == 0
        ended = command.finish()
    assert ended.returncode == 0, ended.stderr
    assert f"No script came for {idle} s: the players end." in ended.stdout


@needs_tensorflow
def test_player_that_never_comes_is_named(tfe_process, tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    tfe_process.run("tests.helpers.tfe_tasks.absent:nobody_answers", file=str(file), seconds=2)


@needs_tensorflow
@pytest.mark.parametrize(
    "task",
    [
        "what_waits_for_a_silent_player_is_broken_off",
        "connections_to_a_silent_host_end",
        "an_error_tells_which_link_broke",
        "this_process_keeps_one_address_that_players_reach",
        "a_host_that_is_cut_off_is_suspected_itself",
        "other_software_is_named",
        "a_process_knows_since_when_nobody_sent_anything",
    ],
)
def test_property_of_the_connection(tfe_process, task):
    tfe_process.run(f"tests.helpers.tfe_tasks.absent:{task}")


@needs_tensorflow
def test_unsuitable_files_are_refused(tfe_process, tmp_path):
    tfe_process.run("tests.helpers.tfe_tasks.absent:unsuitable_files", folder=str(tmp_path))


@needs_tensorflow
@pytest.mark.long
@pytest.mark.parametrize("script", [PLAIN, BLOCK])
def test_player_that_dies_ends_the_script_and_the_others(tmp_path, script):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    with running_players(file) as (command, pids), client(file, script) as process:
        os.kill(pids["server1"], signal.SIGKILL)
        _, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1, error
        address = json.loads(file.read_text())["server1"]
        assert f"pea: player server1 no longer answers at {address}" in error
        assert f"PlayerLostError: player server1 no longer answers at {address}" in error
        ended = command.finish()
        assert ended.returncode == 1
        assert "pea: player server1 ended with status -9" in ended.stderr


@needs_tensorflow
@pytest.mark.long
@pytest.mark.parametrize("script", [PLAIN, BLOCK])
def test_player_that_falls_silent_ends_the_script(tmp_path, script):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    with running_players(file) as (command, pids), client(file, script) as process:
        os.kill(pids["server2"], signal.SIGSTOP)
        _, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == 1
        assert "pea: player server2 no longer answers at" in error
        assert "PlayerLostError: player server2 no longer answers at" in error
        # The command is killed: no player is left, not even the stopped one.
        command.process.kill()
        command.finish()


@needs_tensorflow
@pytest.mark.long
def test_script_that_waits_for_no_player_goes_on(tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    with running_players(file) as (command, pids), client(file, IDLE, calls=1) as process:
        os.kill(pids["server1"], signal.SIGSTOP)
        assert "pea: player server1 no longer answers at" in _line_with("pea: ", process.stderr)
        time.sleep(15)
        output, _ = process.communicate("\n", timeout=PATIENCE)
        assert (process.returncode, output) == (0, "goes on\n")
        command.process.kill()
        command.finish()


def _line_with(part, lines):
    return next(line for line in lines if part in line)


@pytest.mark.long
@needs_tensorflow
def test_interrupted_command_leaves_no_player(tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    with running_players(file, "--player", "server1") as (command, pids):
        assert list(pids) == ["server1"]
        command.process.send_signal(signal.SIGINT)
        ended = command.finish()
        assert ended.returncode == 0, ended.stderr
        assert "The players end." in ended.stdout


@needs_tensorflow
@pytest.mark.long
def test_address_in_use_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        addresses = free_addresses(SERVERS)
        addresses["server0"] = f"127.0.0.1:{taken.getsockname()[1]}"
        file = write(tmp_path / "players.json", addresses)
        ended = pea("players", "--players", file, "--player", "server0")
    assert ended.returncode == 1
    assert f"player server0 cannot listen at {addresses['server0']}" in ended.stderr
    assert "pea: player server0 ended with status 1" in ended.stderr


def test_unknown_player_is_told(tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    ended = pea("players", "--players", file, "--player", "nobody")
    assert ended.returncode == 1
    assert "pea: --player must be one of server0, server1, server2, not 'nobody'." in ended.stderr


class Told(Exception):
    """All that is told before a player starts."""


def told(file, player=None, **options):
    """What `pea players` says before it starts any."""
    said = []

    def tell(line):
        said.append(line)
        if len(said) == 2:
            raise Told

    from tfe_ext.players.launch import serve

    with pytest.raises(Told):
        serve(file, player, tell=tell, **options)
    return said[1]


@needs_tensorflow
def test_who_starts_all_players_is_told_and_where_they_are(tmp_path):
    """Players of other hosts are started there, each by its name."""
    here, there = free_addresses(SERVERS), "192.0.2.7:4440"  # an address that nobody has
    file = write(tmp_path / "here.json", here)
    assert told(file).startswith("All 3 players start on this host, which therefore has all shares")
    assert told(file, "server1") == "Player server1 starts on this host."
    file = write(tmp_path / "there.json", {**here, "server1": there})
    assert told(file, "server0") == "Player server0 starts on this host."
    assert told(file, "server1", insecure_open_port=True).startswith(
        f"This host lacks the address {there} that the file"
    )
    ended = pea("players", "--players", file)
    assert ended.returncode == 1
    assert "pea: --player must be given because some players are on other hosts." in ended.stderr
    assert f"These are elsewhere: server1 at {there}." in ended.stderr


def test_players_without_tensorflow_name_the_extra(tmp_path):
    file = write(tmp_path / "players.json", free_addresses(SERVERS))
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['tensorflow'] = None\n"
            f"sys.argv = ['pea', 'players', '--players', {str(file)!r}]\n"
            "from extensions.cli.main import main; main()",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert (
        "pea: tensorflow is not installed. Type in your clone of PEA: pip install '.[tfe]'"
        in ended.stderr
    )
