"""What is told of a run in a few lines, and of its progress in one."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from extensions.cli import console
from extensions.runs.config import TrainConfig
from extensions.runs.summaries.result import WIDTH, left_of, result_lines
from tests.helpers.commands import pea, report_of

CLASSES: dict[str, Any] = {
    "accuracy": 0.8812,
    "accuracy_interval": [0.851, 0.911],
    "majority": 0.8809,
    "auc": 0.6525,
    "auc_interval": [0.61, 0.6949],
    "auc_interval_population": [0.561, 0.7441],
    "prevalence": {"no": 0.8809, "yes": 0.1191},
    "recall_at_prevalence": {"no": 0.9, "yes": 0.2441},
    "recall": {"no": 1.0, "yes": 0.0},
    "precision": {"no": 0.881, "yes": None},
}
RUN: dict[str, Any] = {
    "epsilon": 1.99994,
    "epsilon_asked": 2.0,
    "delta": 1e-5,
    "held_out_epsilon": 0.7255,
    "records": [12_000, 11_000, 11_321],
    "held_out_records": [3000, 2750, 2830],
    "unit": None,
    "rows_per_person": None,
    "seconds": 3712.56,
    "rounds": 216_000,
    "bytes_per_party": 149e9,
    "opened": ["the model"],
}
BUDGET = {
    "ledger": "/a/h.csv.budget.json",
    **{"epsilon": 5.0, "delta": 1e-3, "counted": 2.7007, "left": 2.2993},
}


def said(report: dict[str, Any], *written: str) -> dict[str, str]:
    """Returns the lines' texts by label, those that go on in one."""
    found: dict[str, str] = {}
    for line in result_lines(report, written):
        assert len(line) <= WIDTH, line
        label = line[:10].strip() or [*found][-1]
        found[label] = f"{found.get(label, '')} {line[10:]}".strip()
    return found


def test_a_model_of_two_classes_is_told_in_eight_lines():
    lines = said(CLASSES | RUN, "model: m/model.npz", "report: r.json")
    assert len(result_lines(CLASSES | RUN)) <= 8
    assert [*lines] == ["accuracy", "AUC", "recall", "privacy", "run", "opened"]
    for label, numbers in {
        "accuracy": ["0.881", "0.85", "0.91", "0.881"],
        "AUC": ["0.652", "0.61", "0.69", "0.56", "0.74"],
        "recall": ["yes: 0.000", "none predicted", "0.244", "11.9%"],
        "privacy": ["epsilon 2 of 2 asked", "delta 1e-05", "one record", "0.726"],
        "run": ["34,321 records", "8,580 held out", "3712.6 s", "216,000 rounds", "149.0 GB"],
        "opened": ["the model", "model: m/model.npz", "report: r.json"],
    }.items():
        for number in numbers:
            assert number in lines[label], (label, number)


def test_measures_of_exact_counts_have_no_interval_of_these_records():
    exact = {**CLASSES, "accuracy_interval": None, "auc_interval": None} | RUN
    lines = said({**exact, "held_out_epsilon": None})
    assert lines["accuracy"].startswith("0.881; ")
    assert lines["AUC"] == "0.652 (all such records 0.56..0.74)"
    assert "held-out" not in lines["privacy"]


def test_a_number_is_told_beside_the_mean():
    report = {"rmse": 12.345, "rmse_of_mean": 16.1, "r2": 0.42, "r2_interval": [0.3, 0.5]}
    lines = said({**report, **RUN})
    assert lines["R2"] == "0.420 (95 %: 0.30..0.50)"
    assert "12.35" in lines["rmse"] or "12.34" in lines["rmse"]
    assert "16.1" in lines["rmse"]
    assert "accuracy" not in lines


def test_a_measure_that_may_be_any_is_unknown():
    wide = {"auc": None, "auc_interval": [0.0, 1.0], "auc_interval_population": [0.0, 1.0]}
    assert said({**CLASSES, **wide, **RUN})["AUC"].startswith("unknown (")
    none = {"rmse": 1.0, "rmse_of_mean": 1.0, "r2": None, "r2_interval": [float("-inf"), 1.0]}
    assert said({**none, **RUN})["R2"] == "unknown (95 %: -inf..1.00)"


@pytest.mark.parametrize(("rows", "told"), [([200, 184], "384 rows"), (None, "at most 4 rows")])
def test_persons_and_rows_are_named_apart(rows, told):
    unit = "a person of column who, with at most 4 rows at each owner; one whom several have"
    persons = {"records": [60, 60], "rows_per_person": 4, "unit": unit, "held_out_records": [40, 7]}
    lines = said({**RUN, **persons, **({} if rows is None else {"training_rows": rows})})
    assert "120 persons" in lines["run"]
    assert told in lines["run"]
    assert "47 rows of other persons held out" in lines["run"]
    assert "a person of column who" in lines["privacy"]


def test_a_run_without_privacy_and_one_of_infinite_epsilon_say_so():
    assert "none" in said({**RUN, "epsilon": None, "held_out_epsilon": None})["privacy"]
    assert "infinite" in said({**RUN, "epsilon": float("inf"), "epsilon_asked": None})["privacy"]


def test_a_count_after_the_run_has_what_it_cost():
    counted = {"held_out_epsilon": 0.73, "delta": 1e-5, "held_out_records": [10, 1190]}
    lines = said({**CLASSES, **counted, "opened": ["the model"]})
    assert "0.73 at delta 1e-05, for one record" in lines["privacy"]
    assert lines["run"] == "1,200 held-out records"
    exact = said({**CLASSES, **counted, "held_out_epsilon": None, "delta": None})
    assert "privacy" not in exact


def test_settings_of_a_rule_are_shown_in_one_line():
    few = {"steps": 15, "lr": 53.4123}
    assert said({**RUN, "chosen": few})["settings"] == "lr 53.4 (rule), steps 15 (rule)"
    names = ("momentum", "average", "bias_scale", "whiten", "one_output", "features")
    many = {**few, "sample_rate": 1.0, "max_grad_norm": 0.5} | dict.fromkeys(names, True)
    text = said({**RUN, "chosen": many})["settings"]
    assert text.startswith("lr 53.4 (rule), steps 15 (rule), sample_rate 1 (rule)")
    assert len(text) <= WIDTH - 10
    shown = text.count("(rule)")
    assert text.endswith(f"and {len(many) - shown} more")


def test_what_is_left_of_each_cap_is_the_cap_less_what_is_counted():
    text = said({**RUN, "budgets": [BUDGET, {**BUDGET, "ledger": "other.budget.json"}]})["left"]
    assert "2.299 = cap 5 - 2.701 (h.csv.budget.json, delta 0.001)" in text
    assert "(other.budget.json, " in text
    assert text.count("filter") == 1
    assert left_of([]) == ""
    assert left_of([{**BUDGET, "left": 0.0, "counted": 7.0}]).startswith("0, cap 5 - 7")


def test_long_paths_are_not_broken():
    path = "/".join(["a-folder-of-a-long-name"] * 6)
    assert any(path in line for line in result_lines(RUN, [f"model: {path}"]))


def shown_progress(width: int, steps: int, sent: float, monkeypatch) -> list[str]:
    """Returns what a console of that width shows of a run, without colours."""
    file = io.StringIO()
    terminal = Console(file=file, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(console, "_err", terminal)
    config = TrainConfig(steps=steps, noise_multiplier=2.0, delta=1e-5)
    with console.progress(config) as show:
        for step in (1, steps // 2, steps):
            traffic = {"bytes": sent * step, "largest": 1.1 * sent * step, "padding": sent * step}
            show({"step": step, "rounds": 18 * step, **traffic})
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if "step" in line]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(("steps", "sent"), [(20, 1.2e6), (2000, 1.2e6), (120_000, 175e6)])
def test_progress_keeps_step_epsilon_and_time_left(width, steps, sent, monkeypatch):
    lines = shown_progress(width, steps, sent, monkeypatch)
    last = lines[-1]
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)
    assert re.match(rf"step {steps}/{steps} .* epsilon (<= \d+\.\d\d|infinite) \d:\d\d:\d\d", last)
    assert ("MB a party" in last) or width < 120


def test_of_rounds_and_bytes_progress_shows_what_fits(monkeypatch):
    texts = {width: shown_progress(width, 2000, 1.2e6, monkeypatch)[-1] for width in (60, 80, 120)}
    assert "rounds" in texts[60]
    assert "MB" not in texts[60]
    assert "MB a party" in texts[80]
    assert "padding" not in texts[80]
    assert "padding" in texts[120]


def test_the_command_is_short_unless_all_is_asked_for(tmp_path):
    run = ("train", "--backend", "clear", "--noise-multiplier", 2, "--delta", 1e-5, "--steps", 3)
    out = tmp_path / "report.json"
    brief = pea(*run, "--evaluate", "opened", "--save", tmp_path / "model", "--json", out)
    assert brief.returncode == 0, brief.stderr
    lines = brief.stdout.splitlines()
    assert 4 <= len(lines) <= 9
    assert f"{report_of(out)['accuracy']:.3f}" in lines[0]
    whole = brief.stdout.replace("\n", " ")
    for path in (tmp_path / "model" / "model.npz", out):
        assert str(path) in whole
    everything = pea(*run, "--verbose")
    assert len(everything.stdout.splitlines()) > 20
    assert "noise multiplier" in everything.stdout
