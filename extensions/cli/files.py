"""Options of a command from files: --config, and the report of --again; what is typed wins."""

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.options.kinds import without_tables
from extensions.options.leaves import Leaf, Typed

CONFIG, AGAIN = "config", "again"
OPTIONS = "options"  # of a run, in its report


_OF_ONE_RUN = (
    *("config", "again", "json", "verbose", "save", "timeout", "material"),
    *("checkpoint", "checkpoint-every", "resume"),
)


@dataclass(frozen=True)
class Merged:
    """What a command is given in all ways.

    Attributes:
        texts: as it was typed, by the keys of options.
        sources: of those that were not, the file.
        report: of the run that is repeated; empty without one.
    """

    texts: Mapping[str, Any]
    sources: Mapping[str, str]
    report: Mapping[str, Any]


def merged(leaves: Sequence[Leaf], typed: Mapping[str, Any]) -> Merged:
    """Returns what is typed, or else in the file of --config, or in the report of --again.

    Raises:
        ArgumentError: a file that is none; in it an unknown option, with the nearest one, a value
            of another kind, or a function that would be imported, unless it is typed.
    """
    texts, sources, report = dict(typed), dict[str, str](), dict[str, Any]()
    found = []
    if (config := _path(typed, CONFIG)) is not None:
        found.append((CONFIG, config, parsed(CONFIG, config, tomllib.loads, "a file of TOML")))
    if (again := _path(typed, AGAIN)) is not None:
        report = parsed(AGAIN, again, json.loads, "a report")
        options = report.get(OPTIONS) if isinstance(report, dict) else None
        if not isinstance(options, dict):
            rule = "a report of `pea train`, with its options"
            raise ArgumentError(AGAIN, str(again), rule, code="file")
        found.append((AGAIN, again, options))
    for argument, path, given in found:
        for key, value in _by_key(leaves, typed, argument, path.name, given).items():
            if key not in texts:
                texts[key], sources[key] = value, path.name
    return Merged(texts, sources, report)


def _path(typed: Mapping[str, Any], key: str) -> Path | None:
    return Path(typed[key]) if key in typed else None


def parsed(argument: str, path: Path, loads: Callable[[str], Any], kind: str) -> Any:
    """Returns what a file's text holds; raises ArgumentError if it is not of that kind."""
    try:
        return loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(argument, str(path), kind, f"{error}.", code="file") from error


def _by_key(
    leaves: Sequence[Leaf],
    typed: Mapping[str, Any],
    argument: str,
    file: str,
    given: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the texts of a file's options, which have hyphens or underscores."""
    known = {leaf.word: leaf for leaf in leaves if leaf.key not in (CONFIG, AGAIN)}
    texts = {}
    for key, value in without_tables(leaves, given).items():
        word = key.replace("_", "-")
        if word not in known or isinstance(value, dict):
            near = difflib.get_close_matches(word, known, n=1)
            hint = "".join(f"Did you mean {one}?" for one in near)
            raise ArgumentError(argument, f"{file}, {key}", "", hint, code="key")
        leaf = known[word]
        _check_kind(argument, f"{file}, {key}", value, leaf)
        if leaf.key in typed:
            continue
        if isinstance(value, str) and _names_code(word, value):
            raise ArgumentError(
                argument,
                f"{file}, {key} = {value}",
                "a built-in one, because a file never says what runs",
                f"If you trust that function, type: {{{leaf.name}={value}}}",
            )
        texts[leaf.key] = [*map(_text, value)] if isinstance(value, list) else _text(value)
    return texts


def _names_code(word: str, value: str) -> bool:
    """Whether an option's value names a function, which is then imported and called."""
    from extensions.data.features import names_function
    from extensions.layers.models.custom import is_custom  # take a while, and help needs none

    return (word == "features" and names_function(value)) or (word == "model" and is_custom(value))


def _text(value: Any) -> Any:
    return value if isinstance(value, bool) else str(value)


def _check_kind(argument: str, key: str, value: Any, leaf: Leaf) -> None:
    """Raises ArgumentError unless the value is of the kind that the option takes."""
    if isinstance(value, list) != leaf.repeats:
        rule = 'a list, such as ["A", "B"]' if leaf.repeats else "a single value"
        raise ArgumentError(argument, key, rule, code="data")
    if isinstance(value, bool) != leaf.is_flag:
        rule = "true or false" if leaf.is_flag else "a value other than true or false"
        raise ArgumentError(argument, f"{key} = {str(value).lower()}", rule, code="data")


def options_of(typed: Typed) -> dict[str, Any]:
    """Returns what the report of a run has of its options: those that were given in any way.

    Left out are those of one run alone: where results and checkpoints go, how long it may take,
    and material, which is of use once.
    """
    given = {name: _json(value) for name, value in typed.options.items() if name not in _OF_ONE_RUN}
    return {OPTIONS: given}


def _json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_json, value)]
    return str(value) if isinstance(value, Path) else value
