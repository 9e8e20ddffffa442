"""CrypTen's own tests after `crypten_ext.enable()`, in processes as its tests start them.

Run as ``python -m tests.hosts.crypten_tests FOLDER RESULTS [MODULE.CLASS.TEST ...]``. Processes are
forked from one that has imported all, where the host's tests import anew in each.
"""

import importlib
import logging
import multiprocessing
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

from tests.hosts.results import run

MODULES = ("test_binary", "test_communicator", "test_context")
"""Bits, what carries shares, and who has which generators: where `enable` takes a hand in."""


def main() -> None:
    """Runs all tests, or those that are named."""
    folder, out, *names = sys.argv[1:]
    sys.path.insert(0, folder)
    import torch

    import crypten_ext

    torch.set_num_threads(1)  # threads of before do not come along into a process that is forked
    crypten_ext.enable()
    logging.disable(logging.INFO)
    cases = importlib.import_module("test.multiprocess_test_case")
    assert str(cases.__file__).startswith(folder), cases.__file__
    forked = multiprocessing.get_context("fork")
    vars(cases)["multiprocessing"] = SimpleNamespace(get_context=lambda method: forked)
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(
        loader.loadTestsFromName(f"test.{name}") for name in names or MODULES
    )
    run(suite, Path(out))


if __name__ == "__main__":
    main()
