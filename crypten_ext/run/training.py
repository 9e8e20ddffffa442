"""One party's side of a training run: what a CrypTen user would write, and a report."""

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from crypten_ext import dealer, nn
from crypten_ext.evaluation import count_correct
from crypten_ext.nn.batches import poisson_batches, share_records
from crypten_ext.nn.optim import DPSGD, SGD
from crypten_ext.registry import enable
from crypten_ext.ring.crypten_ring import ring_of
from crypten_ext.run.checkpoints import Checkpoints
from crypten_ext.run.initialization import initialize, parameter_pairs
from extensions.network.losses import LOSSES
from extensions.network.spec import ModelSpec, Start
from extensions.owners.data import Split, read_party_file, write_private
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import check_records
from extensions.protocols.initialization import WEIGHTINGS
from extensions.ring.fixed_point import Reals, decode
from extensions.runs.checkpoints import CheckpointOptions, run_settings
from extensions.runs.config import INITS, TrainConfig
from extensions.runs.local_training import account_for_local_training, train_locally
from extensions.runs.providers import DEALINGS
from extensions.runs.report import result

import crypten
from crypten import communicator
from crypten.mpc import MPCTensor

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    records: Path,
    emit: Emit,
    save: Path | None = None,
    *,
    material: Path | None = None,
    options: CheckpointOptions | None = None,
    rehearsed: int | None = None,
) -> dict[str, Any]:
    """Returns the report of this party; all parties return the same.

    Args:
        config: resolved settings, the same at every party.
        records: this party's own file.
        emit: called with {"step", "steps", "rounds", "bytes"} after each step.
        save: folder for this party's shares of a model that is not opened, or None.
        material: this party's prepared tuples, if they do not come from a running provider.
        options: where and how often this party's shares are kept, or None.
        rehearsed: number of steps after which training ends, to learn what a run asks for.
    """
    started = time.perf_counter()
    enable()
    crypten.cfg.mpc.provider = DEALINGS[config.provider].host_name
    crypten.cfg.encoder.precision_bits = config.frac_bits
    crypten.cfg.communicator.verbose = True
    own = read_party_file(records)
    facts = own.facts(communicator.get().get_rank())
    if material is not None:
        dealer.use_material(material, config.workload() | facts)
    crypten.reset_communication_stats()
    source = None if config.insecure_seed is None else InsecureSeededSource(config.insecure_seed)
    spec = ModelSpec.parse(config.model, own.train_x.shape[-1], config.classes)
    batches = poisson_batches(
        own.train_x,
        own.train_y,
        sample_rate=config.sample_rate,
        steps=config.steps,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
        source=source,
        agreed=(
            LOSSES.index(config.loss),
            *_settings_of_start(config),
            float(options is not None),
        ),
    )
    model = build(spec, config.public_init).encrypt()
    loss = nn.LOSSES[config.loss]()
    optimizer: DPSGD | SGD
    if config.private:
        optimizer = DPSGD(
            model,
            lr=config.lr,
            max_grad_norm=config.max_grad_norm,
            noise_multiplier=config.noise_multiplier or 0.0,
            sample_rate=config.sample_rate,
            steps=config.steps,
            source=source,
        )
    else:
        optimizer = SGD(model, lr=config.lr)
    held_out = made = checkpoints = None
    if options is not None:
        checkpoints = Checkpoints(
            model,
            optimizer,
            options.folder,
            every=options.every,
            resume=options.resume,
            source=source,
            **run_settings(config, [facts]),
        )
        made = checkpoints.begin()
    if config.strategy is not None and made is None:
        local = train_locally(
            config,
            check_records(
                own.train_x,
                own.train_y,
                frac_bits=config.frac_bits,
                classes=config.classes,
                max_feature_norm=config.max_feature_norm,
            ),
            owner=communicator.get().get_rank(),
            source=source or SystemSource(),
            steps=rehearsed,
        )
        held_out = _share_held_out(own, config)
        initialize(
            model,
            local,
            len(own.train_x),
            strategy=config.strategy,
            held_out=held_out,
            weighting=config.init_weighting,
        )
        if isinstance(optimizer, DPSGD):
            account_for_local_training(optimizer.ledger, config)
    if made is None and checkpoints is not None:
        checkpoints.after(0)
    left = config.steps - (made or 0) if rehearsed is None else rehearsed
    for step, (x, y) in enumerate(islice(batches, left), start=(made or 0) + 1):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        if checkpoints is not None:
            checkpoints.after(step)
        rounds, sent = traffic()
        emit({"step": step, "steps": config.steps, "rounds": rounds, "bytes": sent})
    training_rounds, training_bytes = traffic()
    correction_bytes = dealer.corrected_bytes() if config.provider == "dealer" else None

    x, y = held_out or _share_held_out(own, config)
    if checkpoints is not None:
        checkpoints.finish()
    parameters = None
    if config.evaluate == "opened":
        parameters = open_parameters(model)
        opened = ["the model", "the number of correct predictions on held-out records"]
    else:
        opened = ["the number of correct predictions on held-out records"]
    with crypten.no_grad():
        correct = count_correct(model(x), y)
    if save is not None and parameters is None:
        save_shares(model, config, save)
    return result(
        config,
        accuracy=correct / x.size(0),
        ledger=optimizer.ledger if isinstance(optimizer, DPSGD) else Ledger(),
        rounds=training_rounds,
        bytes_per_party=training_bytes,
        seconds=time.perf_counter() - started,
        opened=opened,
        parameters=parameters,
        correction_bytes=correction_bytes,
        resumed_from=() if checkpoints is None else checkpoints.resumed,
    )


def _share_held_out(own: Split, config: TrainConfig) -> tuple[MPCTensor, MPCTensor]:
    return share_records(
        own.test_x,
        own.test_y,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
    )


def _settings_of_start(config: TrainConfig) -> tuple[float, ...]:
    """What parties must agree on, or some would wait for messages that others never send."""
    local = (config.noise_multiplier_init or 0.0, config.local_steps, config.init_lr or 0.0)
    start = INITS.index(config.init) if config.init else -1
    return (float(start), float(WEIGHTINGS.index(config.init_weighting)), *local)


def build(spec: ModelSpec, start: Start | None = None) -> Any:
    """Returns the plaintext CrypTen model of a spec, with its public initial parameters."""
    layers: list[Any] = []
    for weight, bias in spec.initial_parameters(start):
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.set_parameter("weight", torch.from_numpy(weight).requires_grad_())
        layer.set_parameter("bias", torch.from_numpy(bias).requires_grad_())
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def save_shares(model: Any, config: TrainConfig, folder: Path) -> Path:
    """Writes this party's shares to ``party-R.npz``, readable by its owner only.

    The sum of all parties' files modulo 2^64, times 2^-frac_bits, is the model.
    """
    shares = {
        name: parameter.share.numpy()
        for i, pair in enumerate(parameter_pairs(model))
        for name, parameter in zip((f"weight_{i}", f"bias_{i}"), pair, strict=True)
    }
    path = folder / f"party-{communicator.get().get_rank()}.npz"
    return write_private(path, frac_bits=config.frac_bits, **shares)


def open_parameters(model: Any) -> list[tuple[Reals, Reals]]:
    """Returns the (weight, bias) arrays of a model of linear layers, opened to every party."""
    opened = [
        [decode(p.reveal().numpy(), ring_of(p).frac_bits) for p in pair]
        for pair in parameter_pairs(model)
    ]
    return [(weight, bias) for weight, bias in opened]


def traffic() -> tuple[int, int]:
    """Returns rounds and bytes of this party by CrypTen's own count (sent and received)."""
    statistics = communicator.get().get_communication_stats()
    return int(statistics["rounds"]), int(statistics["bytes"])
