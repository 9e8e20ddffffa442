"""The helpers that other tests rely on: each question gets its own answer, and nothing is left."""

import os
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.commands import pea, pea_apart
from tests.helpers.tfe_process import TFEProcess

TASKS = "tests.helpers.self_tasks"


@pytest.fixture
def process() -> Iterator[TFEProcess]:
    process = TFEProcess()
    yield process
    process.close()


def test_a_question_whose_answer_nobody_awaited_is_not_answered_later(process, monkeypatch):
    assert process.run(f"{TASKS}:echo", value="first") == "first"

    def give_up(_task: str) -> None:
        raise TimeoutError

    with monkeypatch.context() as patch:
        patch.setattr(process, "_answer", give_up)
        with pytest.raises(TimeoutError):
            process.run(f"{TASKS}:echo", value="second")
    assert process.run(f"{TASKS}:echo", value="third") == "third"


def test_an_answer_to_another_question_is_refused(process):
    process.run(f"{TASKS}:echo", value="first")
    process._asked += 1
    process._child.stdin.write(f'[{process._asked}, "{TASKS}:echo", {{"value": "stray"}}]\n')
    with pytest.raises(AssertionError, match="an answer to question 2, not 3"):
        process.run(f"{TASKS}:echo", value="second")
    assert process.run(f"{TASKS}:echo", value="third") == "third"


def test_an_error_fails_the_task_alone_and_a_death_is_followed_by_a_new_process(process):
    with pytest.raises(AssertionError, match="the task's own error"):
        process.run(f"{TASKS}:fail")
    before = process._child
    assert process.run(f"{TASKS}:echo", value="next") == "next"
    assert process._child is before
    with pytest.raises(AssertionError, match="ended with status 3"):
        process.run(f"{TASKS}:die")
    assert process.run(f"{TASKS}:echo", value="after") == "after"


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_the_command_says_the_same_here_as_in_a_process_of_its_own(tmp_path):
    before = dict(os.environ), sys.argv, sys.stdout, sys.stderr
    for arguments in (
        ("split", "--out", tmp_path, "--parties", 400),
        ("train", "--epsilon", -1, "--delta", 1e-5),
    ):
        here, apart = pea(*arguments), pea_apart(*arguments)
        assert here.returncode == apart.returncode
        assert (here.stdout, here.stderr) == (apart.stdout, apart.stderr)
    assert before == (dict(os.environ), sys.argv, sys.stdout, sys.stderr)
