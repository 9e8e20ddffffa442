"""Work in a process of its own, for hosts that fix their devices once a process."""

import json
import os
import subprocess
import sys
from typing import Any

_CODE = """
import importlib, json, sys
module, _, name = sys.argv[1].partition(":")
answer = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
print(json.dumps(answer))
"""


def in_child(task: str, **options: Any) -> Any:
    """Returns what ``task(**options)`` returned in a fresh process; both ways as JSON.

    Args:
        task: "package.module:function".
        **options: keyword arguments.

    Raises:
        subprocess.CalledProcessError: it failed; standard error has its message.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CODE, task, json.dumps(options)],
        env={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
