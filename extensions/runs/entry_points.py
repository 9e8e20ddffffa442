"""What installed distributions offer under an entry point group, loaded quietly.

A module that says ``READ_APART = True`` is imported without the packages that hold it, whose
``__init__`` may import a host for seconds: then what it says of options, and what it refuses, needs
no host. Such a module imports what it runs inside its functions, and at its top no module of its
own packages but those that are apart themselves.
"""

import ast
import functools
import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import InspectLoader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from extensions.errors import ArgumentError

_MARK = "READ_APART"


@functools.cache
def offered(group: str) -> dict[str, importlib.metadata.EntryPoint]:
    """Returns the entry points of a group by name; nothing is imported."""
    return {point.name: point for point in importlib.metadata.entry_points(group=group)}


def check_offered(group: str, argument: str, name: str) -> None:
    """Returns only if some installed distribution offers the name.

    Raises:
        ArgumentError: none does; `argument` is what it is called there.
    """
    if name not in offered(group):
        raise ArgumentError(
            argument,
            name,
            f"one of {sorted(offered(group))}",
            "Type in your clone of PEA: pip install .",
        )


def load(group: str, argument: str, name: str) -> Any:
    """Returns what the entry point of that name leads to.

    Raises:
        ArgumentError: of `check_offered`.
        MissingExtraError: what it builds on is not installed; the message has the pip command.
    """
    check_offered(group, argument, name)
    return import_from(offered(group)[name])


def import_from(point: importlib.metadata.EntryPoint) -> Any:
    """Returns what an entry point leads to, apart from its packages if its module says so."""
    with quiet_unless_it_fails(), _without_packages(point.module):
        return point.load()


@functools.cache
def statements(module: str) -> list[ast.stmt]:
    """Returns the statements of a module, which is not imported, nor is any package of it."""
    *_, (_, spec) = _specs(module)
    if spec is None or not isinstance(spec.loader, InspectLoader):
        return []
    return ast.parse(spec.loader.get_source(module) or "").body


def _specs(module: str) -> Iterator[tuple[str, ModuleSpec | None]]:
    """Yields the packages of a module and the module, and where they are, the outermost first."""
    path, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}".lstrip(".")
        spec = PathFinder.find_spec(name, path)
        yield name, spec
        if spec is None:
            return
        path = spec.submodule_search_locations


def _is_apart(module: str) -> bool:
    return any(
        isinstance(line, ast.Assign)
        and [ast.unparse(target) for target in line.targets] == [_MARK]
        and ast.unparse(line.value) == "True"
        for line in statements(module)
    )


@contextmanager
def _without_packages(module: str) -> Iterator[None]:
    """Inside the block packages of a module that is apart are names alone, if none was imported."""
    package, _, _ = module.partition(".")
    if package in sys.modules or not _is_apart(module):
        yield
        return
    try:
        for name, spec in _specs(module):
            if spec is not None and spec.submodule_search_locations is not None:
                sys.modules[name] = ModuleType(name)
                sys.modules[name].__path__ = list(spec.submodule_search_locations)
        yield
    finally:  # each package is made by its own `__init__` when it is first imported from now on
        for name in [one for one in sys.modules if one.partition(".")[0] == package]:
            if hasattr(sys.modules[name], "__path__"):
                del sys.modules[name]


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
