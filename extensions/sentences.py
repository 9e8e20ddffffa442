"""The sentences of errors: one for each code, made where somebody reads it.

An error has fields, and its sentence names arguments as its reader types them: in Python by their
names, in a command as options. So a rule or a hint has other arguments in braces: ``{delta}``, or
with a value ``{init=local}``.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol

_MUST = "{argument} must be {rule}, not {value}."

SENTENCES = {
    "value": _MUST,
    "range": _MUST,
    "choice": _MUST,
    "type": _MUST,
    "shape": _MUST,
    "file": _MUST,
    "missing": "{argument} must be given{rule}.",
    "conflict": "{given} cannot be given{rule}.",
    "either": "Give {rule}.",
    "fixed": "{argument} cannot be changed: {rule}.",
    "data": "{argument}: {value} must be {rule}.",
    "privacy": "Choose how private the run is: {rule}.",
    # What was typed.
    "unknown-command": "{value} is no command of {rule}.",
    "unknown-option": "{argument} is no option of {rule}.",
    "needed": "{rule} needs {argument}.",
    "no-value": "{argument} needs a value.",
    "flag-value": "{argument} is a flag and takes no value. Give it alone, or leave it out.",
    "doubled": "{argument} is given twice. Give it once.",
    "not-a-number": _MUST,
    "stray": "{value} belongs to no option of {rule}.",
    "key": "{argument}: {value} is no option of this command.",
    "needs": "{argument} needs {rule}.",
    # What a command writes.
    "same-file": "{argument} would replace {value}, which {rule} names. Choose another path.",
    "private-key": "{argument} would replace {value}, which has a private key. Choose another "
    "path.",
    "ledger": "{argument} would replace {value}, a ledger of `pea budget`, and what was spent "
    "would be forgotten. Choose another path.",
}
"""By code. A rule says what the value must be; of "missing" and "conflict" with what."""

_IN_WORDS = ("type", "shape", "data")
"""Codes whose texts as values are names of types, sizes and places, not what somebody typed."""

_MARK = re.compile(r"\{(\w+)(?:=([^{}]*))?\}")
_BARE = re.compile(r"-?[\d.]+(e-?\d+)?|True|False|None")

Spell = Callable[[str, str | None], str]
"""How an argument is typed, with a value or without one."""


class Fields(Protocol):
    """What an error says."""

    code: str
    argument: str
    value: Any
    rule: Any
    hint: str


def in_python(name: str, value: str | None = None) -> str:
    """Returns an argument as a caller in Python types it."""
    if value is None:
        return name
    return f"{name} = {value}" if _BARE.fullmatch(value) else f"{name} = {value!r}"


def sentence(error: Fields, spell: Spell = in_python) -> str:
    """Returns what an error says, in a sentence or two."""
    rule = spelled(str(error.rule), spell)
    argument = ", ".join(spell(name, None) for name in error.argument.split(", "))
    value, typed = error.value, isinstance(error.value, str | int | float)
    words = {
        "argument": argument,
        "given": spell(error.argument, str(value)) if typed else argument,
        "value": _shown(value, error.code),
        "rule": f" {rule}" if rule and error.code in ("missing", "conflict") else rule,
    }
    said = SENTENCES[error.code].format(**words)
    return f"{said} {spelled(error.hint, spell)}".rstrip()


def _shown(value: Any, code: str) -> str:
    """Returns a value as it is shown: in quotation marks only what somebody may have typed."""
    shown = repr(value)
    words = isinstance(value, str) and (code in _IN_WORDS or " " in value.strip())
    return shown[1:-1] if words and shown != value else shown


def spelled(text: str, spell: Spell = in_python) -> str:
    """Returns a text with the arguments that it has in braces as somebody types them."""
    return _MARK.sub(lambda found: spell(found[1], found[2]), text)
