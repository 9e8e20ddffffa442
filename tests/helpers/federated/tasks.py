"""What tests of federated learning run in worker processes."""

import os
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class MortalCrossEntropy:
    """The mean cross-entropy, from a process that may be told to die.

    Attributes:
        end: the file whose existence ends every process but the tests' own.
        survivor: the process of the tests.
    """

    end: Path
    survivor: int

    def __call__(self, outputs: Tensor, labels: Tensor) -> Tensor:
        if self.end.exists() and os.getpid() != self.survivor:
            os._exit(3)
        return cross_entropy(outputs, labels)
