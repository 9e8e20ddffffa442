"""``python -m benchmarks audit``: how much of the claimed epsilon attacks can show."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from benchmarks.audit.bound import audit
from benchmarks.audit.victims import (
    CANARY_NORM,
    FAULTS,
    NO_FAULT,
    Game,
    additive,
    claimed,
    natural,
    planted,
    planted_in_table,
    released,
)
from benchmarks.benchmark import ACCOUNTING, Benchmark, Result
from benchmarks.tables import Table
from extensions.data.datasets import Split, load_raw
from extensions.data.origin import FeatureExtraction
from extensions.data.schema import Category, Number, Schema, Target
from extensions.data.schema.encoding import encode_unlabelled
from extensions.layers.spec import ADDITIVE
from extensions.options import Option
from extensions.privacy.accounting import Neighbours
from extensions.protocols.settings import Cells
from extensions.ring.fixed_point import Reals
from extensions.rules import Whole, one_of
from extensions.runs.config import TrainConfig

HOSTS = {"clear": "plaintext", "crypten": "CrypTen", "tfe": "ABY3"}
PARTIES = 3
DELTA = 1e-5
SIGNIFICANCE = 0.05
WHOLE = {"sample_rate": 1.0, "steps": 4}
SAMPLED = {"sample_rate": 0.2, "steps": 40}
LESS_NOISE = next(iter(FAULTS))
_MOVE = 0.01
"""How far a step moves a planted record's weight, so that gradients hardly change meanwhile."""


def planted_config(
    backend: str, count: int, epsilon: float, neighbours: Neighbours, schedule: dict[str, Any]
) -> TrainConfig:
    """Returns the settings of a run on planted records, whose claim is that epsilon."""
    return TrainConfig(
        backend=backend,
        parties=PARTIES,
        data="planted records",
        classes=2,
        lr=_MOVE * schedule["sample_rate"] * count,
        epsilon=epsilon,
        delta=DELTA,
        neighbours=neighbours,
        max_feature_norm=CANARY_NORM,
        evaluate="opened",
        **schedule,
    )


def attack(
    config: TrainConfig, game: Game, fault: str, *, significance: float = SIGNIFICANCE
) -> dict[str, float]:
    """Returns what an attack on one run shows, beside what the run claims."""
    assert config.delta is not None
    scores = game.scores(released(config, game, fault)).tolist()
    coins = game.coins.tolist()
    shown, best = (
        audit(guessed, coins, delta=config.delta, significance=significance)
        for guessed in (scores, coins)
    )
    return {
        "secrets": len(coins),
        **shown,
        "at most": best["epsilon, at least"],
        "epsilon, claimed": claimed(config, game.parts[0].train_x.shape[1]),
    }


def row(config: TrainConfig, found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Returns what several attacks on runs with equal settings show."""
    bounds = [each["epsilon, at least"] for each in found]
    claim = found[0]["epsilon, claimed"]
    middle = statistics.median(bounds)
    return {
        "neighbours": config.neighbours,
        "steps": config.steps,
        "sample rate": config.sample_rate,
        "secrets": found[0]["secrets"],
        "epsilon, at least": middle,
        "the largest": max(bounds),
        "if all were guessed": found[0]["at most"],
        "epsilon, claimed": claim,
        "shown, %": 100 * middle / claim,
        "above the claim": f"{sum(bound > claim for bound in bounds)} of {len(bounds)}",
    }


def membership_config(backend: str, epsilon: float) -> TrainConfig:
    """Returns the settings of `pea train` on digits, whose claim is that epsilon."""
    return TrainConfig(
        backend=backend,
        parties=PARTIES,
        epsilon=epsilon,
        delta=DELTA,
        neighbours="replace",
        evaluate="opened",
    )


CANARY_COLUMNS = tuple(
    Category(name=f"column {i}", categories=tuple(map(str, range(20)))) for i in range(64)
)
"""Of planted records of additive models: more cells than records, so that each is told apart."""
PIXELS = tuple(Number(name=f"pixel {i}", low=0.0, high=1.0) for i in range(64))


def additive_config(
    backend: str, columns: tuple[Number | Category, ...], classes: int, epsilon: float, cells: Cells
) -> TrainConfig:
    """Returns the settings of an additive model of a table, whose claim is that epsilon."""
    target = Target(column="class", classes=tuple(map(str, range(classes))))
    schema = Schema(target=target, columns=columns, basis="public")
    return TrainConfig(
        backend=backend,
        parties=PARTIES,
        model=ADDITIVE,
        open="each-step",
        classes=classes,
        facts=schema.facts(),
        steps=30,
        lr=8 / len(columns),
        cells=cells,
        loss="softmax" if classes > 2 else "sigmoid",
        sample_rate=1.0,
        epsilon=epsilon,
        delta=DELTA,
        neighbours="replace",
    )


def digits_table(config: TrainConfig) -> Split:
    """Returns the records of digits as a table of their pixels."""
    raw, schema = load_raw("digits", None, 0), Schema.of_facts(config.facts)
    assert schema is not None

    def encoded(images: Reals) -> Reals:
        pixels = images.reshape(len(images), -1) / 255.0
        names = [column.name for column in schema.columns]
        table = {name: own.astype(object) for name, own in zip(names, pixels.T, strict=True)}
        return encode_unlabelled(schema, table).x

    return replace(raw, train_x=encoded(raw.train_x), test_x=encoded(raw.test_x))


def digits() -> Split:
    """Returns the records of digits, scaled as `pea train` scales them."""
    raw = load_raw("digits", None, 0)
    (split,) = FeatureExtraction(keep=False).extract([raw], lambda *_: None)
    return split


def attacks(
    backend: str, epsilon: float, count: int
) -> Iterator[tuple[str, str, TrainConfig, Callable[[np.random.Generator], Game]]]:
    """Yields each attack's name, the fault of the runs, their settings, and what makes a game.

    There are count planted records, and the runs claim that epsilon.
    """
    for schedule in (WHOLE, SAMPLED):
        labels = planted_config(backend, count, epsilon, "replace", schedule)
        game = partial(planted, count, PARTIES, null=False)
        yield "planted labels", NO_FAULT, labels, game
        if backend == "clear":
            null = planted_config(backend, count, epsilon, "add-remove", schedule)
            yield "planted or null", NO_FAULT, null, partial(planted, count, PARTIES, null=True)
            for fault in FAULTS:
                yield "planted labels", fault, labels, game
    many = additive_config(backend, CANARY_COLUMNS, 2, epsilon, "equal")
    for fault in (NO_FAULT, LESS_NOISE) if backend == "clear" else ():
        yield "planted labels, additive", fault, many, partial(planted_in_table, many, count)
    pixels = additive_config(backend, PIXELS, 10, epsilon, "fine")
    logits = partial(additive, pixels)
    game = partial(natural, digits_table(pixels), PARTIES, logits_of=logits)
    yield "membership, digits, additive", NO_FAULT, pixels, game
    member = membership_config(backend, epsilon)
    yield "membership, digits", NO_FAULT, member, partial(natural, digits(), PARTIES)


@Benchmark(
    ACCOUNTING,
    "audit",
    "Attacks on released models",
    minutes=30,
    results=[
        Result(
            r"audit-epsilon-[\d.]+",
            "How much epsilon attacks on one run show at least (Steinke, Nasr and Jagielski, "
            "2023), at delta 1e-5 and 95 % confidence. **Every right run stays below its "
            "claim.** One that adds a tenth of the noise is above it, and so is one that leaves "
            "out clipping, if 2 or less is claimed.",
            options="--epsilon EPSILON",
            columns="host | attack | fault | epsilon, at least | if all were guessed | epsilon, "
            "claimed | above the claim",
            where="sample rate = 1",
        )
    ],
)
def main(
    backend: Annotated[
        list[str] | None,
        Option(help=f"One of {', '.join(HOSTS)}; once for each; by default all."),
        one_of(HOSTS),
    ] = None,
    epsilon: Annotated[float, Option(help="That the runs claim.")] = 2.0,
    canaries: Annotated[int, Option(help="Planted records, in plaintext."), Whole(6)] = 1000,
    canaries_secure: Annotated[int, Option(help="The same, on a host."), Whole(6)] = 240,
    seeds: Annotated[int, Option(help="Runs of each kind."), Whole(1)] = 3,
) -> Iterator[Table]:
    """Lower bounds of epsilon, from attacks on released models, beside the claimed ones."""
    draws = np.random.default_rng()
    rows, samples = [], []
    for each in backend or HOSTS:
        count = canaries if each == "clear" else canaries_secure
        for name, fault, config, make in attacks(each, epsilon, count):
            title = {"host": HOSTS[each], "attack": name, "fault": fault}
            found = [attack(config, make(draws), fault) for _ in range(seeds)]
            rows.append(title | row(config, found))
            samples.append(title | {"runs": found})
    yield Table(
        f"audit-epsilon-{epsilon:g}",
        rows,
        samples=samples,
        seeds=seeds,
        seed="the operating system's",
        epsilon=epsilon,
        delta=DELTA,
        significance=SIGNIFICANCE,
        parties=PARTIES,
        network="loopback",
    )
