"""One process with TensorFlow and TF Encrypted, in which tests run their tasks one by one.

TensorFlow fixes its devices once a process and does not suit a process that forks others, so it
stays out of the one that runs the tests. Started as a module it reads one JSON line a task,
[number, "module:function", {arguments}], and answers [number, "", result] or
[number, traceback, null].
"""

import importlib
import json
import os
import subprocess
import sys
import traceback
from typing import Any

from tests.helpers.paths import ROOT

WARNINGS = ("-W", "error", "-W", "ignore:'click:DeprecationWarning")
"""As pytest has them: errors, but for click's to the typer that flwr pins."""


class TFEProcess:
    """The parent's side: it starts the process with the first task.

    A question whose answer was not awaited, or that the process did not survive, ends the process,
    so that the next question goes to a new one and no answer is taken for another's.

    Args:
        variables: added to the environment.
    """

    def __init__(self, **variables: str) -> None:
        inherited = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
        own = {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        self._environment = {**inherited, **own, **variables}
        self._child: subprocess.Popen[str] | None = None
        self._asked = 0

    def run(self, task: str, **arguments: Any) -> Any:
        """Returns what the task returned; an assertion that fails there fails here."""
        self._asked += 1
        try:
            self._ask([self._asked, task, arguments])
            number, error, result = self._answer(task)
            assert number == self._asked, f"an answer to question {number}, not {self._asked}"
        except BaseException:
            self.close()
            raise
        assert not error, error
        return result

    @property
    def pid(self) -> int:
        """Of the process, which runs."""
        assert self._child is not None
        return self._child.pid

    def _ask(self, question: list[Any]) -> None:
        self._child = self._child or self._start()
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()

    def _answer(self, task: str) -> Any:
        assert self._child is not None
        assert self._child.stdout is not None
        answer = self._child.stdout.readline()
        assert answer, f"the process ended with status {self._child.wait()} in {task}"
        return json.loads(answer)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *WARNINGS, "-m", "tests.helpers.tfe_process"],
            env=self._environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """Ends the process, whatever it is doing."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def main() -> None:
    """The child's side; what a task prints goes to the error output."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            number, task, arguments = json.loads(line)
            module, function = task.split(":")
            try:
                found = getattr(importlib.import_module(module), function)(**arguments)
                answer = [number, "", found]
            except Exception:
                answer = [number, traceback.format_exc(), None]
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
