"""One statement of everything public of a run, in one encoding, known by its digest."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import extensions
from extensions.errors import ArgumentError
from extensions.protocols.agreement import canonical
from extensions.public import Public
from extensions.runs.config import TrainConfig
from extensions.runs.manifest.statement import BY_RULE, Statement, listed, stated
from extensions.runs.options import RunOptions

PROTOCOL = 1
"""What parties say to each other: another number whenever that changes."""

_MAGIC = b"pea manifest 1\n"
_LARGEST = 16 << 20
_SOFTWARE = ("numpy", "dp-accounting")
_NO_TUPLES = (
    *("backend", "provider", "data", "features", "seed_data"),
    *("evaluate", "count_noise", "insecure_fixed_randomness"),
    *("data_kind", "cheap", "epochs"),
)
"""Settings on which no prepared tuple depends: some are not known where tuples are dealt."""
_OF_TABLES = ("column ", "class ", "schema ")
"""How names of what is public of a table begin, likewise."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything public of a run, as one party states it.

    Attributes:
        run: equal at all parties, and whenever the run goes on: settings, what is opened, how
            features were taken, columns, classes, scaling, and versions of the software.
        start: equal at all parties in one start or continuation.
    """

    run: Statement
    start: Statement

    @property
    def digest(self) -> str:
        """SHA-256 of the run's statement, in hexadecimal digits: what the run is known by."""
        return hashlib.sha256(_MAGIC + canonical(self.run)).hexdigest()

    @property
    def everything(self) -> dict[str, Any]:
        """Both statements, as parties compare them."""
        return {**self.run, **self.start}

    @property
    def kept(self) -> dict[str, Any]:
        """What reports and models keep: the digest, and the statement of the run."""
        return {"digest": self.digest, "run": dict(self.run)}

    def to_bytes(self) -> bytes:
        """Returns what another party reads."""
        return _MAGIC + canonical({"run": self.run, "start": self.start})

    @classmethod
    def from_bytes(cls, message: bytes, rank: int) -> "Manifest":
        """Returns what a party stated.

        Args:
            message: of `to_bytes`.
            rank: whose it is, for the error.

        Raises:
            ArgumentError: it is no manifest of this version.
        """
        refused = ArgumentError(
            "manifest",
            f"unreadable at party {rank}",
            f"one of pea-mpl {extensions.__version__}",
            "Install the same version at every party.",
        )
        if not message.startswith(_MAGIC) or len(message) > _LARGEST:
            raise refused
        try:
            said = json.loads(message[len(_MAGIC) :])
            return cls(run=_checked(said["run"]), start=_checked(said["start"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise refused from None


def manifest_of(
    config: TrainConfig,
    options: RunOptions,
    own: Public,
    software: Sequence[str] = (),
) -> Manifest:
    """Returns what a party states.

    Args:
        config: resolved settings.
        options: of this party.
        own: what is public of a party's records, of which the recipe and the number of columns are
            stated.
        software: distributions that the host is made of.
    """
    return Manifest(
        run={
            **settings_of(config, software),
            **listed(own.recipe),
            "columns": own.features,
        },
        start=stated(options),
    )


def settings_of(config: TrainConfig, software: Sequence[str] = ()) -> dict[str, Any]:
    """Returns what is stated of a run whatever its records are: settings, and versions.

    Args:
        config: resolved settings.
        software: distributions that the host is made of.
    """
    return {**stated(config), **versions(software)}


def of_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of `settings_of` decides which tuples a run needs, beside sizes of records."""
    decides = {
        name: value
        for name, value in settings.items()
        if not (name in _NO_TUPLES or name.startswith(_OF_TABLES) or name.endswith(BY_RULE))
    }
    return decides | {"counted": settings["evaluate"] != "none"}


def versions(software: Sequence[str]) -> dict[str, str | int]:
    """Returns the versions of our software and protocol, and of what they are built on.

    Args:
        software: further distributions.
    """
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


def _checked(statement: Any) -> Statement:
    values = [*statement.values()] if isinstance(statement, Mapping) else [()]
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        raise ValueError("no statement")
    return dict(statement)


def differences(then: Any, config: TrainConfig) -> Iterator[str]:
    """Yields what differs from a run that is repeated though no option says it.

    Data, software, and settings that were chosen: by the same rule, of what is public now.

    Args:
        then: the manifest of that run, as its report has it; None without one.
        config: of this one.
    """
    before = then.get("run") if isinstance(then, dict) else None
    if not isinstance(before, dict):
        return
    chosen = {name: getattr(config, name) for name in config.chosen}
    now = {**versions(()), **listed(config.facts), **chosen}
    for name in sorted(now.keys() & before.keys()):
        if now[name] != before[name]:
            yield f"{name} is {now[name]}; in the run that is repeated it was {before[name]}."
