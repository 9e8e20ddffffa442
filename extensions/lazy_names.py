"""Names of a package that are imported when they are first used.

    __getattr__, __dir__ = lazy_names(__name__, {"package.module": ("name",)}, check_installed)

Type checkers read the same imports under ``if TYPE_CHECKING:``, each ``name as name``.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]], check_installed: Callable[[], None]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's ``__getattr__`` and ``__dir__``; its modules are attributes, too.

    `modules` has the names, which are the package's ``__all__``, by the module that they are
    imported from; `check_installed` is called before.
    """
    places = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name == "__all__":
            return [*places]
        if name in places:
            check_installed()
        if (module := places.get(name, package)) == package:
            whole = f"{package}.{name}"
            if name.startswith("_") or importlib.util.find_spec(whole) is None:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return importlib.import_module(whole)
        value = getattr(__import__(module, fromlist=[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places})

    return get, names
