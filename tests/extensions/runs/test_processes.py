"""A process performs a task, what ends it is told as it was, and nothing of it is left behind."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from extensions.errors import ArgumentError, LostError, PartyLostError, PlayerLostError
from extensions.errors import ServersLostError as Lost
from extensions.runs.processes import Failure, call, describe_ending, end_with
from tests.helpers.commands import assert_dies_with
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused

TASKS = f"{__name__}:"

run = partial(call, env=os.environ, timeout=PATIENCE, on_event=lambda event: None, lost=Lost)


def double(emit, number):
    print("nobody sees this")
    emit({"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0)})
    emit("second")
    return 2 * number


def lose_player(emit, *, player):
    error = PlayerLostError(player, "no longer answers")
    error.add_note("It was told once.")
    raise error


def refuse(emit):
    raise ArgumentError("lr", -1.0, "positive", "Raise it.")


def refuse_what_cannot_travel(emit):
    raise ArgumentError("source", lambda: 0, "positive")


def fail(emit):
    raise ValueError("the step is too long")


def print_and_end(emit, status):
    print("last words", flush=True)
    os._exit(status)


def kill_itself(emit):
    os.kill(os.getpid(), signal.SIGKILL)


def stop_itself(emit):
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_without_end(emit):
    emit(os.getpid())
    signal.pause()


def end_while_it_waits(emit):
    end_with(PlayerLostError("server2", "no longer answers"), 70)


def test_a_task_is_performed_in_a_session_of_its_own(capfd):
    events = []
    assert run(f"{TASKS}double", {"number": 21}, on_event=events.append) == 42
    first, second = events
    assert second == "second"
    assert first["parent"] == os.getpid()
    assert first["session"] == first["pid"]
    assert capfd.readouterr() == ("", "")


def test_an_error_of_the_project_arrives_as_it_was():
    with pytest.raises(PlayerLostError) as lost:
        run(f"{TASKS}lose_player", {"player": "server1"})
    assert str(lost.value) == "player server1 no longer answers"
    assert lost.value.player == "server1"
    assert lost.value.__notes__ == ["It was told once."]
    with refused("lr", "value", value=-1.0) as wrong:
        run(f"{TASKS}refuse", {})
    assert str(wrong.value.of("rate")) == "rate must be positive, not -1.0. Raise it."


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ("fail", "ValueError: the step is too long"),
        ("refuse_what_cannot_travel", "ArgumentError: source must be "),
        ("unknown", "AttributeError"),
    ],
)
def test_any_other_error_is_a_loss_with_its_traceback(task, text):
    with pytest.raises(Lost, match="^the servers failed\n") as lost:
        run(TASKS + task, {})
    assert text in "".join(lost.value.__notes__)


def test_a_process_that_dies_is_told_with_its_last_lines():
    with pytest.raises(Lost, match="^the servers died with status 3\nlast words$"):
        run(f"{TASKS}print_and_end", {"status": 3})
    with pytest.raises(Lost, match="^the servers died with status -9$"):
        run(f"{TASKS}kill_itself", {})


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_a_process_that_takes_too_long_is_ended():
    pids = []
    with pytest.raises(Lost, match="^the servers took longer than 3 s$"):
        run(f"{TASKS}wait_without_end", {}, timeout=3.0, on_event=pids.append)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_process_that_stops_is_lost():
    with pytest.raises(Lost, match="^the servers (stopped answering for 2 s|gave no sign of life)"):
        run(f"{TASKS}stop_itself", {}, silence=2.0)


def test_a_thread_may_end_the_process_and_tell_why():
    with pytest.raises(PlayerLostError, match="^player server2 no longer answers$") as lost:
        run(f"{TASKS}end_while_it_waits", {})
    assert lost.value.player == "server2"


STOPS_ITS_CHILD = """
import os, signal, sys, threading, time
from extensions.runs.processes import Process
def launch():
    child = Process("extensions.runs.processes", env=os.environ)
    os.kill(child.pid, signal.SIGSTOP)
    print(child.pid, flush=True)
    if sys.argv[1] == "thread":
        return  # the thread that started it ends; the process stays
    time.sleep(900)
if sys.argv[1] == "thread":
    threading.Thread(target=launch).start()
    time.sleep(900)
launch()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death")
@pytest.mark.parametrize("starter", ["main", "thread"])
def test_a_process_that_was_stopped_before_it_began_dies_with_its_launcher(starter):
    launcher = subprocess.Popen(
        [sys.executable, "-c", STOPS_ITS_CHILD, starter], stdout=subprocess.PIPE, text=True
    )
    assert_dies_with(launcher)


def test_what_a_failure_says_of_an_error():
    failure = Failure.of(PartyLostError(2, "is gone"))
    assert failure.name == "PartyLostError"
    assert {"LostError", "ConnectionError", "OSError"} <= {*failure.kinds}
    assert isinstance(failure.error, LostError)
    assert Failure.of(ValueError("wrong")).error is None


def test_endings_in_words():
    assert describe_ending(3) == "exited with status 3 before it was done"
    assert describe_ending(-9) == "was killed by signal 9 (SIGKILL)"
    assert describe_ending(-63) == "was killed by signal 63"
