"""The tutorials on a first table and its curves as they are typed, and what they promise."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

from extensions.data.schema import read_schema
from extensions.runs.model import read_opened
from extensions.runs.model.explaining import Effects, effects_of
from extensions.runs.model.terms import Term
from tests.helpers.pages import bash, blocks_of, typed
from tests.helpers.paths import ROOT
from tests.test_readme import free_ports

TUTORIALS = ROOT / "docs" / "tutorials"
PAGE = "".join((TUTORIALS / name).read_text() for name in ("first_table.md", "curves.md"))
BLOCKS = blocks_of(PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.mktemp("curves")
    (own / "printed").write_text(typed(own, [each for each in BLOCKS if each.kind != "again"]))
    return own


@pytest.fixture(scope="module")
def effects(folder: Path) -> Effects:
    return effects_of(read_opened(folder / "model" / "model.npz"))


def term_of(effects: Effects, name: str) -> Term:
    (term,) = (term for term in effects.terms if term.column == name)
    return term


def at(term: Term, value: float) -> float:
    """Returns what a value of a number's column adds."""
    assert term.edges is not None
    place = np.searchsorted(term.edges[1:-1], value, side="right")
    return float(term.values[0, place])


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def test_the_draft_finds_what_the_page_says(folder):
    draft, public = read_schema(folder / "draft.toml"), read_schema(folder / "schema.toml")
    names = ["age", "pressure", "creatinine", "height", "ward"]
    assert [column.name for column in draft.columns] == names
    assert [column.name for column in public.columns] == names
    assert draft.marks == public.marks == {"separator": ";", "decimal": ","}
    assert draft.columns[2].missing_values == ("n/a",)
    assert draft.target == public.target
    assert "left out: patient, " in (folder / "printed").read_text()
    assert "left out: admitted, dates" in (folder / "printed").read_text()


def test_the_training_says_what_the_page_says(folder):
    printed = (folder / "printed").read_text()
    (bins,) = {*re.findall(r"([0-9.]+ bins) of a column", PAGE)}
    ways = f"{bins} of a column", f"{bins} a column"
    assert [*map(printed.count, ways)] == [1, 1], "once before any record is read"
    assert "epsilon 1 of 1 asked at delta 1e-05, for one record; held-out records:\n" in printed
    assert "30 opened steps" in bash(folder, "pea budget north.csv")


def test_curves_are_those_of_the_program_that_made_the_files(effects):
    """Each difference is at least 5 of its deviations, less than half a million runs in one."""
    age, pressure, creatinine, height, ward = (
        term_of(effects, name) for name in ("age", "pressure", "creatinine", "height", "ward")
    )
    assert at(age, 80) > at(age, 40) + 0.6
    assert at(pressure, 170) > at(pressure, 125) + 0.4
    assert at(pressure, 85) > at(pressure, 125) + 0.1
    assert at(creatinine, 2) > at(creatinine, 0.5) + 0.6
    assert ward.labels[ward.values[0].argmax()].startswith("geriatrics")
    assert height.importance[0] < 0.2 * min(
        term.importance[0] for term in (age, pressure, creatinine)
    )


def test_the_page_of_curves_is_whole(folder):
    page = (folder / "curves.html").read_text()
    assert page.count("<img") == 5
    assert "epsilon 1, delta 1e-05" in page
    assert "A missing value adds " in page
    assert "http" not in page


def test_predictions_add_up(folder):
    found, patients = rows_of(folder / "explained.csv"), rows_of(folder / "south.csv", ";")
    assert [row["patient"] for row in found] == [row["patient"] for row in patients]
    for row in found:
        total = sum(float(row[name]) for name in row if name.startswith(("starts at", "adds ")))
        chance = 1 / (1 + math.exp(-total))
        assert float(row["probability yes"]) == pytest.approx(chance, abs=1e-6)
        assert row["prediction"] == ("yes" if total > 0 else "no")


def points_of(rows: list[dict[str, str]], patient: dict[str, str]) -> int:
    """Returns a patient's total, looked up in the printed table as a person would."""
    total = 0
    for name in ("", "age", "pressure", "creatinine", "height", "ward"):
        own = [row for row in rows if row["column"] == name]
        cell = patient.get(name, "start").replace(",", ".").replace("n/a", "missing")
        named = [row for row in own if cell in row["bin"].split(", ")]
        # Outside the range it is the nearer end, as the page says.
        above = [row for row in own if not named and ends(row)[0] <= float(cell)]
        total += int([*own[:1], *above, *named][-1]["points yes"])
    return total


def ends(row: dict[str, str]) -> tuple[float, float]:
    """Returns where a bin of numbers begins and ends; one of missing values alone has none."""
    low, _, high = row["bin"].partition(", ")[0].partition(" .. ")
    return (float(low), float(high)) if high else (math.inf, math.inf)


def test_points_added_by_hand_are_near(folder):
    *rows, last = rows_of(folder / "points.csv")
    unit, moved = (float(re.search(rf"{word} ([0-9.]+)", last["bin"])[1]) for word in ("is", "by"))
    assert f"1 / (1 + exp(-{unit:g} t))" in last["bin"]
    patients, found = rows_of(folder / "south.csv", ";"), rows_of(folder / "explained.csv")
    chances = np.array([float(row["probability yes"]) for row in found])
    total = np.array([points_of(rows, patient) for patient in patients])
    off = total * unit - np.log(chances / (1 - chances))
    assert np.abs(off).max() <= 6 * 0.51 * unit  # a start and five columns, half a point each
    assert np.sqrt(np.mean(off**2)) < 2 * moved + 0.5 * unit


@pytest.mark.long
def test_three_hosts_learn_one_model(folder, tmp_path):
    """By the page's second way: a key and a line a hospital, over TLS."""
    (again,) = (each for each in BLOCKS if each.kind == "again")
    for name in ("north.csv", "south.csv", "west.csv", "schema.toml"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    ports = f"ports=({' '.join(free_ports(3))})\n"
    assert "2950$i" in again.text
    printed = bash(tmp_path, ports + again.text.replace("2950$i", "${ports[i]}"))
    assert printed.count("privacy   epsilon 1 of 1 asked") == 3
    models = {(tmp_path / f"model-{rank}" / "model.npz").read_bytes() for rank in range(3)}
    assert len(models) == 1
