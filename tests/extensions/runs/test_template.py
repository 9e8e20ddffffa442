"""Copies of a process that imported what they need: separate in all but that, and never orphans."""

import atexit
import os
import pickle
import random
import secrets
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from extensions.runs.processes import Process, Template, shared_template
from tests.helpers.commands import assert_all_end, assert_dies_with, is_alive
from tests.helpers.patience import PATIENCE, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")

PROGRAM = "extensions.runs.processes.__main__"


class Copied:
    """A process made from a template, and the answers that it gives."""

    def __init__(self, template, *, env=None, descriptors=()):
        self._answers = SimpleQueue()
        self.process = Process(
            PROGRAM,
            env={**os.environ, **(env or {})},
            receive=self._answers.put,
            descriptors=descriptors,
            template=template,
        )

    def ask(self, task, **arguments):
        self.process.send(pickle.dumps((f"{__name__}:{task}", arguments)))
        return self.answer()

    def answer(self):
        frame = self._answers.get(timeout=PATIENCE)
        return pickle.loads(frame) if frame else None

    def end_by(self, task, **arguments):
        assert self.ask(task, **arguments) is None
        self.process.wait(PATIENCE)
        return self.process.status


@pytest.fixture
def template():
    made = Template("tests.helpers.imported_once", "no.such.module", env=os.environ)
    yield made
    made.end()


def describe(emit):
    from tests.helpers import imported_once

    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "session": os.getsid(0),
        "imported in": imported_once.PID,
        "name": os.environ.get("NAME"),
    }


def draw(emit):
    return [
        random.random(),
        np.random.random(),
        np.random.default_rng().random(),
        secrets.token_hex(),
    ]


def print_and_end(emit, status):
    print("last words", flush=True)
    sys.stderr.write("and errors")
    sys.stderr.flush()
    os._exit(status)


def kill_itself(emit):
    os.kill(os.getpid(), signal.SIGKILL)


def spawn(emit):
    return subprocess.Popen(["sleep", "900"]).pid


def test_copies_share_an_import_and_nothing_else(template):
    first, second = (Copied(template, env={"NAME": name}) for name in ("a", "b"))
    (_, one), (_, other) = first.ask("describe"), second.ask("describe")
    assert one["imported in"] == other["imported in"] == one["parent"] == other["parent"]
    assert (one["name"], other["name"]) == ("a", "b")
    for told, copy in ((one, first), (other, second)):
        assert told["pid"] == told["session"] == copy.process.pid
        assert copy.process.status is None
    assert one["pid"] != other["pid"]


def test_the_environment_of_a_copy_is_the_one_it_is_given(monkeypatch):
    monkeypatch.setenv("NAME", "of the template")
    template = Template(env=os.environ)
    try:
        monkeypatch.delenv("NAME")
        assert Copied(template).ask("describe")[1]["name"] is None
    finally:
        template.end()


def test_blocks_that_are_open_at_once_share_a_template_of_their_kind():
    with ExitStack() as outer:
        with shared_template(env=os.environ) as one, shared_template(env=os.environ) as same:
            assert one is same
            other = outer.enter_context(shared_template(env=os.environ, key="other"))
            assert other is not one
        assert one.has_ended
        assert not other.has_ended
        os.kill(Copied(other).ask("describe")[1]["parent"], signal.SIGKILL)
        wait_until(lambda: other.has_ended, "the end of the template")
        with shared_template(env=os.environ, key="other") as again:
            assert again is not other
            Copied(again).ask("describe")
    with shared_template(env=os.environ, key="other") as late:
        assert late is not again


def test_copies_draw_each_its_own(template):
    copies = [Copied(template) for _ in range(3)]
    draws = [copy.ask("draw")[1] for copy in copies]
    for column in zip(*draws, strict=True):
        assert len({*column}) == 3


def test_a_copy_ends_as_any_process_does(template):
    copies = [Copied(template) for _ in range(3)]
    assert copies[0].end_by("print_and_end", status=3) == 3
    copies[0].process.end()
    assert copies[0].process.last_lines() == "last words\nand errors"
    assert copies[1].end_by("kill_itself") == -signal.SIGKILL
    copies[2].process.send(b"")
    copies[2].process.wait(PATIENCE)
    assert copies[2].process.status == 0
    assert not any(is_alive(copy.process.pid) for copy in copies)


class Left:
    """What the interpreter takes apart at its own end, if it comes to that."""

    def __del__(self):
        print("was taken apart")


def leave_things_to_do(emit):
    def after_the_main_thread():
        threading.main_thread().join()
        print("a thread was waited for")

    global left
    left = Left()
    threading.Thread(target=after_the_main_thread).start()
    atexit.register(print, "and this was done")


@pytest.mark.parametrize("copied", [True, False])
def test_a_process_that_is_told_to_leave_does_what_is_left_and_is_not_taken_apart(copied, template):
    process = Copied(template if copied else None)
    process.ask("leave_things_to_do")
    process.process.send(b"")
    process.process.wait(PATIENCE)
    process.process.end()
    assert process.process.status == 0
    assert process.process.last_lines() == "a thread was waited for\nand this was done"


def test_a_copy_inherits_the_descriptors_that_it_is_given_and_no_other(template):
    reading, writing = os.pipe()
    copies = [Copied(template), Copied(template, descriptors=[reading])]
    pids = [copy.ask("describe")[1]["pid"] for copy in copies]
    pipe = os.readlink(f"/proc/self/fd/{reading}")
    has = [pipe in map(os.readlink, Path(f"/proc/{pid}/fd").iterdir()) for pid in pids]
    assert has == [False, True]
    os.close(reading)
    os.close(writing)


def test_what_a_copy_started_ends_with_the_template(template):
    copies = [Copied(template) for _ in range(2)]
    pids = [copies[0].ask("spawn")[1], *(copy.process.pid for copy in copies)]
    os.kill(copies[1].process.pid, signal.SIGSTOP)
    template.end()
    assert_all_end(pids)


def test_a_template_that_dies_takes_its_copies_along_and_begins_no_more(template):
    copies = [Copied(template) for _ in range(2)]
    parent = copies[0].ask("describe")[1]["parent"]
    pids = [copy.process.pid for copy in copies]
    os.kill(pids[1], signal.SIGSTOP)
    os.kill(parent, signal.SIGKILL)
    assert_all_end(pids)
    late = Copied(template)
    for copy in (*copies, late):
        copy.process.wait(PATIENCE)
        assert copy.process.status == -signal.SIGKILL
        copy.process.end()
    with pytest.raises(ProcessLookupError, match="its template ended"):
        _ = late.process.pid


def test_what_never_began_is_ended_with_its_template():
    template = Template("tests.helpers.imported_once", env=os.environ)
    os.kill(template._process.pid, signal.SIGSTOP)
    copy = Copied(template)
    assert copy.process.status is None
    template.end()
    copy.process.end()
    assert copy.process.status == -signal.SIGKILL


LAUNCHES = """
import os, signal, time
from extensions.runs.processes import Process, Template, shared_template
template = Template(env=os.environ)
child = Process("extensions.runs.processes.__main__", env=os.environ, template=template)
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(900)
"""


def test_a_copy_that_was_stopped_before_it_began_dies_with_its_launcher():
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHES], stdout=subprocess.PIPE, text=True)
    assert_dies_with(launcher)
