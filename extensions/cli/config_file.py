"""Options of a command from a TOML file; those on the command line win."""

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from extensions.errors import ArgumentError
from extensions.network.models.own_layers import is_own
from extensions.owners.features import names_function

TYPED = "pea: typed"
"""Where the context of a command has what was typed, by parameter."""
_NAMES_CODE = {"features": names_function, "model": is_own}
"""Of values of these options, whether they name a function, which is then imported and called."""


def load_options(context: typer.Context, path: Path | None) -> Path | None:
    """The file's options are the command's defaults when this returns.

    Keys are the names of the command's options, with hyphens or underscores: ``max-grad-norm``. An
    option that may be repeated is a list.

    Raises:
        ArgumentError: a file that is missing or no TOML, or an unknown key, with the nearest one.
    """
    if path is None:
        return None
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError("config", str(path), "a file of TOML", f"{error}.") from error
    found = by_parameter(context, "config", path.name, given)
    context.default_map = {**(context.default_map or {}), **found}
    return path


def by_parameter(
    context: typer.Context, argument: str, file: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values of options by the names of the command's parameters.

    Args:
        context: of the command.
        argument: by which the file was given.
        file: its name.
        given: values by the options' names, with hyphens or underscores.

    Raises:
        ArgumentError: an unknown option, with the nearest one, a value of another kind, or a
            function that would be imported, unless the user types that option.
    """
    parameters: dict[str, Any] = {
        option.removeprefix("--"): parameter
        for parameter in context.command.params
        for option in parameter.opts
        if option not in ("--config", "--again", "--help")
    }
    defaults = {}
    for key, value in given.items():
        option = key.replace("_", "-")
        if option not in parameters or isinstance(value, dict):
            near = difflib.get_close_matches(option, parameters, n=1, cutoff=0.0)
            raise ArgumentError(
                argument, f"{file}, {key}", "an option of this command", f"Nearest: {near[0]}."
            )
        _check(argument, f"{file}, {key}", value, parameters[option])
        if parameters[option].name in context.meta.get(TYPED, ()):
            continue
        if isinstance(value, str) and _NAMES_CODE.get(option, lambda _: False)(value):
            allowed = "a built-in one: a file never says what runs"
            advice = f"Type it, if you trust that function: --{option} {value}"
            raise ArgumentError(argument, f"{file}, {key} = {value}", allowed, advice)
        defaults[parameters[option].name] = value
    return defaults


def _check(argument: str, key: str, value: Any, parameter: Any) -> None:
    """Returns only if the value is of the kind that the parameter takes, where Typer would not ask.

    Raises:
        ArgumentError: a list for one value, one value for a list, or a truth value for another one.
    """
    repeats, flag = (
        bool(getattr(parameter, "multiple", False)),
        bool(getattr(parameter, "is_flag", False)),
    )
    if isinstance(value, list) != repeats:
        allowed = 'a list, such as ["A", "B"]' if repeats else "one value, not a list"
        raise ArgumentError(argument, key, allowed)
    if isinstance(value, bool) != flag:
        allowed = "true or false" if flag else "a value, not true or false"
        raise ArgumentError(argument, f"{key} = {str(value).lower()}", allowed)


CONFIG = "config_file"
"""Name of the parameter of commands."""

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of these options; those on the command line win.",
        callback=load_options,
        is_eager=True,
    ),
]
