"""One party's side of a training run, from its file of records to its report."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from crypten_ext import dealer, pairwise
from crypten_ext.dealer.material import MADE_BY
from crypten_ext.registry import enable
from crypten_ext.run.forecast_host import step_cost
from crypten_ext.run.host import CrypTenHost
from crypten_ext.world import exchange
from extensions.data.datasets import Split, read_party_file
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.runs import training
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import of_tuples, settings_of
from extensions.runs.options import RunOptions
from extensions.runs.providers import DEALINGS

import crypten
from crypten import communicator

Emit = Callable[[dict[str, Any]], None]


def train(config: TrainConfig, records: Path, emit: Emit, options: RunOptions) -> dict[str, Any]:
    """Returns the report of this party; all parties return the same.

    `emit` is called after each step, as `extensions.runs.callbacks.ProgressCallback` says; before
    the first with the resolved settings as `settled`, if they were not.
    """
    given = config
    host, own, config = join(config, records, options)
    if config.settled and not given.settled:
        emit({"settled": config})
    provider = DEALINGS[config.provider].title if config.hidden else None
    return training.run(host, config, [own], emit, options, provider)


def rehearse(config: TrainConfig, records: Path, steps: int) -> None:
    """Does all that a run does, but only for so many steps, to learn which tuples it asks for."""
    host, own, config = join(config, records, RunOptions())
    training.rehearse(host, config, [own], steps)


def join(
    config: TrainConfig, records: Path, options: RunOptions
) -> tuple[CrypTenHost, Split, TrainConfig]:
    """Returns this party as a host, its records and resolved settings; CrypTen is set up for it.

    Prepared tuples are of use once: all parties agree on their records before any file is used.
    """
    enable()
    if config.hidden:
        crypten.cfg.mpc.provider = DEALINGS[config.provider].host_name
    own = read_party_file(records)
    seed = config.insecure_seed
    source = SystemSource() if seed is None else InsecureSeededSource(seed)
    config = training.resolved_settings(exchange, config, own.public)
    crypten.cfg.encoder.precision_bits = config.frac_bits
    host = CrypTenHost(config.frac_bits, source, step_cost)
    if options.material is not None:
        training.check(host, config, [own], options)
        facts = own.public.facts(communicator.get().get_rank())
        settings = of_tuples(settings_of(config, host.software)) | {MADE_BY: config.provider}
        use = pairwise.use_material if config.provider == "parties" else dealer.use_material
        use(options.material, settings | facts)
    return host, own, config
