"""Plaintext runs with the arithmetic of secure ones, repeated over seeds."""

import functools
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.settings import Setting
from benchmarks.tables import Table
from extensions.cli import console
from extensions.data.datasets import Split
from extensions.layers.passes import Parameters, forward
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols import pea
from extensions.protocols.noisy_sums.algorithms import agree_on_algorithm
from extensions.protocols.noisy_sums.whitening import whitened
from extensions.protocols.optimizer import State
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import checked_records, local_data


def table(
    experiment: str,
    material: Material,
    rows: Sequence[dict[str, Any]],
    settings: Mapping[str, Setting | dict[str, Any]],
    *,
    backend: str = "plaintext with the arithmetic of a secure run",
    **others: Any,
) -> Table:
    """Returns ``accuracy-EXPERIMENT-DATA``."""
    named = {
        label: shown(setting) if isinstance(setting, Setting) else setting
        for label, setting in settings.items()
    }
    others = {
        "data": material.data,
        "epsilon": material.epsilon,
        "seeds": list(material.seeds),
        "backend": backend,
        "load": os.getloadavg()[0],
        "tuned": named,
    } | others
    return Table(f"accuracy-{experiment}-{material.data}", rows, **others)


def shown(setting: Setting) -> dict[str, Any]:
    """Returns the settings as a result has them, without folders."""
    return asdict(setting) | {"features": setting.title}


Encoded = tuple[Integers, Integers]


def held_out_of(x: Any, y: Any, config: TrainConfig) -> Encoded:
    """Returns features and one-hot labels as ring integers."""
    own = checked_records(x, y, config)
    return own.features, own.labels


def train(
    config: TrainConfig,
    parts: Sequence[Split],
    *,
    seed: int,
    start: Parameters | None = None,
    choose_on: Encoded | None = None,
    watch: Iterable[int] = (),
) -> dict[str, Any]:
    """Returns the accuracies, in percent, of one run on all parts' test records.

    Args:
        config: resolved settings.
        parts: each party's records.
        seed: of sampling and noise, so that the run can be repeated.
        start: parameters to start from, instead of those of `config.init`.
        choose_on: records on which local models are compared; not the test records.
        watch: steps after which accuracy is measured too; 0 is the start.

    Returns:
        "accuracy", "epsilon" (None if not private), "steps" (accuracy by step).
    """
    source = InsecureSeededSource(seed)
    host = ClearHost(
        config.frac_bits,
        parties=config.parties,
        owners=len(parts),
        source=source,
        coins=source.rounding(),
    )
    own = local_data(host, config, parts)
    if choose_on is not None:
        own = replace(own, held_out=_dealt(choose_on, config, len(parts)))
    records, algorithm = agree_on_algorithm(host, config, own)
    own, records, maps = whitened(host, config, own, records, pea.RunCallbacks(host))
    test_x = np.concatenate([part.test_x for part in parts])
    if maps:
        test_x = maps[0].rows(test_x, config.max_feature_norm)
    test = held_out_of(test_x, np.concatenate([part.test_y for part in parts]), config)
    watching = _Watching(
        host,
        None if start is None else State.begin(host, config, start),
        watch,
        lambda model: accuracy(config, host.ring, model, test),
    )
    model, ledger = pea.train(host, config, own, records, algorithm, watching.resume(), watching)
    return {
        "accuracy": 100 * accuracy(config, host.ring, model, test),
        "epsilon": ledger.get_epsilon(config.delta) if config.private and config.delta else None,
        "steps": watching.seen,
    }


def accuracy(
    config: TrainConfig, ring: ClearRing, parameters: Parameters, held_out: Encoded
) -> float:
    """Returns the share of the held-out records, features and one-hot labels, that are right."""
    x, y = held_out
    logits = forward(ring, config.network(x.shape[1], whole=True), parameters, x).logits
    return float((logits.argmax(axis=1) == y.argmax(axis=1)).mean())


class _Watching(pea.RunCallbacks):
    """Measures the model after some steps of a run, which may start from given parameters."""

    def __init__(
        self,
        host: ClearHost,
        start: State | None,
        watch: Iterable[int],
        measure: Callable[[Parameters], float],
    ) -> None:
        super().__init__(host)
        self.seen = dict.fromkeys(watch, 0.0)
        self._start = start
        self._measure = measure

    def resume(self) -> tuple[State, Ledger] | None:
        if self._start is None:
            return None
        begun = self._start, Ledger()
        self(0, *begun)
        return begun

    def __call__(self, step: int, state: State, ledger: Ledger) -> None:
        if step in self.seen:
            self.seen[step] = 100 * self._measure(state.model)


def _dealt(records: Encoded, config: TrainConfig, owners: int) -> list[OwnRecords]:
    """The records, of which every owner has a part."""
    columns = [np.array_split(column, owners) for column in records]
    return [
        OwnRecords(features=x, labels=y, frac_bits=config.frac_bits)
        for x, y in zip(*columns, strict=True)
    ]


@functools.cache
def joint(
    material: Material, setting: Setting, config: TrainConfig, partition: str, seed: int
) -> dict[str, Any]:
    """Returns what `train` does for the whole data set; once for all experiments that ask."""
    found = train(config, dealt(material.features(setting), partition, seed), seed=seed)
    return {name: found[name] for name in ("accuracy", "epsilon")}


def repeated(
    title: str, seeds: Sequence[int], run: Callable[..., dict[str, Any]]
) -> list[dict[str, Any]]:
    """Returns what `run` returns for each ``seed``; shows how many are done."""
    found = []
    with console.counted(title) as show:
        for done, seed in enumerate(seeds):
            show(done, len(seeds))
            found.append(run(seed=seed))
        show(len(seeds), len(seeds))
    return found


def summary(values: Sequence[float], name: str = "accuracy, %") -> dict[str, float]:
    """Returns mean and standard deviation as columns of a table."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {name: statistics.mean(values), "standard deviation": spread}


def not_private(config: TrainConfig, setting: Setting) -> TrainConfig:
    """Returns the settings of the same run without clipping and noise, which takes wider integers.

    Gradients are bounded less tightly then, so that fewer fractional bits fit the ring.
    """
    return replace(
        config,
        private=False,
        delta=None,
        noise_multiplier=None,
        frac_bits=18,
        lr=setting.lr_not_private,
    )
