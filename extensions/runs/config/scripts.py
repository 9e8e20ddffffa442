"""What a script takes where it chooses nothing: the settings that `pea train` finds for it."""

from collections.abc import Callable, Sequence

from extensions.privacy import accounting
from extensions.privacy.mechanisms import Neighbours, SubsampledGaussian
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.rules import Whole, one_of
from extensions.runs.config.defaults import CHOSEN
from extensions.runs.config.run_config import Kind
from extensions.runs.config.train import TrainConfig


def calibrate_noise(
    *,
    epsilon: float,
    delta: float,
    sample_rate: float,
    steps: int,
    overflow_probability: float = OVERFLOW_PROBABILITY,
    neighbours: Neighbours = "add-remove",
    beside: Sequence[SubsampledGaussian] = (),
) -> float:
    """Returns the smallest noise_multiplier for a given epsilon.

        noise = calibrate_noise(epsilon=2.0, delta=1e-5, sample_rate=0.1, steps=120)

    Args:
        epsilon: of all steps and of `beside` together; at most 10,000.
        delta: likewise; 1 / (10 records) is usual.
        sample_rate: the optimizer's.
        steps: number of steps.
        overflow_probability: that a batch of them is too small for its sample; by default that of
            the batches.
        neighbours: as in the optimizer's `get_epsilon`.
        beside: further costs on the same records, such as the phases of another ledger.

    Guarantees:
        The "pld" accountant's epsilon, which `get_epsilon` returns, is at most the one asked for,
        and the result at most 5e-5 (relative) above the smallest such noise.

    Raises:
        ArgumentError: an argument out of range, or no noise can give the guarantee.
        PrivacyWarning: a warning, of epsilon above 20.

    Examples:
        >>> noise = crypten_ext.calibrate_noise(epsilon=2.0, delta=1e-5, sample_rate=0.1, steps=120)
        >>> round(noise, 2)
        2.42
    """
    return accounting.calibrate_noise(
        epsilon=epsilon,
        delta=delta,
        sample_rate=sample_rate,
        steps=steps,
        overflow_probability=overflow_probability,
        neighbours=neighbours,
        beside=beside,
    )


def settings_of(
    kind: Kind,
    *,
    records: int,
    classes: int,
    epsilon: float,
    delta: float,
    parties: int,
    colluders: int,
    failure: Callable[[TrainConfig], float] = lambda _: 0.0,
) -> TrainConfig:
    """Returns the settings of a linear model's private training, of which a script chooses none.

    Args:
        kind: what the records are: "images", "texts" or "tables".
        records: number of all parties' training records.
        classes: number of classes.
        epsilon: of the whole training, whitening included.
        delta: likewise.
        parties: number of parties that add noise.
        colluders: how many of them may pool what they know.
        failure: that noise deviates over all steps from what is accounted.

    Raises:
        ArgumentError: a value out of range, or no noise gives that epsilon.
    """
    one_of(Kind).check("kind", kind)
    Whole(1).check("records", records)
    Whole(2).check("classes", classes)
    config = TrainConfig(
        backend="clear",
        data_kind=kind,
        classes=classes,
        epsilon=epsilon,
        delta=delta,
        parties=parties,
        colluders=colluders,
        chosen=tuple(name for name in CHOSEN if name != "loss"),
    )
    return config.resolving(records)(failure)
