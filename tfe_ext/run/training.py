"""A training run on ABY3's servers: what a TF Encrypted user would write, and a report."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from extensions.network.spec import ModelSpec, Start
from extensions.owners.data import Split, read_party_file
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import check_records
from extensions.runs.checkpoints import CheckpointOptions, run_settings
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_local_training, train_locally
from extensions.runs.report import result
from tfe_ext.aby3.protocol import ABY3, fixed64
from tfe_ext.cost.cost import Cost
from tfe_ext.keras import DPSGD, SGD, Checkpoints, Sequential
from tfe_ext.keras.batches import check_owners
from tfe_ext.keras.losses import LOSSES
from tfe_ext.players.client import remote_config
from tfe_ext.players.config import local_config
from tfe_ext.ring.aby3_ring import ABY3Ring

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Activation, Dense

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    files: Sequence[Path],
    emit: Emit,
    save: Path | None = None,
    players: Path | None = None,
    options: CheckpointOptions | None = None,
) -> dict[str, Any]:
    """Returns the report of a run whose three servers own the records.

    Args:
        config: resolved settings.
        files: each server's records.
        emit: called with {"step", "steps", "rounds", "bytes"} after each step.
        save: folder for the servers' shares of a model that is not opened, or None.
        players: file of players in processes of their own; None for devices of this process.
        options: where and how often the servers' shares are kept, or None.

    Raises:
        PeaError: settings or records that do not fit, or a player that is lost.
    """
    if players is None:
        tfe.set_config(local_config())
        return _train(config, files, emit, save, options)
    with remote_config(players) as remote:
        tfe.set_config(remote)
        return _train(config, files, emit, save, options)


def _train(
    config: TrainConfig,
    files: Sequence[Path],
    emit: Emit,
    save: Path | None,
    options: CheckpointOptions | None,
) -> dict[str, Any]:
    started = time.perf_counter()
    parts = [read_party_file(path) for path in files]
    names = [f"server{rank}" for rank in range(ABY3Ring.parties)]
    tfe.set_protocol(ABY3(fixedpoint_config=fixed64(config.frac_bits)))
    spec = ModelSpec.parse(config.model, parts[0].train_x.shape[-1], config.classes)
    model = build(spec, config.public_init)
    optimizer = optimizer_of(config)
    model.compile(optimizer, LOSSES[config.loss]())
    held_out_x = dict(zip(names, (part.test_x for part in parts), strict=True))
    held_out_y = dict(zip(names, (part.test_y for part in parts), strict=True))
    check_owners(
        held_out_x,
        held_out_y,
        model.chain.network,
        frac_bits=config.frac_bits,
        max_feature_norm=config.max_feature_norm,
    )
    checkpoints = None if options is None else checkpoints_of(model, config, parts, options)
    made = None if checkpoints is None else checkpoints.begin()
    start: Cost | None = None
    if made is None:
        start = start_locally(model, config, dict(zip(names, parts, strict=True)))
        if checkpoints is not None:
            checkpoints.after(0)
    start_rounds, start_bytes = (start.rounds, bytes_per_server(start)) if start else (0, 0)
    made = made or 0
    cost: Cost | None = None

    def progress(step: int, steps: int) -> None:
        nonlocal cost
        if checkpoints is not None:
            checkpoints.after(step)
        cost = cost or model.step_cost()
        emit(
            {
                "step": step,
                "steps": steps,
                "rounds": start_rounds + (step - made) * cost.rounds,
                "bytes": start_bytes + (step - made) * bytes_per_server(cost),
            }
        )

    model.fit(
        dict(zip(names, (part.train_x for part in parts), strict=True)),
        dict(zip(names, (part.train_y for part in parts), strict=True)),
        steps=config.steps,
        initial_step=made,
        verbose=False,
        progress=progress,
    )
    if checkpoints is not None:
        checkpoints.finish()
    rounds, sent = start_rounds, start_bytes
    if made < config.steps:
        cost = cost or model.step_cost()
        rounds += (config.steps - made) * cost.rounds
        sent += (config.steps - made) * bytes_per_server(cost)
    opened = ["the number of correct predictions on held-out records"]
    parameters = None
    if config.evaluate == "opened":
        opened.insert(0, "the model")
        weights = model.get_weights()
        parameters = [(w.T, b) for w, b in zip(weights[::2], weights[1::2], strict=True)]
    elif save is not None:
        model.save_shares(save)
    accuracy = model.evaluate(held_out_x, held_out_y)
    return result(
        config,
        accuracy=accuracy,
        ledger=optimizer.ledger if isinstance(optimizer, DPSGD) else Ledger(),
        rounds=rounds,
        bytes_per_party=sent,
        seconds=time.perf_counter() - started,
        opened=opened,
        parameters=parameters,
        resumed_from=() if checkpoints is None else checkpoints.resumed,
    )


def checkpoints_of(
    model: Sequential, config: TrainConfig, parts: Sequence[Split], options: CheckpointOptions
) -> Checkpoints:
    """Returns the checkpoints of a run with these settings and records."""
    return Checkpoints(
        model,
        options.folder,
        every=options.every,
        resume=options.resume,
        **run_settings(config, [part.facts(rank) for rank, part in enumerate(parts)]),
    )


def start_locally(
    model: Sequential, config: TrainConfig, parts: Mapping[str, Split]
) -> Cost | None:
    """The model starts from what each owner's records teach it, if the config says so.

    Local models are trained in this process, which has read all records, each with noise of its
    own. Returns what the start costs, or None if there are no local models.
    """
    if config.strategy is None:
        return None
    local = {}
    for owner, (name, part) in enumerate(parts.items()):
        own = check_records(
            part.train_x,
            part.train_y,
            frac_bits=config.frac_bits,
            classes=config.classes,
            max_feature_norm=config.max_feature_norm,
        )
        trained = train_locally(config, own, owner=owner, source=model.optimizer.source)
        local[name] = [value for weight, bias in trained for value in (weight.T, bias)]
    if isinstance(model.optimizer, DPSGD):
        account_for_local_training(model.optimizer.ledger, config)
    return model.initialize_from(
        local,
        {name: len(part.train_x) for name, part in parts.items()},
        strategy=config.strategy,
        held_out=(
            {name: part.test_x for name, part in parts.items()},
            {name: part.test_y for name, part in parts.items()},
        ),
        weighting=config.init_weighting,
    )


def build(spec: ModelSpec, start: Start | None = None) -> Sequential:
    """Returns the model of a spec, with its public initial parameters."""
    inputs, *widths = spec.widths
    layers: list[Any] = []
    for width in widths:
        shape = {} if layers else {"batch_input_shape": [1, inputs]}
        layers += [Dense(width, **shape), Activation("relu")]
    model = Sequential(layers[:-1])
    model.set_weights(
        [value for weight, bias in spec.initial_parameters(start) for value in (weight.T, bias)]
    )
    return model


def optimizer_of(config: TrainConfig) -> DPSGD | SGD:
    """Returns the optimizer that a config describes."""
    source = None if config.insecure_seed is None else InsecureSeededSource(config.insecure_seed)
    if not config.private:
        return SGD(
            config.lr, config.sample_rate, max_feature_norm=config.max_feature_norm, source=source
        )
    return DPSGD(
        config.lr,
        config.max_grad_norm,
        config.noise_multiplier or 0.0,
        config.sample_rate,
        max_feature_norm=config.max_feature_norm,
        source=source,
    )


def bytes_per_server(cost: Cost) -> int:
    """Returns what a server sends and receives in a step, on the average of the three."""
    return round(2 * cost.bytes / ABY3Ring.parties)
