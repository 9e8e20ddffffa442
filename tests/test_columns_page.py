"""Every command of docs/tutorials/columns.md, each role in a folder and processes of its own."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from extensions.data.aligned import Alignment
from extensions.runs.budget import path_of, read
from extensions.runs.model import read_shares
from tests.helpers.paths import ROOT
from tests.helpers.roles import Roles

PAGE = (ROOT / "docs" / "tutorials" / "columns.md").read_text()
ROLES = ("bank", "telecom", "insurer", "helper")
COMMON = 900
"""Persons whom all three owners have, of 1,000 each."""

pytestmark = pytest.mark.long


def write_tables(folder: Path) -> None:
    """People with a number each; an owner lacks some of them, and has its own order."""
    draws = np.random.default_rng(4)
    people = 1200
    columns = {
        "income": draws.uniform(1e4, 1.5e5, people).round(),
        "debt": draws.uniform(0, 1e5, people).round(),
        "minutes": draws.uniform(0, 3000, people).round(),
        "late_bills": draws.integers(0, 13, people),
        "age": draws.integers(18, 91, people),
        "claims": draws.integers(0, 11, people),
    }
    risk = columns["debt"] / 1e5 - columns["income"] / 1.5e5 + columns["late_bills"] / 6
    risk += columns["claims"] / 10 + draws.normal(0, 0.2, people)
    columns["defaulted"] = np.where(risk > np.median(risk), "yes", "no")
    whose = {"bank": ("income", "debt", "defaulted"), "telecom": ("minutes", "late_bills")}
    whose["insurer"] = ("age", "claims")
    for place, (owner, names) in enumerate(whose.items()):
        others = COMMON + 100 * place + np.arange(100)
        rows = draws.permutation([*range(COMMON), *others])
        with (folder / owner / "customers.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["national_id", *names])
            writer.writerows([f"{70_000 + i:07d}", *(columns[n][i] for n in names)] for i in rows)


def test_the_page_as_it_is_typed(tmp_path):
    roles = Roles(tmp_path, ROLES)
    write_tables(tmp_path)
    printed = [*roles.play(PAGE)]
    orders = [Alignment.read(tmp_path / role / "alignment.json") for role in ROLES[:3]]
    assert {(one.order, one.rows) for one in orders} == {(orders[0].order, COMMON)}
    run = next(said for said in printed if "accuracy" in said.get("bank", ""))
    assert all("for what other owners do not" in out for out in run.values())
    assert float(re.findall(r"accuracy +([\d.]+)", run["bank"])[0]) > 0.75
    for rank, role in enumerate(ROLES[:3]):
        header = read_shares(tmp_path / role / "model" / f"party-{rank}.npz").header
        assert (header.widths, header.rank) == ((2, 2, 2), rank)
        assert header.columns == {0: ("income", "debt"), 1: ("minutes", "late_bills")}.get(
            rank, ("age", "claims")
        )
        kept = read(path_of(tmp_path / role / "customers.csv"))
        assert [bool(entry.aligned) for entry in kept.entries] == [True, False]
    rows, others, truth = (
        [*csv.DictReader((tmp_path / "bank" / name).read_text().splitlines())]
        for name in ("predicted.csv", "by-parts.csv", "aligned.csv")
    )
    assert len(rows) == len(others) == COMMON
    for one, other in zip(rows, others, strict=True):
        assert abs(float(one["logit yes"]) - float(other["logit yes"])) < 1e-3
    right = sum(row["prediction"] == own["defaulted"] for row, own in zip(rows, truth, strict=True))
    assert right > 0.75 * COMMON
    assert not [*(tmp_path / "telecom").glob("*predicted*"), *(tmp_path / "helper").rglob("*.npz")]
