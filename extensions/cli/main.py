"""The `pea` command."""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from extensions import __version__, printing
from extensions.cli.commands import GROUP, Commands
from extensions.errors import ArgumentError, LostError, PeaError, PrivacyWarning
from extensions.options.leaves import TypingError

INTERRUPTED = 130
"""Status of a command that Ctrl-C ended."""


class PeaCommands(Commands):
    """Train models on several parties' private data."""

    own: ClassVar[Mapping[str, str]] = {
        "train": "extensions.cli.training:train",
        "party": "extensions.cli.training:party",
        "align": "extensions.cli.align:align",
        "plan": "extensions.cli.model.plan:plan",
        "budget": "extensions.cli.budget:budget",
        "keys": "extensions.cli.identities:keys",
        "federation": "extensions.cli.identities:federation",
        "split": "extensions.cli.data:split",
        "features": "extensions.cli.data:extract",
        "schema": "extensions.cli.data:schema",
        "predict": "extensions.cli.model.queries:predict",
        "explain": "extensions.cli.model.queries:explain",
        "export": "extensions.cli.model.queries:export",
        "evaluate": "extensions.cli.model.shares:evaluate",
        "open": "extensions.cli.model.shares:open_model",
        "report": "extensions.cli.report:report",
        "doctor": "extensions.cli.doctor.command:doctor",
    }
    group: ClassVar[str | None] = GROUP


def main() -> None:
    """Runs `pea`."""
    run(PeaCommands, "pea")


def run(commands: type[Commands], name: str) -> None:
    """Runs a command of a group and ends the process; an error of the project is one line.

    It goes to standard error, and the status is 1, or 2 if what was typed is no option or no value
    of its type. Only where a process was lost do further lines say what it last printed. SIGTERM
    and SIGHUP interrupt it as Ctrl-C does, so that what one run alone needs goes with it; the
    process then ends by them. A console that fails ends nothing: if text was lost on one, the
    status of a command that did all else is `printing.CUT_SHORT`. A reader that has left, such as
    `head`, has what it wanted.

    Args:
        commands: the group.
        name: by which it is called; its last word begins the line.
    """
    word = name.split()[-1]
    with printing.unfailing() as streams, _ended_in_order(), _warnings_as_notices():
        status = _status_of(commands, name, word)
        for stream in streams.values():
            stream.flush()
        for where, stream in streams.items():
            if stream.failure is not None and not isinstance(stream.failure, BrokenPipeError):
                print(f"{word}: {where} is incomplete: {stream.failure}", file=sys.stderr)
                status = status or printing.CUT_SHORT
        sys.exit(status)


@contextmanager
def _warnings_as_notices() -> Iterator[None]:
    """In the block a warning of ours is shown as the other notices of commands, and once."""
    others, told = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, PrivacyWarning):
            others(message, category, *place, **more)
        elif (line := f"Notice: {message}") not in told:
            told.add(line)
            print(line, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _status_of(commands: type[Commands], name: str, word: str) -> int:
    """Runs a command; returns the status to end with, after an error was told."""
    command = None
    try:
        if (told := _of_group(commands, name, sys.argv[1:])) is not None:
            print(told)
            return 0
        command, tokens = commands.command(name, sys.argv[1:])
        if command is None:
            return 0
        status = command.run(tokens)
    except KeyboardInterrupt as error:
        notes = getattr(error, "__notes__", ["Nothing is kept."])
        print(" ".join([f"{word}: interrupted.", *notes]), file=sys.stderr)
        return INTERRUPTED
    except (PeaError, OSError) as error:
        text = str(error)
        if command is not None and isinstance(error, ArgumentError):
            text = command.sentence(error)
        print(f"{word}: {' '.join(text.split())}", file=sys.stderr)
        if isinstance(error, LostError):
            for note in getattr(error, "__notes__", []):
                print(note, file=sys.stderr)
        return 2 if isinstance(error, TypingError) else 1
    return status if isinstance(status, int) else 0


def _of_group(commands: type[Commands], name: str, tokens: list[str]) -> str | None:
    """Returns what an option of the group itself says, if one was typed."""
    match tokens[:1]:
        case ["--version"]:
            return f"{name} {__version__}"
        case ["--install-completion"]:
            return f"{commands.app(name, loaded=True).install_completion()} is installed."
        case ["--show-completion"]:
            return commands.app(name, loaded=True).generate_completion()
    return None


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Signals that end a process interrupt the block, once; the process then ends by them."""
    ended: list[int] = []

    def interrupt(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        ended.append(number)
        raise KeyboardInterrupt

    own: list[int] = []
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGTERM, signal.SIGHUP)  # one that is ignored, as under nohup, stays so
        own += [one for one in numbers if signal.getsignal(one) == signal.SIG_DFL]
    for number in own:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in own:
            signal.signal(number, signal.SIG_DFL)
        if ended:
            sys.stdout.flush()
            sys.stderr.flush()
            os.kill(os.getpid(), ended[0])
