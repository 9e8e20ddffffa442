"""The report of a training run, with the same keys for every backend."""

from typing import Any

from extensions.accounting import Ledger
from extensions.config import TrainConfig
from extensions.fixed_point import Reals
from extensions.initialization import AVERAGING
from extensions.providers import DEALINGS


def result(
    config: TrainConfig,
    *,
    accuracy: float,
    ledger: Ledger,
    rounds: int,
    bytes_per_party: int,
    seconds: float,
    opened: list[str],
    parameters: list[tuple[Reals, Reals]] | None,
    correction_bytes: int | None = None,
) -> dict[str, Any]:
    """Returns the report.

    Args:
        config: resolved settings.
        accuracy: on held-out records.
        ledger: what was spent.
        rounds: of training, its start included.
        bytes_per_party: of training, sent and received among the parties.
        seconds: in all.
        opened: what was opened.
        parameters: the opened model, or None where it stays shared.
        correction_bytes: of training, from the dealer to the last party; None without a dealer.
    """
    delta = config.delta if config.private else None
    return {
        "accuracy": accuracy,
        "epsilon": None if delta is None else ledger.get_epsilon(delta),
        "delta": delta,
        "steps": config.steps,
        "rounds": rounds,
        "bytes_per_party": bytes_per_party,
        "seconds": round(seconds, 3),
        "parties": config.parties,
        "backend": config.backend,
        "provider": DEALINGS[config.provider].title if config.backend == "crypten" else None,
        "correction_bytes": correction_bytes,
        "data": config.data,
        "features": config.features,
        "opened": opened,
        "model": config.model,
        "loss": config.loss,
        "noise_multiplier": config.noise_multiplier if config.private else None,
        "sample_rate": config.sample_rate,
        "init": config.init,
        "noise_multiplier_init": config.noise_multiplier_init,
        "init_steps": None if config.strategy is None else config.local_steps,
        "init_weighting": config.init_weighting if config.init in AVERAGING else None,
        "insecure_seed": config.insecure_seed,
        "parameters": parameters,
    }
