"""Columns of the same persons between CrypTen's parties: whole runs, their ends and their use."""

from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import write_parts
from tests.conftest import SHARED
from tests.extensions.runs.test_columns_runs import GIVEN, WHITE, made
from tests.helpers.arrays import arrays_of
from tests.helpers.columns import blocks
from tests.helpers.commands import pea, report_of

pytestmark = pytest.mark.xdist_group(SHARED["pools"])
SETTINGS = (
    *("--split", "columns", "--steps", 8, "--noise-multiplier", 4, "--delta", 1e-5, "--lr", 20),
    *("--max-grad-norm", 0.25, "--sample-rate", 1, "--insecure-fixed-randomness", 5),
    *("--momentum", 0, "--average", 0, "--bias-scale", 1, "--frac-bits", 20),
)
"""Those of `GIVEN`."""


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def check_shares(folder: Any, expected: Any) -> None:
    """The shares add up to the model of the clear run, but for rounding; none of them is it."""
    arrays = [arrays_of(path) for path in sorted(folder.iterdir())]
    for name, whole in zip(("weight_0", "bias_0"), expected["parameters"][0], strict=True):
        total = sum(each[name].view(np.uint64) for each in arrays).view(np.int64) / 2.0**20
        np.testing.assert_allclose(total, whole, rtol=0, atol=2e-3)
        assert min(np.abs(each[name]).max() for each in arrays) > 2**40


@pytest.mark.parametrize("provider", ["dealer", "parties"])
def test_parties_learn_of_their_columns_what_the_clear_run_learns(provider, tmp_path):
    parties = 3 if provider == "dealer" else 2
    expected = made(blocks(parties), split="columns", parties=parties, **WHITE)
    files = write_parts(blocks(parties), tmp_path / "own")
    paths = (word for r, path in enumerate(files) for word in ("--data-for-party", f"{r}={path}"))
    done = pea(
        *("train", *paths, *SETTINGS, "--parties", parties, "--provider", provider),
        *("--whiten", "--noise-multiplier-whiten", 5, "--save", tmp_path / "model"),
        *("--json", tmp_path / "report.json"),
    )
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "report.json")
    check_shares(tmp_path / "model", expected)
    assert abs(report["accuracy"] - expected["accuracy"]) <= 0.01
    assert report["columns"] == expected["columns"]
    assert report["rounds"] == 8 * 18 + 1, "no round for whitening, none for sharing"
    assert "x x^T" not in " ".join(report["opened"])
    assert GIVEN["steps"] == report["steps"]


TASK = "tests.helpers.party_tasks.columns"


def test_a_script_learns_of_columns_what_it_learns_of_whole_rows(pools):
    first, second = pools.run(2, f"{TASK}:trained")
    for name in ("columns", "pieces"):
        for own, other, rows in zip(first[name], second[name], first["rows"], strict=True):
            np.testing.assert_allclose(own, rows, rtol=0, atol=64)
            np.testing.assert_array_equal(own, other)


def test_a_script_whitens_its_own_columns_alone_and_its_ledger_has_one_map(pools):
    found = pools.run(2, f"{TASK}:whitened")
    assert found[0][0] != found[1][0]
    for _, ledger, opened, rounds, rows in found:
        assert (ledger, opened, rounds) == ([("whitening", 3.0)], [], 0)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


@pytest.mark.parametrize(
    ("case", "named"),
    [
        ("labels at none", "labels"),
        ("labels at both", "labels"),
        ("other persons", "records"),
        ("too long", "features records"),
        ("other steps", "steps"),
    ],
)
def test_columns_that_do_not_go_together_are_refused_at_every_party(case, named, pools):
    found = pools.run(2, f"{TASK}:refused", case=case)
    assert all(
        kind == "ArgumentError" and said.split()[0].rstrip(":") in named for kind, said in found
    ), found
