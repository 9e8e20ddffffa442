"""CrypTen's own tests after `crypten_ext.enable()`, in processes as its tests start them.

Run as ``python -m tests.hosts.crypten_tests FOLDER RESULTS KIND MODULE[.CLASS[.TEST]] ...``; the
kind is "enabled", or "stock", which leaves CrypTen as it is. Processes are forked from one that has
imported all, where the host's tests import anew in each. After "tls:" they meet over TLS.
"""

import importlib
import logging
import multiprocessing
import os
import sys
import tempfile
import unittest
import warnings
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from extensions.runs.processes.credentials import Credentials, credentials_for
from tests.hosts.results import run

_TLS = "tls:"
PARTS = (
    "test_arithmetic",
    "test_autograd",
    "test_baseOT",
    "test_binary",
    "test_common",
    "test_communicator",
    "tls:test_communicator",
    "test_context",
    "test_crypten",
    "test_debug",
    "test_distributions",
    "test_gradients.TestPTT",
    "test_gradients.TestTFP",
    "test_gradients.TestTTP",
    "test_mpc.Test3PC",
    "test_mpc.TestRSS",
    "test_mpc.TestTFP",
    "test_mpc.TestTTP",
    "test_nn",
    "test_onnx_converter",
    "test_optim",
    "test_privacy_models",
    "test_tensorboard",
)
"""The host's files, and those that take long by class, of which `TestPTT` must be alone: it
initialises CrypTen in the process from which other tests fork theirs.

`test_cuda` needs a GPU, and the host itself skips every test of `test_benchmark` and `test_models`.
"""


def notice_deaths(case: Any) -> None:
    """A test whose process died fails; the host's case asks for exceptions alone.

    Args:
        case: the class of the host's tests that start processes.
    """
    join = case._join_processes

    def join_all(self: Any, fn: Any) -> None:
        join(self, fn)
        died = {process.name: process.exitcode for process in self.processes if process.exitcode}
        assert not died, f"processes died, with these exit statuses: {died}"

    case._join_processes = join_all


def meet_over_tls(case: Any) -> None:
    """Parties of the host's tests communicate over TLS, with keys that are made for each test.

    Args:
        case: the class of the host's tests that start processes.
    """
    from crypten_ext.transport.meeting import join_if_listening

    import crypten

    given: list[Credentials] = []
    set_up, init = case.setUp, crypten.init

    def set_up_seats(self: Any, world_size: int = case.DEFAULT_WORLD_SIZE) -> None:
        if self.rank == self.MAIN_PROCESS_RANK:
            stack = ExitStack()
            self.addCleanup(stack.close)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            given[:] = stack.enter_context(credentials_for("tls", Path(folder), world_size))
        set_up(self, world_size)

    def meet() -> None:
        seat = given[int(os.environ["RANK"])]
        os.environ.update(seat.env)
        join_if_listening([*map(str, seat.descriptors)])
        init()
        assert os.environ["DISTRIBUTED_BACKEND"] == "pea"

    case.setUp, vars(crypten)["init"] = set_up_seats, meet


def main() -> None:
    """Runs what is named."""
    folder, out, kind, *parts = sys.argv[1:]
    names = [part.removeprefix(_TLS) for part in parts]
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
    notice_deaths(vars(cases)["MultiProcessTestCase"])
    if names != parts:
        meet_over_tls(vars(cases)["MultiProcessTestCase"])
    loader = unittest.TestLoader()
    run(unittest.TestSuite(loader.loadTestsFromName(f"test.{name}") for name in names), Path(out))


if __name__ == "__main__":
    main()
