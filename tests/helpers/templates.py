"""What CrypTen's parties are copies of: imported once for all tests of a worker.

Pools share a template with a block that is open around them. One is left open here around all
tests, for each kind that a test was the first to need, but for pools with variables of their own.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from extensions.runs.processes import Template

MARK = "PEA_TEST_RUN"
"""The variable by which what a command starts is found; a template is nobody's."""
Kind = tuple[tuple[str, ...], tuple[str, frozenset[Any]]]

_kept: dict[Kind, Template] = {}


@contextmanager
def kept_templates() -> Iterator[None]:
    """In the block templates stay, and end with it."""
    if importlib.util.find_spec("crypten") is None:
        yield
        return
    from crypten_ext.processes import launch

    share = launch.shared_template

    @contextmanager
    def shared(
        *modules: str, env: Mapping[str, str], key: tuple[str, frozenset[Any]]
    ) -> Iterator[Template]:
        if not key[1] and (modules, key) not in _kept:
            common = {name: value for name, value in env.items() if name != MARK}
            block = share(*modules, env=common, key=key)
            _kept[modules, key] = stack.enter_context(block)
        with share(*modules, env=env, key=key) as found:
            yield found

    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "shared_template", shared)
        stack.callback(_kept.clear)
        yield


def copies() -> set[int]:
    """Returns the ids of the live processes that are copies of a template that stays."""
    parents = {str(each._process.pid) for each in _kept.values()}
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat") if parents else ():
        try:
            state, parent, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if parent in parents and state not in "ZX":
            found.add(int(stat.parent.name))
    return found
