"""The report of a training run, with the same keys for every backend."""

from collections.abc import Sequence
from typing import Any

from extensions.privacy.accounting import Ledger
from extensions.protocols.initialization import AVERAGING
from extensions.ring.fixed_point import Reals
from extensions.runs.config import TrainConfig
from extensions.runs.providers import DEALINGS


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
    resumed_from: Sequence[int] = (),
) -> dict[str, Any]:
    """Returns the report.

    Args:
        config: resolved settings.
        accuracy: on held-out records.
        ledger: what was spent on the model, in all processes.
        rounds: of training, its start included, in this process.
        bytes_per_party: likewise, sent and received among the parties.
        seconds: of this process.
        opened: what was opened.
        parameters: the opened model, or None where it stays shared.
        correction_bytes: of training, from the dealer to the last party; None without a dealer.
        resumed_from: steps from which an interrupted run was continued, in order.
    """
    delta = config.delta if config.private else None
    return {
        "accuracy": accuracy,
        "epsilon": None if delta is None else ledger.get_epsilon(delta),
        "delta": delta,
        "steps": config.steps,
        "resumed_from": list(resumed_from) or None,
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
