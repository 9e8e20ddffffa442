"""What is done around the first import of a module that is not ours."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class FirstImport:
    """Runs a module's code within a block, once, whoever imports it; a search imports nothing.

    What the block imports finds the module there, as in any circle of imports. If the import fails,
    the next one is the first. The base classes of finders and loaders take long to import.
    """

    def __init__(
        self, name: str, around: Callable[[ModuleType], AbstractContextManager[None]]
    ) -> None:
        """Waits for the import; `around` returns the block, of the module before its code runs."""
        self._name, self._around = name, around
        self._loader: Any = None
        sys.meta_path.insert(0, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Returns the module's own specification, with this as its loader."""
        if name != self._name:
            return None
        for finder in [one for one in sys.meta_path if one is not self]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    self._loader = spec.loader
                    spec.loader = self  # type: ignore[assignment]
                return spec
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Returns what the module's own loader does."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module's code in the block, and no other's from then on."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        with self._around(module):
            self._loader.exec_module(module)
        self.remove()

    def remove(self) -> None:
        """Waits no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
