"""Every command of docs/tutorials/columns.md, each role in a folder and processes of its own."""

import csv
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.aligned import Alignment
from extensions.runs.budget import path_of, read
from extensions.runs.model import read_shares
from tests.helpers.federations import listeners
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE

PAGE = (ROOT / "docs" / "tutorials" / "columns.md").read_text()
ROLES = ("bank", "telecom", "insurer", "helper")
COMMON = 900
"""Persons whom all three owners have, of 1,000 each."""

pytestmark = pytest.mark.long


def steps() -> list[tuple[str, str, list[str], str]]:
    """Returns the blocks of the page: kind, file, roles and text."""
    pattern = r"<!-- (?:file: (\S+) |(stays|together) )?at: ([a-z ]+) -->\n```\w+\n(.*?)```"
    found = re.findall(pattern, PAGE, flags=re.DOTALL)
    return [
        ("file" if file else kind or "typed", file, at.split(), text)
        for file, kind, at, text in found
    ]


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


class Roles:
    """Who types the page's commands, each in its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._known = folder, dict[str, str]()
        for role in ROLES:
            (folder / role).mkdir()
        with_ports = listeners(len(ROLES))
        ports = [place.getsockname()[1] for place in with_ports]
        for place in with_ports:
            place.close()
        self._at = {f"10.77.0.{i + 1}:7000": f"127.0.0.1:{port}" for i, port in enumerate(ports)}

    def start(self, role: str, text: str) -> subprocess.Popen[str]:
        for given, here in self._at.items():
            text = text.replace(given, here)
        own = {"NAME": role, "RANK": str(ROLES.index(role)), "PYTHONPATH": str(ROOT)}
        own |= {"XDG_STATE_HOME": str(self._folder / role / "state"), "COLUMNS": "200"}
        own["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", "-ec", text],
            cwd=self._folder / role,
            env={**os.environ, **own, **self._known},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def typed(self, roles: list[str], text: str) -> dict[str, str]:
        """Returns what each of them is shown; all type at once."""
        shells = {role: self.start(role, text) for role in roles}
        found = {}
        for role, shell in shells.items():
            out, err = shell.communicate(timeout=PATIENCE)
            assert shell.returncode == 0, f"{role}: {err}"
            found[role] = out + err
            if "pea keys" in text:
                self._known[role.upper()] = out.split()[-1]
        return found

    @contextmanager
    def staying(self, role: str, text: str) -> Any:
        shell = self.start(role, text)
        try:
            yield
        finally:
            os.killpg(shell.pid, 15)
            shell.communicate(timeout=PATIENCE)


def test_the_page_as_it_is_typed(tmp_path):
    roles, printed = Roles(tmp_path), list[dict[str, str]]()
    write_tables(tmp_path)
    page = steps()
    stays = next(i for i, step in enumerate(page) if step[0] == "stays")
    for kind, file, at, text in page[:stays]:
        if kind == "file":
            (tmp_path / at[0] / file).write_text(text)
        else:
            printed.append(roles.typed(at, text))
    (_, _, (helper,), dealing) = page[stays]
    with roles.staying(helper, dealing):
        for _, _, at, text in page[stays + 1 :]:
            printed.append(roles.typed(at, text))
    orders = [Alignment.read(tmp_path / role / "alignment.json") for role in ROLES[:3]]
    assert {(one.order, one.rows) for one in orders} == {(orders[0].order, COMMON)}
    run = next(said for said in printed if "accuracy" in said["bank"])
    assert all("what co-owners do not know" in out for out in run.values())
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
