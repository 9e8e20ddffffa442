"""The report of a training run, with the same keys for every backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from extensions.privacy.accounting import Ledger
from extensions.protocols.host import Traffic
from extensions.protocols.initialization import AVERAGING
from extensions.ring.fixed_point import Reals
from extensions.runs.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run.

    Attributes:
        accuracy: on held-out records.
        ledger: what was spent on the model, in all processes.
        traffic: of training, its start included, of one party.
        seconds: of this process.
        opened: what was opened.
        parameters: the opened model, or None where it stays shared.
        resumed_from: steps from which an interrupted run was continued, in order.
    """

    accuracy: float
    ledger: Ledger
    traffic: Traffic
    seconds: float
    opened: Sequence[str]
    parameters: Sequence[tuple[Reals, Reals]] | None
    resumed_from: Sequence[int] = ()


def result(config: TrainConfig, outcome: Outcome) -> dict[str, Any]:
    """Returns the report of a run with these resolved settings.

    Whoever deals correlated randomness, the host adds as "provider".
    """
    delta = config.delta if config.private else None
    return {
        "accuracy": outcome.accuracy,
        "epsilon": None if delta is None else outcome.ledger.get_epsilon(delta),
        "delta": delta,
        "steps": config.steps,
        "resumed_from": list(outcome.resumed_from) or None,
        "rounds": outcome.traffic.rounds,
        "bytes_per_party": outcome.traffic.bytes,
        "seconds": round(outcome.seconds, 3),
        "parties": config.parties,
        "backend": config.backend,
        "provider": None,
        "correction_bytes": outcome.traffic.corrections,
        "data": config.data,
        "features": config.features,
        "opened": list(outcome.opened),
        "model": config.model,
        "loss": config.loss,
        "noise_multiplier": config.noise_multiplier if config.private else None,
        "sample_rate": config.sample_rate,
        "init": config.init,
        "noise_multiplier_init": config.noise_multiplier_init,
        "init_steps": None if config.strategy is None else config.local_steps,
        "init_weighting": config.init_weighting if config.init in AVERAGING else None,
        "insecure_seed": config.insecure_seed,
        "parameters": outcome.parameters,
    }
