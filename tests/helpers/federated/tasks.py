"""What tests of federated learning run in worker processes."""

import os
from pathlib import Path

from torch import Tensor
from torch.nn.functional import cross_entropy

END = "FL_TEST_END"
"""Environment variable: the file whose existence ends every process but the tests' own."""


def mortal_cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy, from a process that may be told to die."""
    file, _, parent = os.environ[END].rpartition(":")
    if Path(file).exists() and os.getpid() != int(parent):
        os._exit(3)
    return cross_entropy(outputs, labels)
