"""Two tables made by public seeds: categories, missing values and few records of one class."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from extensions.data.schema import Category, Cells, Number, Schema, Table, Target

LOANS, VISITS = 20230521, 20230522
"""Seeds."""

LOANS_SCHEMA = Schema(
    basis="public",
    target=Target(column="defaulted", classes=("no", "yes")),
    columns=(
        Number(name="age", low=20, high=75, outside="clip"),
        Number(name="income", low=1e4, high=1e5, scale="log", outside="clip", missing="indicator"),
        Category(name="region", categories=("north", "east", "south", "west"), missing="indicator"),
        Category(name="job", categories=("a", "b", "c", "d", "e")),
        Number(name="delays", low=0, high=6, outside="clip"),
    ),
)
VISITS_SCHEMA = Schema(
    basis="public",
    target=Target(column="readmitted", classes=("no", "yes")),
    columns=(
        Number(name="age", low=20, high=90, outside="clip"),
        Category(name="ward", categories=("surgery", "cardiology", "geriatrics"), outside="clip"),
        Number(name="days", low=1, high=30, scale="log", outside="clip"),
        Number(name="pressure", low=90, high=170, outside="clip", missing="indicator"),
        Number(name="marker", low=0.3, high=8, scale="log", outside="clip", missing="indicator"),
        Category(name="smoker", categories=("no", "yes"), missing="indicator"),
        Number(name="drugs", low=0, high=10, outside="clip"),
    ),
)


def loans(records: int = 3000) -> Table:
    """Returns loans of which one in twelve defaults; income and region are missing now and then."""
    draw = np.random.default_rng(LOANS)
    age = np.clip(draw.normal(45, 14, records), 18, 95)
    income = np.exp(draw.normal(10.3, 0.6, records))
    region = draw.choice(4, records, p=[0.4, 0.3, 0.2, 0.1])
    job, delays = draw.choice(5, records), draw.poisson(2.5, records)
    logit = 0.045 * (age - 45) - 0.9 * (np.log(income) - 10.3) + 0.35 * (delays - 2.5) - 3.1
    logit += np.array([0.0, 0.5, -0.5, 1.2])[region] + np.array([0.0, 0.8, -0.6, 0.3, -0.9])[job]
    return _table(
        draw,
        {
            "age": (age.round(1), 0.0),
            "income": (income.round(), 0.15),
            "region": (np.array(["north", "east", "south", "west"])[region], 0.1),
            "job": (np.array([*"abcde"])[job], 0.0),
            "delays": (delays, 0.0),
            "defaulted": (_outcome(draw, logit), 0.0),
        },
    )


def visits(records: int = 1500) -> Table:
    """Returns stays of which one in five is followed by another; much of them was not measured."""
    draw = np.random.default_rng(VISITS)
    age = np.clip(draw.normal(62, 16, records), 18, 100)
    ward = draw.choice(3, records, p=[0.5, 0.3, 0.2])
    days = np.ceil(np.exp(draw.normal(1.5, 0.8, records)))
    pressure = draw.normal(130, 18, records)
    marker = np.exp(draw.normal(0.4, 0.8, records))
    smoker, drugs = draw.choice(2, records, p=[0.7, 0.3]), draw.poisson(4, records)
    logit = 0.03 * (age - 62) + 0.5 * (np.log(days) - 1.5) + 0.02 * (pressure - 130)
    logit += 0.8 * (np.log(marker) - 0.4) + 0.6 * smoker + 0.12 * (drugs - 4) - 2.0
    logit += np.array([0.0, 0.5, 1.0])[ward]
    return _table(
        draw,
        {
            "age": (age.round(), 0.0),
            "ward": (np.array(["surgery", "cardiology", "geriatrics"])[ward], 0.0),
            "days": (days, 0.0),
            "pressure": (pressure.round(), 0.2),
            "marker": (marker.round(2) + 0.01, 0.3),
            "smoker": (np.array(["no", "yes"])[smoker], 0.15),
            "drugs": (drugs, 0.0),
            "readmitted": (_outcome(draw, logit), 0.0),
        },
    )


def _outcome(draw: np.random.Generator, logit: npt.NDArray[np.float64]) -> npt.NDArray[np.str_]:
    happened = draw.uniform(size=len(logit)) < 1 / (1 + np.exp(-logit))
    return np.where(happened, "yes", "no")


def _table(
    draw: np.random.Generator, columns: Mapping[str, tuple[npt.NDArray[np.generic], float]]
) -> dict[str, Cells]:
    """The columns as a file has them, of which some values are missing at random."""
    table = {}
    for name, (values, missing) in columns.items():
        cells = values.astype(object)
        cells[draw.uniform(size=len(cells)) < missing] = ""
        table[name] = cells
    return table
