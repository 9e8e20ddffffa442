"""The cases: made of each option for what no option allows, and of the tables for its own range."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import typer

from extensions.cli.installed import command_of
from extensions.cli.main import app
from tests.extensions.cli.refused import dealing, records, running

TABLES = {
    "train": running.TRAIN,
    "party": running.PARTY,
    "plan": running.PLAN,
    "prepare": dealing.PREPARE,
    "dealer": dealing.DEALER,
    "players": dealing.PLAYERS,
    "keys": dealing.KEYS,
    "federation": dealing.FEDERATION,
    "split": records.SPLIT,
    "features": records.FEATURES,
    "budget": records.BUDGET,
    "schema": records.SCHEMA,
    "predict": records.PREDICT,
    "evaluate": records.EVALUATE,
    "open": records.OPEN,
    "export": records.EXPORT,
    "fl": running.FL,
}
GROUPS = {"pencil"}
"""Groups of commands; their refusals: tests/crypten_ext/pencil/test_commands.py."""
AFTER_TRAIN = tuple(name for name in TABLES if name not in ("train", "fl"))
"""Commands that may have options of `train`, which one parser reads: see `repeated_of`."""
WITHOUT_VALUE, TWICE, EMPTY = "given with a value", "given once", "   "


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is typed, and what the one line must say.

    Attributes:
        arguments: of `pea`.
        names: of which one is at the beginning of the line.
        value: that the line repeats.
        toml: what the file of --config says, if there is one.
    """

    arguments: tuple[str, ...]
    names: tuple[str, ...]
    value: str = ""
    toml: str = ""


def commands() -> set[str]:
    """Returns the names of all commands."""
    return set(_points())


@functools.cache
def _points() -> dict[str, Any]:
    points: dict[str, Any] = typer.main.get_command(app)._points()
    return points


@functools.cache
def params_of(name: str) -> list[Any]:
    """Returns the options of a command as the parser has them."""
    return list(command_of(_points()[name]).params)


def cases_of(name: str) -> list[Case]:
    """Returns all cases of a command but those of `repeated_of`."""
    own = (each for each in params_of(name) if not _repeats_train(name, each))
    cases = [case for each in own for case in _made(name, each)]
    table = TABLES[name]
    for flag, values in table.ranges.items():
        cases += [_case(name, flag, value) for value in values]
    for changes, names in table.together:
        arguments = table.typed(changes)
        cases.append(Case(arguments=(name, *arguments), names=names))
    return cases


def repeated_of(name: str) -> list[Case]:
    """Returns what is wrong with every option of a kind, for the options that `train` has too."""
    shared = (each for each in params_of(name) if _repeats_train(name, each))
    return [case for each in shared for case in _made(name, each)]


def _repeats_train(name: str, parameter: Any) -> bool:
    if name not in AFTER_TRAIN or parameter.param_type_name == "argument":
        return False
    return _kind(name, parameter) in [_kind("train", each) for each in params_of("train")]


def _kind(name: str, parameter: Any) -> tuple[Any, ...]:
    """What the parser goes by."""
    kinds = (parameter.is_flag, parameter.multiple, parameter.required)
    return parameter.opts, command_word(name, parameter), kinds


def _case(name: str, flag: str, value: str) -> Case:
    word = flag.lstrip("-").replace("-", "_")
    names = (flag, word, *TABLES[name].aliases.get(flag, ()))
    return Case(
        arguments=(name, *TABLES[name].typed({flag: value})), names=names, value=value.strip()
    )


def _made(name: str, parameter: Any) -> Iterator[Case]:
    """Yields what is wrong with every option of a kind."""
    table, flag = TABLES[name], parameter.opts[0]
    case = _case(name, flag, "x")
    if parameter.param_type_name == "argument":
        case = replace(case, names=(flag, "records"), value="")
        yield replace(case, arguments=(name, *table.typed({flag: None})))
        return
    others = (name, *table.typed({flag: None}))
    flagged, several = bool(parameter.is_flag), bool(parameter.multiple)
    key = flag.removeprefix("--")
    in_file = replace(
        case, arguments=(*others, "--config", "given/run.toml"), names=("config",), value=key
    )
    once = (flag,) if flagged else (flag, "1")
    if parameter.required:
        yield replace(case, arguments=others, value="")
    if flagged:
        yield replace(case, arguments=(*others, f"{flag}=yes"), value="yes")
        yield replace(case, arguments=(*others, flag, "true"), value="true")
    else:
        yield replace(case, arguments=(*others, flag), value="")
        yield replace(case, arguments=(*others, flag, ""), value="''")
        yield replace(case, arguments=(*others, flag, "--help-me"), value="--help-me")
    if not several:
        yield replace(case, arguments=(*others, *once, *once), value="")
    if flag != "--config":
        wrong = '"x"' if flagged or several else "[1, 2]"
        yield replace(in_file, toml=f"{key} = {wrong}\n")
        yield replace(in_file, toml=f"[{key}]\n")
    word = command_word(name, parameter)
    if word in ("N", "X"):
        yield replace(case, arguments=(*others, flag, "many"), value="many")
        yield replace(in_file, toml=f"{key} = true\n")
        yield replace(in_file, toml=f'{key} = "many"\n', names=case.names, value="many")
    if word == "N":
        yield replace(case, arguments=(*others, flag, "1.5"), value="1.5")
        yield replace(case, arguments=(*others, flag, "1e400"), value="1e400")
    if word == "X":
        yield replace(case, arguments=(*others, flag, "nan"), value="nan")


def command_word(name: str, parameter: Any) -> str:
    """Returns the word that the command has for a value of an option, such as N for numbers."""
    word: str = command_of(_points()[name])._words(parameter)[1]
    return word
