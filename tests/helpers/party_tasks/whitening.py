"""What the parties of test_whitening.py do."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import crypten_ext
from crypten_ext.nn import optim
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.run.host import CrypTenHost
from extensions.privacy.randomness import SystemSource
from extensions.protocols import pea
from extensions.protocols.host import Traffic
from extensions.protocols.noisy_sums.whitening import Whitening, open_whitening
from tests.helpers.owned_rows import announced
from tests.helpers.party_tasks.protocols import outcome, session


def opened(context: Context, *, rows: Sequence[Any], sigma: float) -> tuple[list[Any], Traffic]:
    """Returns a noisy Gram matrix of all parties' rows, and the traffic of a further one."""
    host = CrypTenHost(20, SystemSource())
    own = np.array(rows[host.ranks[0]], dtype=np.int64)
    keep, records = pea.RunCallbacks(host), announced([own], [*map(len, rows)])

    def whitening() -> Whitening:
        return open_whitening(
            host, keep, records, max_feature_norm=1.0, noise_multiplier=sigma, ridge=1.0
        )

    found, meter = whitening(), Meter()
    whitening()
    return [part.tolist() for part in found.parts], meter.read()


def whitened(
    context: Context, *, x: Any, noise_multiplier: float, max_feature_norm: float = 1.0
) -> dict[str, Any]:
    """Returns what a script gets that whitens its features, and makes a batch of them."""
    with session():
        model = crypten_ext.nn.Linear(4, 2).encrypt()
        optimizer = optim.DPSGD(model, 1.0, 1.0, 2.0, 0.5)
        found: list[Any] = []
        earlier = optimizer.state_dict()
        meter = Meter()
        refused = outcome(
            lambda: found.append(
                crypten_ext.whiten(
                    x,
                    ledger=optimizer.ledger,
                    noise_multiplier=noise_multiplier,
                    max_feature_norm=max_feature_norm,
                )
            )
        )
        rounds = meter.read().rounds
        if not found:
            return {"refused": refused, "ledger": optimizer.ledger.to_json()}
        (whitening,) = found
        optimizer.load_state_dict(earlier)  # as a script does that goes on; what was opened stays
        rows = None if x is None else whitening.rows(np.array(x))
        labels = None if x is None else [0] * len(x)
        batches = crypten_ext.poisson_batches(rows, labels, sample_rate=0.5, steps=1, classes=2)
        return {
            "refused": refused,
            "rounds": rounds,
            "parts": [part.tolist() for part in whitening.parts],
            "ridge": whitening.ridge,
            "rows": None if rows is None else rows.tolist(),
            "batch": [tuple(part.size()) for part in next(batches)],
            "ledger": optimizer.ledger.to_json(),
            "epsilon": optimizer.get_epsilon(1e-5),
        }
