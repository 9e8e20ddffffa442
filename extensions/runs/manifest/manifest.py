"""The statement of everything public of a run."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import extensions
from extensions.protocols.agreement import Statement
from extensions.public import Public
from extensions.runs.config import TrainConfig
from extensions.runs.manifest.statement import BY_RULE, comparable_settings, flattened
from extensions.runs.options import RunOptions

PROTOCOL = 1
"""What parties say to each other: another number whenever that changes."""

_SOFTWARE = ("numpy", "dp-accounting")
_NO_TUPLES = (
    *("backend", "provider", "data", "features", "seed_data"),
    *("evaluate", "count_noise", "insecure_fixed_randomness"),
    *("data_kind", "cheap", "epochs"),
)
"""Settings on which no prepared tuple depends: some are not known where tuples are dealt."""
_OF_TABLES = ("column ", "class ", "schema ")
"""How names of what is public of a table begin, likewise."""


def manifest_of(
    config: TrainConfig, options: RunOptions, own: Public, software: Sequence[str] = ()
) -> Statement:
    """Returns what a party states: of its records the recipe and the number of columns.

    Where owners have other columns of the same persons, it is the number of these instead.

    `software` are distributions that the host is made of.
    """
    run = settings_of(config, software)
    if config.split == "columns":  # they are owners' own, but persons and their order are common
        del run["features"]
        run |= {"persons": own.records, "held-out persons": own.held_out}
    else:
        run |= {**flattened(own.recipe), "columns": own.features}
    return Statement(run=run, start=comparable_settings(options))


def settings_of(config: TrainConfig, software: Sequence[str] = ()) -> dict[str, Any]:
    """Returns what is stated of a run whatever its records are: settings, and versions."""
    return {**comparable_settings(config), **versions(software)}


def of_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of `settings_of` decides which tuples a run needs, beside sizes of records."""
    decides = {
        name: value
        for name, value in settings.items()
        if not (name in _NO_TUPLES or name.startswith(_OF_TABLES) or name.endswith(BY_RULE))
    }
    return decides | {"counted": settings["evaluate"] != "none"}


def versions(software: Sequence[str]) -> dict[str, str | int]:
    """Returns the versions of our software and protocol, and of what they are built on."""
    found: dict[str, str | int] = {
        "protocol": PROTOCOL,
        "version of pea-mpl": extensions.__version__,
    }
    for name in (*_SOFTWARE, *software):
        try:
            found[f"version of {name}"] = version(name).partition("+")[0]  # whatever the build
        except PackageNotFoundError:
            found[f"version of {name}"] = "unknown"
    return found


def differences(then: Any, config: TrainConfig) -> Iterator[str]:
    """Yields what differs from a run that is repeated though no option says it.

    Data, software, and settings that were chosen: by the same rule, of what is public now. `then`
    is the manifest in that run's report.
    """
    before = then.get("run") if isinstance(then, dict) else None
    if not isinstance(before, dict):
        return
    chosen = {name: getattr(config, name) for name in config.chosen}
    now = {**versions(()), **flattened(config.facts), **chosen}
    for name in sorted(now.keys() & before.keys()):
        if now[name] != before[name]:
            yield f"{name} is {now[name]}; in the run that is repeated it was {before[name]}."
