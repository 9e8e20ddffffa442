"""Where public data sets are found, and where a user's files lie between runs."""

import os
from functools import partial
from pathlib import Path

from extensions.errors import ArgumentError
from extensions.machine import cache_home

VARIABLE = "PEA_DATA"
broken = partial(ArgumentError, "data_dir", code="file")
"""Makes the error of a public data set's files."""


def folders_of(name: str) -> list[Path]:
    """Returns where the public files of that name may lie, the first place to look in first.

    That is NAME in the folder of the variable PEA_DATA, if it is set, and ``pea/data/NAME`` in the
    user's cache.
    """
    here = os.environ.get(VARIABLE)
    return [*([Path(here) / name] if here else []), cache_home() / "data" / name]


def find_folder(name: str, given: Path | None, *, download: bool, files: str) -> Path:
    """Returns the folder of a public data set's files.

    That is the one that is given; else, unless they are to be downloaded, the folder NAME in the
    one that the variable PEA_DATA names; else ``pea/data/NAME`` in the user's cache
    (``XDG_CACHE_HOME``), where downloads go.
    """
    if given is not None:
        return given
    cached = cache_home() / "data" / name
    if download:
        return cached
    for folder in folders_of(name):
        if folder.is_dir():
            return folder
    advice = f"Set {VARIABLE} to a folder that holds {name}, or give {{download=True}}."
    raise broken(None, f"the folder that holds {files}", advice)
