"""The parts of reference pages that the code itself says: commands, and sentences of errors."""

import inspect
import re
import shlex
from collections.abc import Iterator

from extensions.cli.command import Command
from extensions.cli.commands import Commands, load
from extensions.cli.main import PeaCommands
from extensions.errors import ArgumentError, PeaError
from extensions.options.leaves import Leaf
from extensions.sentences import SENTENCES


def commands() -> str:
    """Returns every command of `pea` with all its options."""
    return "\n\n".join(_commands(PeaCommands, "pea"))


def _commands(group: type[Commands], name: str) -> Iterator[str]:
    for word, point in group.points().items():
        found, whole = load(point), f"{name} {word}"
        if isinstance(found, type):
            yield f"## {whole}\n\n{inspect.getdoc(found)} Its commands follow."
            yield from _commands(found, whole)
        else:
            yield _command(Command(whole, found))


def _command(command: Command) -> str:
    doc, _, _ = (inspect.getdoc(command.function) or "").partition("\nArgs:")
    parts = [f"## {command.name}", doc.strip(), f"    {command.name} {command.usage}"]
    if example := getattr(command.function, "example", ""):
        parts += [f"For example: `{example.rstrip('.')}`."]
    for title in dict.fromkeys(leaf.title for leaf in command.leaves):
        members = (leaf for leaf in command.leaves if leaf.title == title)
        parts += [f"**{title or 'Options'}**", "\n".join(map(_option, members))]
    return "\n\n".join(parts)


def _option(leaf: Leaf) -> str:
    value = "" if leaf.is_flag or leaf.positional else f" {leaf.word_for_value}"
    told = [leaf.help.rstrip(".") + "."] if leaf.help else []
    told += ["May be repeated."] if leaf.repeats else []
    told += ["Required."] if leaf.required and not leaf.optional else []
    told += [f"Default: `{leaf.told}`."] if leaf.told is not None else []
    return f"- `{leaf.typed}{value}`: {' '.join(told)}"


def sentence(code: str) -> str:
    """Returns the sentence of an error's code, with its fields in italics."""
    text = SENTENCES[code].replace("given{rule}", "given {rule}")
    return "> " + re.sub(r"\{(\w+)\}", r"*\1*", text)


def typed(line: str) -> str:
    """Returns a line that `pea` rejects, and what it prints.

    Raises:
        ValueError: it is not rejected.
    """
    command = None
    try:
        command, tokens = PeaCommands.command("pea", shlex.split(line)[1:])
        assert command is not None
        command.run(tokens)
    except PeaError as error:
        known = command is not None and isinstance(error, ArgumentError)
        text = command.sentence(error) if known else str(error)  # type: ignore[union-attr, arg-type]
        return f"```console\n$ {line}\npea: {text}\n```"
    raise ValueError(f"{line} is not rejected")
