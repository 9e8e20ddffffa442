"""Plaintext training with the arithmetic, sampling and noise of a secure run: the comparison."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from extensions.network.chain import Parameters, forward
from extensions.network.spec import ModelSpec
from extensions.owners.data import Labels, Split
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.initialization import initialize
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, Reals, decode, encode
from extensions.ring.interface import NoiseSource
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.clear_checkpoints import ClearCheckpoints
from extensions.runs.config import TrainConfig
from extensions.runs.descent import account, descend
from extensions.runs.local_training import account_for_local_training, train_locally
from extensions.runs.report import result

Progress = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    parts: Sequence[Split],
    progress: Progress,
    options: CheckpointOptions | None = None,
) -> dict[str, Any]:
    """Returns the report of one plaintext run over all parties' records.

    Args:
        config: resolved settings; `parties` decides over how many draws the noise is summed.
        parts: every party's records.
        progress: called with {"step", "steps", "rounds", "bytes", "epsilon"} after each step.
        options: where and how often the model is kept, or None.

    Guarantees:
        With an insecure seed a run that was resumed is that of no interruption, bit for bit.

    Raises:
        ArgumentError: the run cannot be resumed.
        PeaError: another continuation of it was finished.
    """
    started = time.perf_counter()
    seeded = None if config.insecure_seed is None else InsecureSeededSource(config.insecure_seed)
    source: NoiseSource = seeded or SystemSource()
    coins = None if seeded is None else seeded.rounding()
    ring = ClearRing(config.frac_bits, parties=config.parties, seed=coins)
    kept = None if options is None else ClearCheckpoints(options, config, parts, seeded)
    records = [encoded(part.train_x, part.train_y, config) for part in parts]
    held_out = [encoded(part.test_x, part.test_y, config) for part in parts]
    x = np.concatenate([own.features for own in held_out])
    y = np.concatenate([own.labels for own in held_out])
    reached = None if kept is None else kept.begin()
    if reached is not None:
        made, parameters, ledger = reached
    else:
        made, ledger = 0, Ledger()
        parameters = starting_parameters(config, ring, records, (x, y), source, ledger)
        if kept is not None:
            kept.write(0, parameters, ledger)

    def after(step: int, parameters: Parameters) -> None:
        account(ledger, "training", config, 1)
        if kept is not None and kept.party.is_due(step):
            kept.write(step, parameters, ledger)
        progress({"step": step, "steps": config.steps, "rounds": 0, "bytes": 0})

    parameters = descend(config, records, parameters, source, after, made=made, coins=coins)
    if kept is not None:
        kept.party.finish()
    return result(
        config,
        accuracy=accuracy(config, ring, parameters, (x, y)),
        ledger=ledger,
        rounds=0,
        bytes_per_party=0,
        seconds=time.perf_counter() - started,
        opened=["everything: this backend is plaintext"],
        parameters=[
            (decode(w, config.frac_bits), decode(b, config.frac_bits)) for w, b in parameters
        ],
        resumed_from=() if kept is None else kept.party.resumed,
    )


def accuracy(
    config: TrainConfig,
    ring: ClearRing,
    parameters: Parameters,
    held_out: tuple[Integers, Integers],
) -> float:
    """Returns the share of the held-out records, features and one-hot labels, that are right."""
    x, y = held_out
    network = ModelSpec.parse(config.model, x.shape[1], config.classes).network
    logits = forward(ring, network, parameters, x).logits
    return float((logits.argmax(axis=1) == y.argmax(axis=1)).mean())


def starting_parameters(
    config: TrainConfig,
    ring: ClearRing,
    records: Sequence[OwnRecords],
    held_out: tuple[Integers, Integers],
    source: NoiseSource,
    ledger: Ledger,
) -> Parameters:
    """Returns the parameters that training starts from, ring integers (Protocol 5, lines 1-4)."""
    f = config.frac_bits
    spec = ModelSpec.parse(config.model, records[0].features.shape[1], config.classes)
    start = [(encode(w, f), encode(b, f)) for w, b in spec.initial_parameters(config.public_init)]
    if config.strategy is None:
        return start
    account_for_local_training(ledger, config)
    models = [
        train_locally(config, own, owner=owner, source=source) for owner, own in enumerate(records)
    ]
    local = [
        (encode(np.stack(weights), f), encode(np.stack(biases), f))
        for weights, biases in (zip(*layer, strict=True) for layer in zip(*models, strict=True))
    ]
    sizes = [len(own) for own in records]
    return initialize(
        ring,
        config.strategy,
        local,
        sizes,
        start=start,
        held_out=held_out,
        weighting=config.init_weighting,
    )


def encoded(x: Reals, y: Labels, config: TrainConfig) -> OwnRecords:
    """Returns one owner's records, checked and encoded."""
    return check_records(
        x,
        y,
        frac_bits=config.frac_bits,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
    )
