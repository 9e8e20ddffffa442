"""Plaintext training with the arithmetic, sampling and noise of a secure run: the comparison."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.accounting import Ledger
from extensions.clear import ClearRing
from extensions.config import TrainConfig
from extensions.data import Split
from extensions.dpsgd import dpsgd_step
from extensions.fixed_point import Integers, decode, encode
from extensions.model import ModelSpec
from extensions.network import Parameters, backward, forward
from extensions.randomness import InsecureSeededSource, NoiseSource, SystemSource
from extensions.report import result
from extensions.sampling import (
    OVERFLOW_PROBABILITY,
    OwnRecords,
    capacity,
    check_records,
    draw_rows,
)
from extensions.step_plan import DEFAULT_WEIGHT_NORM, StepPlan

Progress = Callable[[dict[str, Any]], None]


def train(config: TrainConfig, parts: Sequence[Split], progress: Progress) -> dict[str, Any]:
    """Returns the report of one plaintext run over all parties' records.

    Args:
        config: resolved settings; `parties` decides over how many draws the noise is summed.
        parts: every party's records.
        progress: called with {"step", "steps", "rounds", "bytes", "epsilon"} after each step.
    """
    started = time.perf_counter()
    ring = ClearRing(config.frac_bits, parties=config.parties)
    source: NoiseSource = (
        SystemSource()
        if config.insecure_seed is None
        else InsecureSeededSource(config.insecure_seed)
    )
    records = [_check(part.train_x, part.train_y, config) for part in parts]
    held_out = [_check(part.test_x, part.test_y, config) for part in parts]
    spec = ModelSpec.parse(config.model, records[0].features.shape[1], config.classes)
    parameters: Parameters = [
        (encode(w, config.frac_bits), encode(b, config.frac_bits))
        for w, b in spec.initial_parameters()
    ]
    each = OVERFLOW_PROBABILITY / (config.steps * len(records))
    capacities = [capacity(len(own), config.sample_rate, each) for own in records]
    plan = _plan(config, spec, sum(capacities), config.sample_rate * sum(map(len, records)))
    plan.check_drift(config.steps, DEFAULT_WEIGHT_NORM)
    ledger = Ledger()
    for step in range(config.steps):
        x, y, norms, padding = _batch(records, capacities, config, source)
        logits, kept = forward(ring, spec.network, parameters, x)
        gradients = backward(ring, spec.network, parameters, kept, logits, y, norms)
        updates = dpsgd_step(ring, gradients, plan, source, padding)
        parameters = [
            (w - dw, b - db) for (w, b), (dw, db) in zip(parameters, updates, strict=True)
        ]
        if config.private:
            ledger.record(
                "training",
                noise_multiplier=plan.noise_multiplier,
                sample_rate=config.sample_rate,
                steps=1,
                overflow_probability=OVERFLOW_PROBABILITY / config.steps,
            )
        progress({"step": step + 1, "steps": config.steps, "rounds": 0, "bytes": 0})
    x = np.concatenate([own.features for own in held_out])
    y = np.concatenate([own.labels for own in held_out])
    logits, _ = forward(ring, spec.network, parameters, x)
    correct = int((logits.argmax(axis=1) == y.argmax(axis=1)).sum())
    return result(
        config,
        accuracy=correct / len(y),
        ledger=ledger,
        rounds=0,
        bytes_per_party=0,
        seconds=time.perf_counter() - started,
        opened=["everything: this backend is plaintext"],
        parameters=[
            (decode(w, config.frac_bits), decode(b, config.frac_bits)) for w, b in parameters
        ],
    )


def _check(x: Any, y: Any, config: TrainConfig) -> OwnRecords:
    return check_records(
        x,
        y,
        frac_bits=config.frac_bits,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
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
