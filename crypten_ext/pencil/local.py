"""A model's owner and data owners as processes of this machine, with keys made for them."""

import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from extensions import printing
from extensions.data.origin import FeatureExtraction
from extensions.errors import PeaError
from extensions.runs.budget.file import SUFFIX
from extensions.runs.processes import Started, end, shared_template, start
from extensions.runs.processes.credentials import federation_of
from extensions.transport import Identity, make

MODULE = "crypten_ext.pencil"
_PROGRAM = f"{MODULE}.__main__"
_IMPORTED = (f"{MODULE}.meeting", f"{MODULE}.turn", f"{MODULE}.files")


def commands_of(
    learning: Any,
    cost: Any,
    extraction: FeatureExtraction,
    files: Sequence[Path],
    kept: Path,
) -> list[list[str]]:
    """Returns what the model's owner types, then each data owner; keys are made for them.

    What stays is in the folder `kept`.
    """
    folder = files[0].parent
    model = make("model", folder / "model.pem", 1)
    first = ["owner", "--key", str(model.path), "--out", str(kept / "model.npz")]
    first += ["--test", str(files[0])]
    first += ["--max-feature-norm", str(extraction.max_feature_norm), *typed(learning)]
    commands = [first]
    for number, records in enumerate(files):
        name = f"data-{number}"
        identity = make(name, folder / f"{name}.pem", 1)
        path = str(meeting_of(model, identity, folder / f"{name}.toml"))
        first += ["--federation", path]
        own = ["--key", str(identity.path), "--federation", path, "--records", str(records)]
        own += ["--budget", str(kept / f"{name}{SUFFIX}")]
        if (earlier := kept / f"{name}.ledger").exists():  # of an earlier version
            own += ["--ledger", str(earlier)]
        commands.append(["data", *own, *typed(cost)])
    return commands


def meeting_of(model: Identity, data: Identity, path: Path) -> Path:
    """Writes the federation of two identities on this machine, at ports that are free now."""
    with ExitStack() as stack:
        places = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        federation_of((model, data), places).write(path)
    return path


def typed(options: object) -> list[str]:
    """Returns options as they are typed."""
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in vars(options).items()]
    return [word for pair in pairs for word in pair]


def run_together(commands: Sequence[Sequence[str]], folder: Path, timeout: float) -> None:
    """Returns once all have ended well; if one fails, none goes on, nor if this process is killed.

    Raises:
        PeaError: one failed, which is named with its last line, or the time is over.
        SystemExit: text of one was lost, and all else is done; its status is `CUT_SHORT`.
    """
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    running: list[tuple[str, Started, Path]] = []
    with ExitStack() as until_over:
        template = until_over.enter_context(shared_template(_PROGRAM, *_IMPORTED, env=env))
        begin = start if template is None else template.start
        until_over.callback(lambda: end(*[process for _, process, _ in running]))
        for i, command in enumerate(commands):
            said = folder / f"{i}.stderr"
            with said.open("wb") as file:
                process = begin(_PROGRAM, *command, env=env, output=1, errors=file.fileno())
            running.append((command[0] if i == 0 else f"data owner {i - 1}", process, said))
        deadline = time.monotonic() + timeout
        while any(process.poll() is None for _, process, _ in running):
            for name, process, said in running:
                if process.poll() not in (None, 0, printing.CUT_SHORT):
                    last = said.read_text().strip().splitlines()[-1:] or ["it says nothing"]
                    raise PeaError(f"{name} ended with status {process.poll()}: {last[0]}")
            if time.monotonic() > deadline:
                raise PeaError(f"Not all had finished after {timeout:g} s.")
            time.sleep(0.1)
        for _, process, said in running:
            if process.poll():
                print(said.read_text().strip(), file=sys.stderr)
                raise SystemExit(process.poll())
