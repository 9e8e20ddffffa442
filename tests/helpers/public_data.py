"""Public data sets, if this machine has them."""

import os
from pathlib import Path

import pytest

from extensions.data.datasets import find_folder
from extensions.data.datasets.folders import VARIABLE
from extensions.errors import ArgumentError

EXTRACTORS = Path(os.environ.get(VARIABLE, "")) / "extractors"
"""Folder of models that extract features, which may not be there."""


def public_data(name: str) -> Path:
    """Returns the folder of a public data set; skips the test where there is none."""
    try:
        return find_folder(name, None, download=False, files=name)
    except ArgumentError:
        pytest.skip(f"no {name} here: set {VARIABLE}")
