"""From the options of `pea fl` to the run that they describe."""

from pathlib import Path
from typing import Any

from torch import Tensor

from extensions.checks import check_not_negative, check_positive
from extensions.cli import console
from extensions.errors import ArgumentError
from extensions.owners.data import Columns
from extensions.owners.origin import Origin, class_names_of
from fl.cli.aggregators import aggregator_of, fixed_point_of
from fl.cli.choices import Options
from fl.cli.drop_outs import RandomDropOuts
from fl.cli.mechanisms import check_size, mechanism_of
from fl.cli.records import model_of, read
from fl.round.network import Link, Network
from fl.training.federated import FederatedAveraging
from fl.training.weights import get_weights

BYTES_OF_MBIT = 1e6 / 8

_AS_THEY_ARE = (
    *("client_fraction", "local_epochs", "lr", "exchange", "on_failure", "workers", "seed"),
    *("training_seconds", "timeout"),
)
_FREE = {
    *("rounds", "evaluate_every", "workers", "on_failure", "data_dir", "download", "config_file"),
    *("json_out", "save", "checkpoint", "resume"),
}
"""Options that may change where a run goes on."""


def run_of(options: Options) -> tuple[FederatedAveraging, tuple[Tensor, Tensor]]:
    """Returns the run that the options describe, and the records held out.

    Raises:
        ArgumentError: an option that is out of range, or does not go with another one.
    """
    for name, least in (("rounds", 1), ("evaluate_every", 1), ("clients", 1), ("seed", 0)):
        if options[name] < least:
            raise ArgumentError(name, options[name], f"at least {least}")
    clients, seed = options["clients"], options["seed"]
    aggregator = aggregator_of(options)
    mechanism = mechanism_of(options, aggregator)
    network = _network(options["delay_ms"], options["mbit"])
    drop_outs = RandomDropOuts(options["aggregator"], options["drop_out"], clients, seed)
    data = read(_origin(options))
    console.classes(data.names)
    model = model_of(options["model"], data.shape, data.classes, seed)
    run = FederatedAveraging(
        model=model,
        clients=data.dealt(clients, options["partition"], options["alpha"], seed),
        aggregator=aggregator,
        mechanism=mechanism,
        batch_size=options["batch_size"] or None,
        weighting=options["weighting"] or ("equal" if mechanism.equal_weights else "records"),
        network=network,
        drop_outs=drop_outs,
        facts=_facts(options),
        **{name: options[name] for name in _AS_THEY_ARE},
    )
    check_size(run, get_weights(model).size, clients)
    return run, data.test


def settings_of(options: Options, run: FederatedAveraging) -> dict[str, Any]:
    """Returns all options, in JSON, with what the run takes where one is not given."""
    taken = {**vars(run), **vars(run.aggregator), **vars(run.mechanism)}
    taken |= fixed_point_of(run.aggregator)
    settings = {}
    for name, value in options.items():
        usual = taken.get(name)
        if value is None and isinstance(usual, str | int | float):
            value = usual
        settings[name] = str(value) if isinstance(value, Path) else value
    return settings


def _facts(options: Options) -> dict[str, Any]:
    """Returns what decides how the run goes on; a target epsilon of central-dp is of all rounds."""
    spent = options["mechanism"] == "central-dp" and options["epsilon"] is not None
    free = _FREE - {"rounds"} if spent else _FREE
    return {name: value for name, value in options.items() if name not in free}


def _network(delay_ms: float, mbit: float | None) -> Network:
    check_not_negative("delay_ms", delay_ms)
    link = Link(delay=delay_ms / 1000)
    if mbit is not None:
        check_positive("mbit", mbit)
        link = Link(delay=link.delay, bandwidth=mbit * BYTES_OF_MBIT)
    return Network(server=link, peers=link)


def _origin(options: Options) -> Origin:
    return Origin(
        data=options["data"],
        data_dir=options["data_dir"],
        columns=Columns(label=options["label"]),
        names=class_names_of(options["class_names"]) if options["class_names"] else None,
        seed=options["seed"],
        download=options["download"],
    )
