"""Tasks for the tests of the helpers themselves; no framework is imported."""

import os


def echo(value: str) -> str:
    return value


def fail() -> None:
    raise LookupError("the task's own error")


def die() -> None:
    os._exit(3)
