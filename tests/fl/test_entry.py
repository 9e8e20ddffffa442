"""What `import fl` offers, and what it says without what its extra installs."""

import subprocess
import sys

import pytest

import fl
from extensions import errors
from tests.helpers.paths import ROOT

ERRORS = ("ArgumentError", "CiphertextError", "MessageError", "MissingExtraError", "PeaError")
ERRORS += ("RoundError", "UpdateError", "WorkerLostError")


@pytest.mark.parametrize("name", ERRORS)
def test_errors_that_users_catch_are_public(name):
    assert getattr(fl, name) is getattr(errors, name)
    assert name in fl.__all__
    assert issubclass(getattr(fl, name), fl.PeaError)


@pytest.mark.parametrize("package", ["torch", "gmpy2"])
@pytest.mark.parametrize("use", ["fl.FixedPoint", "from fl import models"])
def test_use_without_the_extra_names_it(package, use):
    """The package is not there, as far as Python can tell."""
    code = f"""
import fl
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name == {package!r} else found(name, *more)
try:
    {use}
except ImportError as error:
    print(type(error).__name__, error.name, "[fl]" in str(error))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["MissingExtraError", package, "True"]
