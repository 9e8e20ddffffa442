"""From the options of `pea fl` to the run that they describe."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from extensions.cli import console
from extensions.data.datasets import Columns
from extensions.data.origin import Origin, class_names_of
from extensions.errors import ArgumentError
from extensions.rules import NOT_NEGATIVE, POSITIVE, Whole
from fl.cli.drop_outs import RandomDropOuts
from fl.cli.mechanisms import check_rounds, delta_of, mechanism_of
from fl.cli.options import Experiment, Records
from fl.cli.records import model_of, read
from fl.round.network import Link, Network
from fl.training.federated import FederatedAveraging
from fl.weights import get_weights

BYTES_OF_MBIT = 1e6 / 8

CLIENT_FRACTION = 0.1
"""Share of the clients that is selected, where the aggregator needs no more."""

_AS_THEY_ARE = (
    "client_fraction",
    "local_epochs",
    "lr",
    "exchange",
    "weighting",
    "on_failure",
    "workers",
    "seed",
)
_FREE = {
    *("rounds", "evaluate_every", "workers", "on_failure", "data_dir", "download", "transcript"),
    *("json_out", "csv", "tensorboard", "save", "checkpoint", "resume"),
}
"""Options that may differ when a run is resumed."""


def run_of(options: Experiment) -> tuple[FederatedAveraging, tuple[Tensor, Tensor]]:
    """Returns the run that the options describe, and the records held out."""
    training, records, network = options.training, options.records, options.network
    for name, value, least in (
        ("rounds", training.rounds, 1),
        ("evaluate_every", options.result.evaluate_every, 1),
        ("clients", training.clients, 1),
        ("seed", training.seed, 0),
    ):
        Whole(least).check(name, value)
    if training.seed >= 2**63:
        raise ArgumentError("seed", training.seed, "in 0..2^63 - 1")
    clients, seed = training.clients, training.seed
    chosen = options.protection.aggregator
    if "paillier.model_range" in chosen.given and "paillier.hide_model" not in chosen.given:
        value = chosen.given["paillier.model_range"]
        raise ArgumentError("paillier.model_range", value, "{hide_model}", code="needs")
    aggregator = chosen.make()
    if training.client_fraction is None:
        fraction = max(CLIENT_FRACTION, min(1.0, aggregator.min_clients / clients))
        if aggregator.hides_model:
            fraction = 1.0
        training = replace(training, client_fraction=fraction)
    mechanism = mechanism_of(options.protection, aggregator, training)
    taken = () if mechanism.training is None else ("lr",)  # by what trains clients instead
    links = _network(network.delay_ms, network.mbit)
    led = getattr(aggregator, "led_by", "") == "client"
    variant = ", model hidden" * aggregator.hides_model + ", led by a client" * led
    protocol = f"{chosen.name}{variant}"
    drop_outs = RandomDropOuts(protocol, network.drop_out, clients, seed)
    data = read(_origin(records, seed))
    console.classes(data.names)
    model = model_of(records.model, data, seed)
    run = FederatedAveraging(
        model=model,
        clients=data.dealt(clients, records.partition, records.alpha, seed),
        aggregator=aggregator,
        mechanism=mechanism,
        batch_size=training.batch_size or None,
        server_optimizer=training.server_optimizer.make(),
        network=links,
        drop_outs=drop_outs,
        training_seconds=network.training_seconds,
        timeout=network.timeout,
        transcript=network.transcript,
        facts=_facts(options),
        **{name: getattr(training, name) for name in _AS_THEY_ARE if name not in taken},
    )
    size, delta = get_weights(model).size, delta_of(options.protection)
    check_rounds(run, size, clients, rounds=training.rounds, delta=delta)
    return run, data.test


def settings_of(options: Experiment, run: FederatedAveraging) -> dict[str, Any]:
    """Returns all options, for JSON, with the run's own value where one is not given."""
    settings = {}
    for name, value in options.items():
        usual = getattr(run, name, None)
        if value is None and isinstance(usual, str | int | float):
            value = usual
        settings[name] = str(value) if isinstance(value, Path) else value
    noise, by = getattr(run.mechanism, "noise_multiplier", None), settings["mechanism"]
    return settings | ({} if noise is None else {f"{by}.noise_multiplier": noise})


def _facts(options: Experiment) -> dict[str, Any]:
    """Returns the options that must be equal when a run is resumed.

    The number of rounds is one of them where a target epsilon is of all rounds.
    """
    free = _FREE if options.protection.epsilon is None else _FREE - {"rounds"}
    return {name: value for name, value in options.items() if name not in free}


def _network(delay_ms: float, mbit: float | None) -> Network:
    NOT_NEGATIVE.check("delay_ms", delay_ms)
    link = Link(delay=delay_ms / 1000)
    if mbit is not None:
        POSITIVE.check("mbit", mbit)
        link = Link(delay=link.delay, bandwidth=mbit * BYTES_OF_MBIT)
    return Network(server=link, peers=link)


def _origin(records: Records, seed: int) -> Origin:
    return Origin(
        data=records.data,
        data_dir=records.data_dir,
        columns=Columns(label=records.label),
        names=class_names_of(records.class_names) if records.class_names else None,
        seed=seed,
        download=records.download,
    )
