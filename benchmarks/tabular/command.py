"""``python -m benchmarks tables``: tables at epsilon, untuned, beside no privacy."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.benchmark import ACCURACY, Benchmark, Chart, Result
from benchmarks.tables import Table
from benchmarks.tabular.data import TABLES, Tabular
from extensions.data.datasets import Split, bounded_rows, split_among
from extensions.data.schema import encode_table
from extensions.options import Option
from extensions.ring.fixed_point import Reals
from extensions.rules import Whole
from extensions.runs.clear_training import train
from extensions.runs.config import CHOSEN, TrainConfig

HELD_OUT = 0.2
PARTIES = 3
GAP = 0.02
"""How far below logistic regression without privacy the mean may lie."""


@Benchmark(
    ACCURACY,
    "tables",
    "Tables, untuned",
    minutes=2,
    results=[
        Result(
            "tables",
            "The area under the ROC curve at epsilon 2, delta = 1 / (10 n), mean of ten splits, "
            "with the defaults of `pea train`, whose constants were chosen while looking at these "
            'tables. "Not private" is logistic regression; "no schema" are the columns as '
            "they stand. All five lie within 0.02 of no privacy.",
            columns="table | records | columns | AUC, not private | AUC at epsilon | standard "
            "deviation | gap | AUC at epsilon, no schema",
            chart=Chart(
                of="tables",
                labels=("table",),
                values=("AUC, not private", "AUC at epsilon"),
            ),
        )
    ],
)
def main(
    seeds: Annotated[int, Option(help="Splits of each table."), Whole(2)] = 10,
    epsilon: float = 2.0,
) -> Iterator[Table]:
    """AUC of five tables at epsilon, delta = 1 / (10 records), with the defaults of a schema."""
    rows, samples = [], {}
    for made in TABLES:
        tabular = made()
        found = [_measured(tabular, seed, epsilon) for seed in range(seeds)]
        samples[tabular.name] = found
        rows.append(_row(tabular, found))
        print(rows[-1], flush=True)
    yield Table(
        "tables",
        rows,
        samples=samples,
        seeds=seeds,
        epsilon=epsilon,
        parties=PARTIES,
        gap=GAP,
    )


def _row(tabular: Tabular, found: Sequence[dict[str, float]]) -> dict[str, Any]:
    """One table's line: means over its splits."""
    means = {name: statistics.mean(each[name] for each in found) for name in found[0]}
    gap = means["not private"] - means["private"]
    return {
        "table": tabular.name,
        "records": tabular.records,
        "columns": len(tabular.schema.features),
        "majority": means["majority"],
        "AUC, not private": means["not private"],
        "AUC at epsilon": means["private"],
        "standard deviation": statistics.stdev(each["private"] for each in found),
        "gap": gap,
        "within 0.02": "yes" if gap <= GAP else "no",
        "AUC at epsilon, no schema": means["no schema"],
    }


def _measured(tabular: Tabular, seed: int, epsilon: float) -> dict[str, float]:
    """The AUC on held-out records of one split, by method, and the majority's share of them."""
    schema = tabular.schema
    encoded = encode_table(schema, tabular.table)
    plain = unscaled(tabular)
    order = np.random.default_rng(seed).permutation(len(encoded.y))
    cut = round(HELD_OUT * len(order))
    test, train_rows = order[:cut], order[cut:]

    def split(x: Reals) -> Split:
        labels = encoded.y.astype(np.int64)
        return Split(
            train_x=x[train_rows], train_y=labels[train_rows], test_x=x[test], test_y=labels[test]
        )

    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    regression.fit(plain[train_rows], encoded.y[train_rows])
    truth = encoded.y[test]
    return {
        "majority": float(max(truth.mean(), 1 - truth.mean())),
        "not private": float(roc_auc_score(truth, regression.decision_function(plain[test]))),
        "private": _private(split(encoded.x), epsilon),
        "no schema": _private(split(bounded_rows(_as_written(tabular))), epsilon),
    }


def unscaled(tabular: Tabular) -> Reals:
    """Returns what the schema makes of the columns, before rows are scaled."""
    columns = tabular.schema.columns
    return np.hstack([column.encode(tabular.table[column.name])[0] for column in columns])


def _as_written(tabular: Tabular) -> Reals:
    """The numbers of the table as they are; what is none is 0, or a category's place."""
    columns = []
    for column in tabular.schema.columns:
        cells = tabular.table[column.name]
        places = {name: place for place, name in enumerate(sorted({str(each) for each in cells}))}
        try:
            columns.append([float(each or 0) for each in cells])
        except ValueError:
            columns.append([float(places[str(each)]) for each in cells])
    return np.array(columns).T


def _private(split: Split, epsilon: float) -> float:
    """The AUC of a model trained by default on the clear host, whose arithmetic hosts have."""
    config = TrainConfig(
        backend="clear",
        parties=PARTIES,
        classes=2,
        epsilon=epsilon,
        delta=1 / (10 * len(split.train_x)),
        evaluate="opened",
        chosen=CHOSEN,
    ).resolved(records=len(split.train_x))
    ((weight, bias),) = train(config, split_among(split, PARTIES), lambda _: None)["parameters"]
    logits = split.test_x @ np.asarray(weight).T + np.asarray(bias)
    return float(roc_auc_score(split.test_y, logits[:, 1] - logits[:, 0]))
