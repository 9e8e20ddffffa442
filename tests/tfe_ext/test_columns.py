"""Columns of the same persons on ABY3's servers: a whole run, and what it sends."""

import json

import pytest

from extensions.data.datasets import write_parts
from tests.conftest import SHARED
from tests.crypten_ext.test_columns import SETTINGS, check_shares
from tests.extensions.runs.test_columns_runs import WHITE, made
from tests.helpers.columns import blocks
from tests.helpers.commands import report_of
from tests.tfe_ext.test_cli import typed
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [pytest.mark.xdist_group(SHARED["tfe_process"]), needs_tensorflow]
TASKS = "tests.helpers.tfe_tasks.columns"


def test_servers_learn_of_their_columns_what_the_clear_run_learns(tmp_path, tfe_process):
    expected = made(blocks(3), split="columns", **WHITE)
    files = write_parts(blocks(3), tmp_path / "own")
    paths = (word for r, path in enumerate(files) for word in ("--data-for-party", f"{r}={path}"))
    status, _, err = typed(
        tfe_process,
        *("train", "--backend", "tfe", *paths, *SETTINGS, "--whiten"),
        *("--noise-multiplier-whiten", 5, "--save", tmp_path / "model", "--budget", "none"),
        *("--json", tmp_path / "report.json"),
    )
    assert status == 0, err
    report = report_of(tmp_path / "report.json")
    check_shares(tmp_path / "model", expected)
    assert abs(report["accuracy"] - expected["accuracy"]) <= 0.01
    assert report["rounds"] == 8 * 18 + 1, "the columns are shared once"


def test_a_plan_counts_columns_that_are_shared_once(tmp_path, tfe_process):
    status, _, err = typed(
        tfe_process,
        *("plan", "--backend", "tfe", "--records", 240, "--columns", 64, "--split", "columns"),
        *("--steps", 8, "--epsilon", 2, "--delta", 1e-4, "--json", tmp_path / "plan.json"),
    )
    assert status == 0, err
    found = json.loads((tmp_path / "plan.json").read_text())
    once = found["run"]["bytes"] - 8 * found["step"]["bytes"]
    assert 240 * 64 * 8 / 2 < once < 2 * 240 * 64 * 8


def test_a_model_of_keras_learns_of_columns_what_it_learns_of_whole_rows(tfe_process):
    rounds, whole = tfe_process.run(f"{TASKS}:columns_make_the_steps_of_whole_rows")
    assert rounds <= whole


def test_a_model_of_keras_refuses_columns_that_do_not_go_together(tfe_process):
    tfe_process.run(f"{TASKS}:columns_that_do_not_go_together_are_refused")
