"""TF Encrypted's tests of ABY3 on `tfe_ext.ABY3`; each player has a device of its own.

Run as ``python -m tests.hosts.tf_encrypted_tests FOLDER RESULTS enabled CLASS[.TEST] ...``.
"""

import sys
import unittest
from pathlib import Path
from types import ModuleType

from tests.hosts.results import run

PARTS = ("TestABY3",)
"""What runs if nothing is named: the class that has all tests."""

ROUNDS = ("n = 100000", "n = 2000")
"""Of `test_error`, which counts wrong truncations and asserts nothing."""


def load(folder: Path) -> ModuleType:
    """Returns the host's module of tests, in which ABY3 is ours."""
    import tfe_ext

    import tf_encrypted as tfe
    from tf_encrypted.protocol import aby3

    tfe.set_config(tfe_ext.local_config("input-provider"))
    tfe.set_protocol(tfe_ext.ABY3())
    aby3.ABY3 = tfe_ext.ABY3
    file = folder / "tf_encrypted" / "protocol" / "aby3" / "aby3_test.py"
    text = file.read_text()
    assert text.count(ROUNDS[0]) == 1
    module = ModuleType("aby3_test")
    exec(compile(text.replace(*ROUNDS), str(file), "exec"), vars(module))
    return module


def main() -> None:
    """Runs what is named."""
    folder, out, _, *names = sys.argv[1:]
    module = load(Path(folder))
    loader = unittest.TestLoader()
    run(unittest.TestSuite(loader.loadTestsFromName(name, module) for name in names), Path(out))


if __name__ == "__main__":
    main()
