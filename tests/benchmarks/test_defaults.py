"""Defaults are measured as they are typed, beside the best of many settings on the same records."""

import json

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.__main__ import Benchmarks
from benchmarks.defaults import constant
from benchmarks.defaults.subjects import TABLES, imbalanced, subject
from extensions.data.schema import encode_table, read_schema


@pytest.fixture
def own_results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_defaults_of_a_table_are_recorded_and_lines_of_others_stay(tmp_path, own_results):
    for mode in ("never", "each-step"):
        options = ["--data", "wine", "--epsilon", "2", "--seeds", "2", "--open", mode]
        Benchmarks.call("benchmarks", "defaults", *options, "--record")
    written = json.loads((tmp_path / "defaults.json").read_text())
    first, second = written["rows"]
    assert (first["open"], second["open"]) == ("never", "each-step")
    assert first["records"] == 142
    assert first["measure"] == "auc"
    sample = written["samples"]["wine, never, 2"]
    assert first["by default"] == pytest.approx(np.mean(sample["by default"]))
    assert first["best known"] == max(sample["others"].values())
    assert sample["chosen"]["steps"] == 20


def test_the_plain_copy_learns_what_the_clear_backend_learns(tmp_path, own_results):
    options = ["--data", "breast", "--epsilon", "2", "--seeds", "3", "--open", "never"]
    Benchmarks.call("benchmarks", "defaults", *options, "--record")
    written = json.loads((tmp_path / "defaults.json").read_text())
    sample = written["samples"]["breast, never, 2"]
    titles = [title for title in sample["others"] if title.startswith("C 0.5, bias 0.25, lr ")]
    nearest = min(titles, key=lambda each: abs(float(each.split()[-1]) - sample["chosen"]["lr"]))
    assert float(nearest.split()[-1]) == pytest.approx(sample["chosen"]["lr"], rel=0.02)
    assert sample["others"][nearest] == pytest.approx(written["rows"][0]["by default"], abs=0.02)


@pytest.mark.parametrize("name", ["breast", "wine", "diabetes", "loans", "visits", "imbalanced"])
def test_a_table_is_written_so_that_its_file_and_schema_give_the_same_records(tmp_path, name):
    known = subject(name, tmp_path)
    made = TABLES[name]()
    path = tmp_path / known.options[3]
    assert encode_table(read_schema(path), made.table).x.shape[0] == made.records
    assert known.records == made.records - round(0.2 * made.records)


def test_few_of_the_imbalanced_table_are_positive():
    y = encode_table(imbalanced().schema, imbalanced().table).y
    assert len(y) == 2_100
    assert 0.10 < y.mean() < 0.14


def test_noise_moves_a_logit_by_the_constant_at_its_rate():
    x, y = np.zeros((1_000, 1)), np.arange(1_000) % 2
    config = constant._config(x, y, 2.0)
    rate = constant._rates(config, 1_000)[constant.MULTIPLES.index(1.0)]
    draw = np.random.default_rng(0)
    ones, none = np.eye(1, 2_000), np.zeros((800, 1))
    rows = np.repeat(ones, 800, axis=0) * 0
    models = constant._trained(rows, none, config, [rate], draw)
    assert models.std() == pytest.approx(constant.ONE_OUTPUT, rel=0.08)
