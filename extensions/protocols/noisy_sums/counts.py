"""How many predictions are wrong: what is opened of records, and what that costs them."""

from extensions.layers.evaluation import count_misses
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import hidden_multiplier
from extensions.ring.interface import NoiseSource, Ring, Share

COUNTED = "count of correct predictions"
"""What ledgers call what is opened of records on which predictions are counted."""


def count_wrong(ring: Ring, logits: Share, targets: Share) -> Share:
    """Returns shares of the number of wrong predictions, (1,), with the ring's fractional bits.

    The arguments are those of `extensions.layers.evaluation.count_misses`. One record changes the
    number by 1 at most, whatever the model. The grid is that fine, so that discrete noise on it
    (`extensions.protocols.noise`) is accounted as continuous.
    """
    return count_misses(ring, logits, targets, ties="right").reshape(1) * (1 << ring.frac_bits)


def charge_counts(
    ledger: Ledger,
    deviation: float | None,
    source: NoiseSource | None = None,
    times: int = 1,
    noise_failure: float = 0.0,
) -> None:
    """Records so many counts: each is a Gaussian mechanism of the noise over what a record changes.

    Args:
        deviation: of the noise that remains, in records; None for an exact count, which costs what
            no ledger can say.
        source: of the noise. If anybody may know it, the count costs as much as an exact one.
        noise_failure: how probable it is that their noise is not what it should be.
    """
    ledger.record(
        COUNTED,
        noise_multiplier=hidden_multiplier(deviation or 0.0, source),
        sample_rate=1.0,
        steps=times,
        overflow_probability=noise_failure,
    )
