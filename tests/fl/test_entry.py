"""What `import fl` offers, and what it says without what its extra installs."""

import subprocess
import sys

import pytest

import fl
from tests.helpers.paths import ROOT

NAMES = """
AdaptiveClipping CSVWriter CentralDP ChainAggregator ClientResult ClientRound Coalition
DistributedDP FedAdagrad FedAdam FedAvgM FedYogi FederatedAveraging FixedPoint LocalDP
MaskedAggregator MetricsLogger PaillierAggregator PlainAggregator RandomSubset RecordDP
RobustAggregator SignDS SparseGraph TensorBoardWriter UpdateError __version__ algorithms
datasets models partition partition_by tokens
"""


def test_names_are_those_that_an_experiment_needs():
    assert sorted(fl.__all__) == NAMES.split()


def test_the_rest_is_in_two_modules_and_an_error_says_in_which():
    for place in (fl.protocols, fl.simulation):
        for name in place.__all__:
            if name not in fl.__all__:
                with pytest.raises(AttributeError, match=f"fl.{name} is {place.__name__}.{name}$"):
                    getattr(fl, name)
    with pytest.raises(AttributeError, match="'fl' has no attribute 'nothing'"):
        _ = fl.nothing
    assert issubclass(fl.protocols.RoundError, fl.protocols.PeaError)


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
