"""What the parties of test_whitening.py do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import SystemSource
from extensions.protocols import pea
from extensions.protocols.host import Traffic
from extensions.protocols.sums.gram import unit_rows
from extensions.protocols.sums.whitening import noisy_gram


def opened(context: Context, *, rows: Sequence[Any], sigma: float) -> tuple[list[Any], Traffic]:
    """Returns a noisy Gram matrix of all parties' rows, and the traffic of a further one."""
    host = CrypTenHost(20, SystemSource())
    own = [unit_rows(np.array(rows[host.ranks[0]], dtype=np.int64), 2.0**20)]
    keep, total = pea.Keep(host), sum(map(len, rows))
    found = noisy_gram(host, keep, own, sigma=sigma, total=total)
    meter = Meter()
    noisy_gram(host, keep, own, sigma=sigma, total=total)
    return [part.tolist() for part in found], meter.read()
