"""One process with TensorFlow and TF Encrypted, in which tests run their tasks one by one.

TensorFlow fixes its devices once a process and does not suit a process that forks others, so it
stays out of the one that runs the tests. Started as a module it reads one JSON line a task,
["module:function", {arguments}], and answers with ["", result] or [traceback, null].
"""

import importlib
import json
import os
import subprocess
import sys
import traceback
from typing import Any

from tests.helpers.paths import ROOT


class TFEProcess:
    """The parent's side.

    Args:
        variables: added to the environment.
    """

    def __init__(self, **variables: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
        self._child = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.helpers.tfe_process"],
            env=environment | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"} | variables,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, task: str, **arguments: Any) -> Any:
        """Returns what the task returned; an assertion that fails there fails here."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps([task, arguments]) + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer, f"the process ended with status {self._child.wait()} in {task}"
        error, result = json.loads(answer)
        assert not error, error
        return result

    def close(self) -> None:
        """Ends the process."""
        self._child.communicate()


def main() -> None:
    """The child's side; what a task prints goes to the error output."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            task, arguments = json.loads(line)
            module, function = task.split(":")
            try:
                answer = ["", getattr(importlib.import_module(module), function)(**arguments)]
            except Exception:
                answer = [traceback.format_exc(), None]
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
