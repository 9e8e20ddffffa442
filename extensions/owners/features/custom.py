"""A function of one's own, by its dotted name."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from extensions.errors import ArgumentError
from extensions.owners.features.extractor import Extractor


def make(text: str) -> Extractor:
    """Returns the extractor ``module:function``.

    The function takes a batch of records (`extensions.owners.data.Raw`) and returns an array
    (batch, features). Each row must be a function of its own record alone: nothing may be fitted to
    the records (no mean, scaling, vocabulary or principal components of theirs), since all that is
    learned from them is a release that nothing accounts for. A part of this is checked: the first
    records get the same rows alone as together.

    Features are kept on disk only if the function has an attribute ``version``, a string that is
    another whenever its results are.

    Raises:
        ArgumentError: no such module or function; the working folder is searched too.
    """
    module, _, name = text.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        function: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(
            "features", text, "the name of a function that can be imported", f"{error}."
        ) from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise ArgumentError("features", text, "the name of a function")
    stated = getattr(function, "version", None)
    return Extractor(
        name=text,
        kinds=("images", "table", "texts"),
        function=function,
        identity=None if stated is None else {"version": str(stated)},
        checks_rows=True,
    )
