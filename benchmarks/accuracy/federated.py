"""PEA against DP-FedAvg, each party alone and training without privacy, at equal epsilon."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.accuracy.local_models import PUBLISHED, best_strength, published
from benchmarks.accuracy.records import Material, dealt
from benchmarks.accuracy.runs import (
    accuracy,
    held_out_of,
    joint,
    not_private,
    repeated,
    summary,
    table,
    train,
)
from benchmarks.accuracy.settings import DELTA_SHARE, PARTIES, tuned
from benchmarks.tables import Table
from extensions.data.datasets import Split
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.settings import account
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers, encode
from extensions.runs.config import TrainConfig
from extensions.runs.local_data import checked_records
from extensions.runs.local_training import descend

LOCAL_STEPS = 10
"""Of each party between two averages."""


def federated_average(config: TrainConfig, parts: list[Split], *, seed: int) -> dict[str, Any]:
    """Returns accuracy and epsilon of federated averaging with local DPSGD.

    In each round every party makes LOCAL_STEPS steps of DPSGD on its own records from the common
    model, at a learning rate as much smaller as its batches, and draws all of the noise itself.
    Their models are averaged by their numbers of records. Only these noisy models are sent, so that
    everything sent is private.

    Guarantees:
        A record is in one party's steps only, so that all rounds cost it the epsilon of that
        party's `config.steps` steps.

    Source:
        McMahan et al., AISTATS 2017, with the local randomiser of Abadi et al., CCS 2016.

    Args:
        config: resolved settings of one party's run, all rounds together; LOCAL_STEPS divides its
            steps.
        parts: each party's records.
        seed: of sampling and noise.
    """
    source, ledger = InsecureSeededSource(seed), Ledger()
    coins = source.rounding()
    own = replace(config, parties=1, steps=LOCAL_STEPS, lr=config.lr / len(parts))
    records = [checked_records(part.train_x, part.train_y, own) for part in parts]
    shares = np.array([len(each) for each in records]) / sum(map(len, records))
    spec = config.spec(records[0].features.shape[1], whole=True)
    common: Parameters = [
        (encode(w, config.frac_bits), encode(b, config.frac_bits))
        for w, b in spec.initial_parameters()
    ]
    for _ in range(config.steps // LOCAL_STEPS):
        reached = [
            descend(own, [each], common, _OwnStream(source, rank), coins=coins)
            for rank, each in enumerate(records)
        ]
        common = [
            (_mean([w for w, _ in layer], shares), _mean([b for _, b in layer], shares))
            for layer in zip(*reached, strict=True)
        ]
        account(ledger, "one party's steps", own, own.steps)
    test = held_out_of(
        np.concatenate([part.test_x for part in parts]),
        np.concatenate([part.test_y for part in parts]),
        config,
    )
    assert config.delta is not None
    return {
        "accuracy": 100 * accuracy(config, ClearRing(config.frac_bits, seed=coins), common, test),
        "epsilon": ledger.get_epsilon(config.delta),
    }


class _OwnStream:
    """One party's draws, apart from those of the others."""

    def __init__(self, source: InsecureSeededSource, rank: int) -> None:
        self._source, self._rank = source, rank

    def gaussian(self, party: int, scale: float, shape: tuple[int, ...]) -> Integers:
        return self._source.gaussian(self._rank, scale, shape)

    def bernoulli(self, party: int, probability: float, size: int) -> Any:
        return self._source.bernoulli(self._rank, probability, size)


def _mean(models: list[Integers], shares: Any) -> Integers:
    return np.rint(np.tensordot(shares, np.stack(models), axes=1)).astype(np.int64)


def alone(config: TrainConfig, parts: list[Split], *, seed: int) -> dict[str, Any]:
    """Returns the mean accuracy of the models that parties train each for itself, same epsilon.

    Their batches are smaller than joint ones, and so is their learning rate.
    """
    own = replace(config, parties=1, lr=config.lr / len(parts))
    found = [
        train(
            own,
            [replace(part, test_x=_all(parts, "test_x"), test_y=_all(parts, "test_y"))],
            seed=seed * len(parts) + rank,
        )
        for rank, part in enumerate(parts)
    ]
    mean = sum(each["accuracy"] for each in found) / len(found)
    return {"accuracy": mean, "epsilon": found[0]["epsilon"]}


def _all(parts: list[Split], name: str) -> Any:
    return np.concatenate([getattr(part, name) for part in parts])


def _apart(
    way: Callable[..., dict[str, Any]],
    config: TrainConfig,
    features: Split,
    partition: str,
    *,
    seed: int,
) -> dict[str, Any]:
    return way(config, dealt(features, partition, seed), seed=seed)


def run(material: Material) -> Iterator[Table]:
    """Accuracy of each way to train on three parties' records.

    In federated SGD with distributed noise a secure sum of all parties' clipped gradients and of
    their shares of the noise is opened in each step (`extensions.protocols.noisy_sums.open_steps`).
    """
    setting = tuned(material.data, material.data_dir)
    features = material.features(setting)
    config = setting.config(
        records=len(features.train_x), classes=material.classes, epsilon=material.epsilon
    )
    together = config.resolved()
    opened = replace(setting, open="each-step")
    shared = replace(config, open="each-step").resolved()
    # Averaging draws its batches anew in every round, each with its own chance to overflow.
    averaged = config.resolved(config.steps // LOCAL_STEPS * OVERFLOW_PROBABILITY)
    strengths = {way: best_strength(together, features, *PUBLISHED[way]) for way in PUBLISHED}
    rows = []
    for partition, form in (("iid", "IID"), ("shards", "non-IID")):
        ways = {
            "PEA": partial(joint, material, setting, together, partition),
            "FedSGD, distributed noise": partial(joint, material, opened, shared, partition),
            "DP-FedAvg": partial(_apart, federated_average, averaged, features, partition),
            "each alone": partial(_apart, alone, together, features, partition),
        }
        for title, strength in strengths.items():
            if partition == "iid" or PUBLISHED[title][0] == PARTIES:
                ways[title] = partial(
                    published, together, features, title, partition, strength=strength
                )
        if partition == "iid":
            clear = not_private(together, setting)
            ways["PEA, not private"] = partial(joint, material, setting, clear, partition)
        for title, way in ways.items():
            found = repeated(f"{title}, {form}, run", material.seeds, way)
            rows.append(
                {
                    "data": material.data,
                    "training": title,
                    "parts": form,
                    "epsilon": found[0]["epsilon"] or "infinite",
                    **summary([each["accuracy"] for each in found]),
                }
            )
    yield table(
        "federated",
        material,
        rows,
        {"features": setting},
        local_steps=LOCAL_STEPS,
        strengths=strengths,
        delta=f"1 / ({DELTA_SHARE} records of all {PARTIES} parties)",
    )
