"""What installed distributions offer under an entry point group, loaded quietly."""

import ast
import functools
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import InspectLoader
from importlib.machinery import PathFinder
from typing import Any

from extensions.errors import ArgumentError


@functools.cache
def offered(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the entry points of a group by name; nothing is imported."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def check_offered(group: str, argument: str, name: str) -> None:
    """Checks that some installed distribution offers the name of an argument."""
    if name not in offered(group):
        raise ArgumentError(
            argument,
            name,
            f"one of {sorted(offered(group))}",
            "Type in your clone of PEA: pip install .",
        )


def load(group: str, argument: str, name: str) -> Any:
    """Returns what the entry point of that name leads to; MissingExtraError without its host."""
    check_offered(group, argument, name)
    return import_from(offered(group)[name])


def import_from(point: importlib.metadata.EntryPoint) -> Any:
    """Returns what an entry point leads to."""
    with quiet_unless_it_fails():
        return point.load()


@functools.cache
def statements(module: str) -> list[ast.stmt]:
    """Returns the statements of a module, which is not imported, nor is any package of it."""
    path, name, spec = None, "", None
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return []
        path = spec.submodule_search_locations
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return []
    return ast.parse(spec.loader.get_source(module) or "").body


@contextmanager
def quiet_unless_it_fails() -> Iterator[None]:
    """Keeps what hosts print while they are imported, and shows it only if that fails."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except BaseException:
            kept.seek(0)
            os.write(shown, kept.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(shown, 2)
            os.close(shown)
