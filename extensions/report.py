"""The report of a training run, with the same keys for every backend."""

from typing import Any

from extensions.accounting import Ledger
from extensions.config import TrainConfig
from extensions.fixed_point import Reals


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
) -> dict[str, Any]:
    """Returns the report; `parameters` holds the opened model, or None where it stays shared."""
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
        "data": config.data,
        "opened": opened,
        "model": config.model,
        "noise_multiplier": config.noise_multiplier if config.private else None,
        "sample_rate": config.sample_rate,
        "insecure_seed": config.insecure_seed,
        "parameters": parameters,
    }
