"""Fields of dataclasses as they are stated: by the names of their options, in values of JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from extensions.options import Option
from extensions.protocols.agreement import Value
from extensions.runs.manifest.exemptions import PARTY_SPECIFIC, PRESENCE_ONLY

BY_RULE = " by rule"
"""How names end of what is stated of settings that nobody gave; the value of those not found."""


def comparable_settings(settings: Any) -> dict[str, Value]:
    """Returns all that parties must have in common of a dataclass.

    Fields that are dataclasses themselves, or mappings, are stated part by part. Raises TypeError
    for a field that is neither a value of JSON nor listed in `extensions.runs.manifest.exemptions`.
    """
    found: dict[str, Value] = {}
    hints = get_type_hints(type(settings), include_extras=True)
    for field in fields(settings):
        place = f"{type(settings).__name__}.{field.name}"
        value = getattr(settings, field.name)
        option = _option_of(hints[field.name])
        name = (option.name or field.name).replace("-", "_")
        if place in PRESENCE_ONLY:
            found[name] = value is not None
        if place == "TrainConfig.chosen":
            found |= {f"{each}{BY_RULE}": True for each in value}
            found |= {} if settings.settled else dict.fromkeys(value, BY_RULE.strip())
        elif is_dataclass(value):
            found |= comparable_settings(value)
        elif isinstance(value, Mapping):
            found |= flattened(value)
        elif place not in PARTY_SPECIFIC and place not in PRESENCE_ONLY:
            found |= flattened_value(name, not value if option.negated else value)
    return found


def flattened(facts: Mapping[str, Any]) -> dict[str, Value]:
    """Returns facts by their names, part by part."""
    found: dict[str, Value] = {}
    for name, value in facts.items():
        found |= flattened_value(name, value)
    return found


def flattened_value(name: str, value: Any) -> dict[str, Value]:
    """Returns a value under its name, and of a list or mapping each part under a name of its own.

    A list's parts are numbered from 1: ``column 1``. Raises TypeError for a value that JSON has
    not.
    """
    if value is None or isinstance(value, str | int | float):
        return {name: value}
    if isinstance(value, Mapping):
        parts = {f"{name}: {key}": each for key, each in value.items()}
    elif isinstance(value, Sequence):
        parts = {f"{name} {number}": each for number, each in enumerate(value, start=1)}
    else:
        raise TypeError(f"parties cannot compare {name}, a {type(value).__name__}")
    found: dict[str, Value] = {}
    for part, each in parts.items():
        found |= flattened_value(part, each)
    return found


def _option_of(hint: Any) -> Option:
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((mark for mark in marks if isinstance(mark, Option)), Option())
