"""What the defaults are measured on: options that name the data, and nothing of the settings."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federated.leakage.images import cifar100
from benchmarks.tabular import data as tabular
from benchmarks.tabular.data import Tabular
from extensions.data.datasets import find_folder
from extensions.data.datasets.cifar10 import read_cifar10
from extensions.data.schema import Category, Cells, Number, Schema, Target
from extensions.data.schema.schema import to_toml

IMBALANCED = 20281128
"""Seed."""
RECORDS = {"digits": 1_438, "mnist": 60_000, "imdb": 25_000, "cifar10": 12_000, "cifar100": 400}
"""Training records of data that are no tables; of CIFAR-10 the first ones, whatever there are."""
TESTED = 3_000
"""Of CIFAR-10's test records the first, since features of both networks take minutes."""
FIVE = 5
"""Of each class of CIFAR-100 so many images are there, of which one is held out."""


@dataclass(frozen=True)
class Subject:
    """Data as `pea train` is told of them.

    Attributes:
        options: that name them.
        records: number of training records.
        measure: of the report.
    """

    options: tuple[str, ...]
    records: int
    measure: str = "accuracy"


def subject(name: str, folder: Path) -> Subject:
    """Returns the data of that name, of which files are written to the folder where needed."""
    if name in TABLES:
        return _written(TABLES[name](), folder)
    if name.startswith("cifar"):
        path = folder / f"{name}.npz"
        np.savez(path, **(_part_of_cifar10() if name == "cifar10" else _parts_of_cifar100()))
        return Subject(("--data", f"npz:{path}"), RECORDS[name])
    return Subject(("--data", name), RECORDS[name])


def _written(made: Tabular, folder: Path) -> Subject:
    """A table as a file, with its schema."""
    path = folder / f"{made.name.split()[0].rstrip(',')}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(made.table)
        writer.writerows(zip(*made.table.values(), strict=True))
    schema = path.with_suffix(".toml")
    schema.write_text(to_toml(made.schema), encoding="utf-8")
    options = ("--data", f"csv:{path}", "--schema", str(schema))
    return Subject(options, made.records - round(made.records / 5), "auc")


def _part_of_cifar10() -> dict[str, Any]:
    whole, many = read_cifar10(None, False), RECORDS["cifar10"]
    train = {"train_x": whole.train_x[:many], "train_y": whole.train_y[:many]}
    return {**train, "test_x": whole.test_x[:TESTED], "test_y": whole.test_y[:TESTED]}


def _parts_of_cifar100() -> dict[str, Any]:
    images = cifar100()
    x = (images.x.numpy().transpose(0, 2, 3, 1) * 255).round().astype(np.uint8)
    y, test = images.y.numpy(), np.arange(len(x)) % FIVE == 0
    return {"train_x": x[~test], "train_y": y[~test], "test_x": x[test], "test_y": y[test]}


def imbalanced(records: int = 2_100) -> Tabular:
    """Returns a table of weak signal, one in eight positive: eight numbers, of which four tell."""
    draw = np.random.default_rng(IMBALANCED)
    x = draw.normal(size=(records, 8))
    logit = x[:, :4] @ np.array([0.45, 0.35, -0.3, 0.2]) - 2.2
    happened = draw.uniform(size=records) < 1 / (1 + np.exp(-logit))
    table: dict[str, Cells] = {f"x{i}": x[:, i].round(3).astype(object) for i in range(8)}
    table["ill"] = np.where(happened, "yes", "no").astype(object)
    columns = tuple(Number(name=f"x{i}", low=-3, high=3, outside="clip") for i in range(8))
    target = Target(column="ill", classes=("no", "yes"))
    return Tabular("imbalanced", table, Schema(basis="public", target=target, columns=columns))


ADULT = (
    Number(name="age", low=17, high=90, outside="clip"),
    Number(name="fnlwgt", low=0, high=1.5e6, scale="log1p", outside="clip"),
    Number(name="education-num", low=1, high=16, outside="clip"),
    Number(name="capital-gain", low=0, high=1e5, scale="log1p", outside="clip"),
    Number(name="capital-loss", low=0, high=5e3, scale="log1p", outside="clip"),
    Number(name="hours-per-week", low=1, high=99, outside="clip"),
)
"""Ranges that are publicly known; all other columns are of categories."""


def adult() -> Tabular:
    """Returns the census table, whose target is whether somebody earns above 50,000 dollars."""
    path = find_folder("adult", None, download=False, files="adult.csv.gz") / "adult.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        names, *rows = list(csv.reader(file))
    cells = np.array(rows, dtype=object).T
    table: dict[str, Cells] = dict(zip(names, cells, strict=True))
    *others, target = names
    numbers = {column.name: column for column in ADULT}
    schema = Schema(
        basis="public",
        target=Target(column=target, classes=("<=50K", ">50K")),
        columns=tuple(numbers.get(name) or _categories(name, table[name]) for name in others),
    )
    return Tabular("Adult", table, schema)


def _categories(name: str, cells: Cells) -> Category:
    there = tuple(sorted({*cells} - {"?"}))
    marks = ("?",)
    return Category(name=name, categories=there, missing="indicator", missing_values=marks)


TABLES: dict[str, Callable[[], Tabular]] = {
    "adult": adult,
    "breast": tabular.breast_cancer,
    "wine": tabular.wine,
    "diabetes": tabular.diabetes,
    "loans": tabular.loans,
    "visits": tabular.visits,
    "imbalanced": imbalanced,
}
