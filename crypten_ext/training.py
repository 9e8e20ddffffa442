"""One party's side of a training run: what a CrypTen user would write, and a report."""

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from crypten_ext import dealer, nn
from crypten_ext.batches import poisson_batches, share_records
from crypten_ext.evaluation import count_correct
from crypten_ext.optim import DPSGD, SGD
from crypten_ext.registry import enable
from crypten_ext.ring import ring_of
from extensions.accounting import Ledger
from extensions.config import TrainConfig
from extensions.data import read_party_file, write_private
from extensions.fixed_point import Reals, decode
from extensions.model import ModelSpec
from extensions.providers import DEALINGS
from extensions.randomness import InsecureSeededSource
from extensions.report import result

import crypten
from crypten import communicator

Emit = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig,
    records: Path,
    emit: Emit,
    save: Path | None = None,
    *,
    material: Path | None = None,
    rehearsed: int | None = None,
) -> dict[str, Any]:
    """Returns the report of this party; all parties return the same.

    Args:
        config: resolved settings, the same at every party.
        records: this party's own file.
        emit: called with {"step", "steps", "rounds", "bytes"} after each step.
        save: folder for this party's shares of a model that is not opened, or None.
        material: this party's prepared tuples, if they do not come from a running provider.
        rehearsed: number of steps after which training ends, to learn what a run asks for.
    """
    started = time.perf_counter()
    enable()
    crypten.cfg.mpc.provider = DEALINGS[config.provider].host_name
    crypten.cfg.encoder.precision_bits = config.frac_bits
    crypten.cfg.communicator.verbose = True
    own = read_party_file(records)
    if material is not None:
        facts = own.facts(communicator.get().get_rank())
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
    )
    model = build(spec).encrypt()
    loss = nn.BCEWithLogitsLoss()
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
    for step, (x, y) in enumerate(islice(batches, rehearsed), start=1):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
        rounds, sent = traffic()
        emit({"step": step, "steps": config.steps, "rounds": rounds, "bytes": sent})
    training_rounds, training_bytes = traffic()
    correction_bytes = dealer.corrected_bytes() if config.provider == "dealer" else None

    x, y = share_records(
        own.test_x,
        own.test_y,
        classes=config.classes,
        max_feature_norm=config.max_feature_norm,
    )
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
    )


def build(spec: ModelSpec) -> Any:
    """Returns the plaintext CrypTen model of a spec, with its public initial parameters."""
    layers: list[Any] = []
    for weight, bias in spec.initial_parameters():
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


def parameter_pairs(model: Any) -> list[tuple[Any, Any]]:
    """Returns the encrypted (weight, bias) of each linear layer."""
    parameters = list(model.parameters())
    return list(zip(parameters[::2], parameters[1::2], strict=True))


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
