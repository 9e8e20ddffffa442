"""`pea train --again`: the options of a report make the run once more."""

import json
from pathlib import Path

import pytest

from tests.helpers.commands import pea, report_of

RUN = ("train", "--backend", "clear", "--parties", 2, "--steps", 3)
PRIVATE = ("--noise-multiplier", 1.0, "--delta", 1e-5)
SEEDED = ("--insecure-fixed-randomness", 7)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(*arguments):
    """The report of a run, and what it printed."""
    done = pea(*arguments, "--json", "report.json")
    assert done.returncode == 0, done.stderr
    return report_of(Path("report.json")), done.stderr


def refused(*arguments):
    done = pea("train", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_with_the_same_seed_it_is_the_same_run(in_folder):
    first, _ = reported(*RUN, *PRIVATE, *SEEDED)
    (in_folder / "report.json").rename("first.json")
    again, told = reported("train", "--again", "first.json")
    assert "that is repeated" not in told
    timeless = {"seconds": None, "phases": None}
    assert {**again, **timeless} == {**first, **timeless}


def test_noise_is_drawn_anew_and_results_go_where_they_are_asked_to(in_folder):
    opened = ("--evaluate", "opened", "--save", "one", "--checkpoint", "kept")
    report, _ = reported(*RUN, *PRIVATE, *opened)
    (in_folder / "report.json").rename("first.json")
    assert report["options"] == {
        **{"backend": "clear", "parties": 2, "steps": 3, "evaluate": "opened"},
        **{"noise-multiplier": 1.0, "delta": 1e-5},
    }
    done = pea("train", "--again", "first.json", "--save", "other")
    assert done.returncode == 0, done.stderr
    assert not (in_folder / "report.json").exists()
    models = [(in_folder / name / "model.npz").read_bytes() for name in ("one", "other")]
    assert models[0] != models[1]


def test_the_command_line_wins_then_the_file_of_options_then_the_report(in_folder):
    reported(*RUN, *PRIVATE)
    (in_folder / "run.toml").write_text("steps = 4\nlr = 3.0\n")
    for files in (
        ("--again", "report.json", "--config", "run.toml"),
        ("--config", "run.toml", "--again", "report.json"),
    ):
        report, _ = reported("train", *files, "--lr", 2)
        assert report["options"] == {
            **{"backend": "clear", "parties": 2, "steps": 4, "lr": 2.0},
            **{"noise-multiplier": 1.0, "delta": 1e-5},
        }
        reported(*RUN, *PRIVATE)


def test_own_tables_flags_and_lists_are_repeated(in_folder):
    for name in ("a", "b"):
        rows = "".join(f"{i % 7},{i % 2}\n" for i in range(60))
        (in_folder / f"{name}.csv").write_text(f"dose,ill\n{rows}")
    own = ("--data-for-party", "0=a.csv", "--data-for-party", "1=b.csv")
    table = ("--label", "ill", "--class-names", "0,1", "--budget", "none")
    first, _ = reported(*RUN, *own, *table, "--no-dp", *SEEDED)
    assert first["options"]["data-for-party"] == ["0=a.csv", "1=b.csv"]
    assert first["options"]["no-dp"] is True
    again, _ = reported("train", "--again", "report.json")
    assert again["options"] == first["options"]
    assert again["accuracy"] == first["accuracy"]


def test_what_no_option_says_is_told_if_it_differs(in_folder):
    reported(*RUN, *PRIVATE)
    report = report_of(Path("report.json"))
    report["manifest"]["run"]["version of numpy"] = "0.1"
    (in_folder / "report.json").write_text(json.dumps(report))
    _, told = reported("train", "--again", "report.json")
    assert "in the run that is repeated it was 0.1" in " ".join(told.split())
    for nothing in (None, [], {"run": 3}):
        (in_folder / "report.json").write_text(json.dumps({**report, "manifest": nothing}))
        reported("train", "--again", "report.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps = 2", "Expecting value"),
        ("[1]", "must be a report of `pea train`"),
        ("{}", "must be a report of `pea train`, with its options"),
        ('{"options": {"rounds": 3}}', "is no option of this command"),
        ('{"options": {"steps": [3]}}', "must be a single value"),
        ('{"options": {"again": "x"}}', "is no option of this command"),
    ],
)
def test_what_is_no_report_is_refused(in_folder, text, words):
    (in_folder / "report.json").write_text(text)
    line = refused("--again", "report.json")
    assert line.startswith("pea: --again")
    assert words in line


def test_a_value_of_a_report_is_checked_as_one_that_is_typed(in_folder):
    (in_folder / "report.json").write_text('{"options": {"steps": 0}}')
    assert refused("--again", "report.json", *PRIVATE).startswith("pea: --steps ")
