"""A function of one's own, by its dotted name, and digests of what it is made of."""

import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from extensions.data.features.extractor import Extractor
from extensions.errors import ArgumentError
from extensions.user_functions import user_function

_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_OURS = __name__.partition(".")[0]


def make(text: str) -> Extractor:
    """Returns the extractor ``module:function``.

    The function takes a batch of records (`extensions.data.datasets.Raw`) and returns an array
    (batch, features). Each row must be a function of its own record alone: nothing may be fitted to
    the records (no mean, scaling, vocabulary or principal components of theirs), since all that is
    learned from them is a release that nothing accounts for. A part of this is checked: the first
    records get the same rows alone as together.

    Features are kept on disk only if the function has an attribute ``version``, a string that is
    another whenever its results are.

    Owners compare digests of the source of the function's module, of the modules beside it that it
    uses, and of its weights: its attribute ``weights``, the path of a file or a list of them.
    """
    function = user_function("features", text)
    stated = getattr(function, "version", None)
    return Extractor(
        name=text,
        kinds=("images", "table", "texts"),
        function=function,
        identity=None if stated is None else {"version": str(stated)},
        checks_rows=True,
        sources=_sources(function, text.partition(":")[0]),
    )


def _sources(function: Any, module: str) -> dict[str, str]:
    """Returns digests of the modules that a function uses and of its weights, and never a path."""
    found = {}
    for used in _used(sys.modules[module]):
        if file := getattr(used, "__file__", None):
            found[f"source of {used.__name__}"] = _digest(Path(file).read_bytes())
    weights = getattr(function, "weights", None) or []
    paths = [weights] if isinstance(weights, str | Path) else list(weights)
    for number, path in enumerate(paths, start=1):
        try:
            found[f"weights {number}"] = _digest(Path(path).read_bytes())
        except OSError as error:
            allowed = "a file that can be read"
            raise ArgumentError("weights", str(path), allowed, code="file") from error
    return found


def _used(first: ModuleType) -> list[ModuleType]:
    """Returns a module, and all that it uses which are neither installed nor ours, by name."""
    known = {first.__name__: first}
    waiting = [first]
    while waiting:
        for name in _names(waiting.pop()):
            module = sys.modules.get(name)
            if module is not None and name not in known and _is_own(module):
                known[name] = module
                waiting.append(module)
    return [known[name] for name in sorted(known)]


def _names(module: ModuleType) -> Iterator[str]:
    """Yields the names of modules that a module has, or has something of."""
    for value in vars(module).values():
        name = value.__name__ if isinstance(value, ModuleType) else None
        name = name or getattr(value, "__module__", None)
        if isinstance(name, str):
            yield name


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    ours = module.__name__.partition(".")[0] == _OURS
    return isinstance(file, str) and not ours and not file.startswith(_INSTALLED)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
