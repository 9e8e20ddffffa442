"""Functions of the user's own, by ``module:function``."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError


def user_function(argument: str, text: str) -> Callable[..., Any]:
    """Returns the function of that name; its module is searched in the working folder too."""
    module, _, name = text.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        allowed = "the name of a function that can be imported"
        raise ArgumentError(argument, text, allowed, f"{error}.") from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ArgumentError(argument, text, "the name of a function", code="type")
    return function  # type: ignore[no-any-return]
