"""What a script does that whitens with ABY3's servers."""

from typing import Any

import numpy as np

from extensions.privacy.randomness import SystemSource
from extensions.protocols import pea
from extensions.protocols.sums.gram import unit_rows
from extensions.protocols.sums.whitening import noisy_gram
from tests.helpers.tfe_tasks.session import PROTOCOL
from tfe_ext.run.host import ABY3Host


def opened(rows: list[Any], sigma: float) -> tuple[list[Any], int]:
    """Returns a noisy Gram matrix of all servers' rows, and the rounds of the servers for it."""
    host = ABY3Host(PROTOCOL, SystemSource())
    own = [unit_rows(np.array(each, dtype=np.int64), 2.0**20) for each in rows]
    found = noisy_gram(host, pea.Keep(host), own, sigma=sigma, total=sum(map(len, rows)))
    return [part.tolist() for part in found], host.traffic().rounds
