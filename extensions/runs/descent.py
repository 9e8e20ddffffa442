"""Plaintext DPSGD over the records of one or several owners, with a secure run's arithmetic."""

from collections.abc import Callable, Sequence

import numpy as np

from extensions.network.chain import Parameters, forward
from extensions.network.spec import ModelSpec
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, OwnRecords, capacity, draw_rows
from extensions.protocols.dpsgd import dpsgd_step
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import NoiseSource
from extensions.runs.config import TrainConfig


def descend(
    config: TrainConfig,
    records: Sequence[OwnRecords],
    parameters: Parameters,
    source: NoiseSource,
    after: Callable[[int, Parameters], None] = lambda step, parameters: None,
    *,
    made: int = 0,
    coins: np.random.Generator | None = None,
) -> Parameters:
    """Returns the parameters, ring integers, after `config.steps` steps.

    Args:
        config: resolved settings; `parties` decides over how many draws the noise is summed, and a
            single one draws all of it.
        records: every owner's training records.
        parameters: where it starts, ring integers.
        source: of sampling and noise.
        after: called with the number of steps done and the parameters, after each.
        made: number of steps that led to `parameters`; the rest is made here.
        coins: of rounding; by default fresh ones.
    """
    ring = ClearRing(config.frac_bits, parties=config.parties, seed=coins)
    spec = ModelSpec.parse(config.model, records[0].features.shape[1], config.classes, config.loss)
    each = OVERFLOW_PROBABILITY / (config.steps * len(records))
    capacities = [capacity(len(own), config.sample_rate, each) for own in records]
    plan = _plan(config, spec, sum(capacities), config.sample_rate * sum(map(len, records)))
    plan.check_drift(config.steps, DEFAULT_WEIGHT_NORM)
    for step in range(made + 1, config.steps + 1):
        x, y, norms, padding = _batch(records, capacities, config, source)
        gradients = forward(ring, spec.network, parameters, x).backward(y, norms)
        updates = dpsgd_step(ring, gradients, plan, source, padding)
        parameters = [
            (w - dw, b - db) for (w, b), (dw, db) in zip(parameters, updates, strict=True)
        ]
        after(step, parameters)
    return parameters


def account(ledger: Ledger, name: str, config: TrainConfig, steps: int) -> None:
    """Records that many steps of such a run, if it is private."""
    if config.private:
        ledger.record(
            name,
            noise_multiplier=config.noise_multiplier or 0.0,
            sample_rate=config.sample_rate,
            steps=steps,
            overflow_probability=OVERFLOW_PROBABILITY * steps / config.steps,
        )


def _plan(config: TrainConfig, spec: ModelSpec, rows: int, expected: float) -> StepPlan:
    return StepPlan(
        frac_bits=config.frac_bits,
        layers=spec.network.shapes(
            max_feature_norm=config.max_feature_norm, max_weight_norm=DEFAULT_WEIGHT_NORM
        ),
        rows=rows,
        learning_rate=config.lr,
        expected_batch_size=expected,
        max_grad_norm=config.max_grad_norm,
        noise_multiplier=config.noise_multiplier or 0.0,
        parties=config.parties,
        private=config.private,
    )


def _batch(
    records: Sequence[OwnRecords],
    capacities: Sequence[int],
    config: TrainConfig,
    source: NoiseSource,
) -> tuple[Integers, Integers, Integers, Integers]:
    drawn = [
        draw_rows(own, party=party, sample_rate=config.sample_rate, rows=rows, source=source)
        for party, (own, rows) in enumerate(zip(records, capacities, strict=True))
    ]
    return (
        np.concatenate([rows.features for rows in drawn]),
        np.concatenate([rows.labels for rows in drawn]),
        np.concatenate([rows.squared_norms for rows in drawn]),
        np.concatenate([rows.padding for rows in drawn]),
    )
