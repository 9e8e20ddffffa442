"""CrypTen's own tests after `crypten_ext.enable()`, in processes as its tests start them.

Run as ``python -m tests.hosts.crypten_tests FOLDER RESULTS KIND MODULE[.CLASS[.TEST]] ...``; the
kind is "enabled", or "stock", which leaves CrypTen as it is. Processes are forked from one that has
imported all, where the host's tests import anew in each.
"""

import importlib
import logging
import multiprocessing
import sys
import unittest
import warnings
from pathlib import Path
from types import SimpleNamespace

from tests.hosts.results import run

PARTS = (
    "test_arithmetic",
    "test_autograd",
    "test_baseOT",
    "test_binary",
    "test_common",
    "test_communicator",
    "test_context",
    "test_crypten",
    "test_debug",
    "test_distributions",
    "test_optim",
)
"""The host's files that run if none are named.

`test_cuda` needs a GPU, `test_tensorboard` TensorBoard, and `test_benchmark` measures; the others,
`test_gradients`, `test_models`, `test_mpc`, `test_nn`, `test_onnx_converter` and
`test_privacy_models`, take long, and run by ``--tests``, also by class: ``test_mpc.TestTFP``.
"""


def main() -> None:
    """Runs what is named."""
    folder, out, kind, *names = sys.argv[1:]
    sys.path.insert(0, folder)
    import torch

    import crypten_ext

    torch.set_num_threads(1)  # threads of before do not come along into a process that is forked
    if kind == "enabled":
        crypten_ext.enable()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    cases = importlib.import_module("test.multiprocess_test_case")
    assert str(cases.__file__).startswith(folder), cases.__file__
    forked = multiprocessing.get_context("fork")
    vars(cases)["multiprocessing"] = SimpleNamespace(get_context=lambda method: forked)
    loader = unittest.TestLoader()
    run(unittest.TestSuite(loader.loadTestsFromName(f"test.{name}") for name in names), Path(out))


if __name__ == "__main__":
    main()
