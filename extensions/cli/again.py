"""Runs that are repeated: a report keeps the options of its run, and another run takes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from extensions.cli.config_file import CONFIG, by_parameter
from extensions.errors import ArgumentError
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import listed, versions

OPTIONS = "options"
"""Where a report has those of its run."""

_OF_ONE_RUN = (
    *(CONFIG, "again", "json", "verbose", "save", "timeout", "material"),
    *("checkpoint", "checkpoint_every", "resume"),
)


@dataclass(frozen=True)
class Again:
    """What a run was asked for, and the report of the run that it repeats.

    Attributes:
        context: of the command.
        path: of the report, or None.
        report: what it says.
    """

    context: typer.Context
    path: Path | None
    report: Mapping[str, Any]

    def options(self) -> dict[str, Any]:
        """Returns by name, in values of JSON, the options that were given in any way.

        Left out are those of one run alone: where results and checkpoints go, how long it may take,
        and material, which is of use once.
        """
        return {
            name.replace("_", "-"): _json(value)
            for name, value in self.context.params.items()
            if name not in _OF_ONE_RUN and self._is_given(name)
        }

    def differences(self, config: TrainConfig) -> Iterator[str]:
        """Yields what differs from the repeated run though no option says it.

        Data, software, and settings that were chosen: by the same rule, of what is public now.
        """
        manifest = self.report.get("manifest")
        then = manifest.get("run") if isinstance(manifest, dict) else None
        if not isinstance(then, dict):
            return
        chosen = {name: getattr(config, name) for name in config.chosen}
        now = {**versions(()), **listed(config.facts), **chosen}
        for name in sorted(now.keys() & then.keys()):
            if now[name] != then[name]:
                yield f"{name} is {now[name]}; in the run that is repeated it was {then[name]}."

    def _is_given(self, name: str) -> bool:
        source = self.context.get_parameter_source(name)
        return source is not None and source.name != "DEFAULT"


def load_again(context: typer.Context, path: Path | None) -> Again:
    """The options of the report's run are the command's defaults when this returns.

    Raises:
        ArgumentError: no report, or one without options or with those of another command.
    """
    if path is None:
        return Again(context, None, {})
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError("again", str(path), "a report", f"{error}.") from error
    options = report.get(OPTIONS) if isinstance(report, dict) else None
    if not isinstance(options, dict):
        raise ArgumentError("again", str(path), "a report of `pea train`, with its options")
    found = by_parameter(context, "again", path.name, options)
    context.default_map = {**found, **(context.default_map or {})}
    return Again(context, path, report)


def _json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_json, value)]
    return str(value) if isinstance(value, Path) else value


AgainReport = Annotated[
    Any,
    typer.Option(
        "--again",
        parser=Path,
        metavar="<path>",
        help="Report (--json) of a run whose options are taken, and whose noise is drawn anew; "
        "those of the command line and of --config win.",
        callback=load_again,
        is_eager=True,
    ),
]
