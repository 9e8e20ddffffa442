"""Options of a command from a TOML file; those on the command line win."""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated

import typer

from extensions.errors import ArgumentError


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
    except (OSError, ValueError) as error:
        raise ArgumentError("config", str(path), "a file of TOML", f"{error}.") from error
    names = {
        option.removeprefix("--"): parameter.name
        for parameter in context.command.params
        for option in parameter.opts
        if option != "--config"
    }
    defaults = {}
    for key, value in given.items():
        option = key.replace("_", "-")
        if option not in names or isinstance(value, dict):
            near = difflib.get_close_matches(option, names, n=1, cutoff=0.0)
            raise ArgumentError(
                "config", f"{path.name}, {key}", "an option of this command", f"Nearest: {near[0]}."
            )
        if isinstance(value, list) and not _repeats(context, names[option]):
            raise ArgumentError("config", f"{path.name}, {key}", "one value, not a list")
        defaults[names[option]] = value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


def _repeats(context: typer.Context, name: str | None) -> bool:
    return any(each.name == name and each.multiple for each in context.command.params)


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of these options; those on the command line win.",
        callback=load_options,
        is_eager=True,
    ),
]
