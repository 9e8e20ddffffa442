"""The command's ledgers of data sets: kept beside an owner's file, shown, capped, and left out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.errors import ArgumentError
from extensions.runs.budget import path_of
from extensions.runs.budget.run_ledgers import ledgers_of
from tests.helpers.commands import pea, report_of
from tests.helpers.crashes import epsilons_computed_once
from tests.helpers.refused import refused

RUN = ("train", "--backend", "clear", "--parties", 2, "--steps", 4, "--sample-rate", 1)
NOISE = ("--noise-multiplier", 8, "--delta", 1e-5)


@pytest.fixture(autouse=True)
def quick():
    with epsilons_computed_once():
        yield


@pytest.fixture
def owners(tmp_path: Path) -> list[Path]:
    """Two owners' files, the second one's without held-out records."""
    paths = [tmp_path / f"hospital-{rank}.npz" for rank in range(2)]
    for path, held_out in zip(paths, (10, 0), strict=True):
        draws = np.random.default_rng(1)
        arrays: dict[str, Any] = {}
        for name, rows in (("train", 30), ("test", held_out)):
            arrays[f"{name}_x"] = draws.uniform(-0.2, 0.2, (rows, 3))
            arrays[f"{name}_y"] = draws.integers(0, 2, rows)
        np.savez(path, **arrays)
    return paths


def own(paths: list[Path]) -> list[object]:
    return [
        option
        for rank, path in enumerate(paths)
        for option in ("--data-for-party", f"{rank}={path}")
    ]


def shown(path: Path, *options: object) -> tuple[str, dict[str, Any]]:
    """Returns what `pea budget` prints and writes."""
    out = path.with_name("shown.json")
    done = pea("budget", path, *options, "--json", out)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(out.read_text())


def test_a_cap_is_held_over_runs_and_the_command_says_what_is_left(owners, tmp_path):
    run = (*RUN, *NOISE, *own(owners))
    text, before = shown(owners[0], "--cap", 3, "--delta", 1e-5)
    assert "epsilon 0 at delta = 1e-05" in text
    assert before["left"] == 3

    refused = pea(*run)
    assert refused.returncode == 1
    assert "pea: --evaluate must be 'noisy' or 'none', because of the cap in" in refused.stderr
    assert not shown(owners[1])[1]["runs"]

    done = pea(*run, "--evaluate", "noisy", "--json", tmp_path / "report.json")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "report.json")
    text, after = shown(owners[0])
    assert report["epsilon"] < after["epsilon"] < report["epsilon"] + report["held_out_epsilon"]
    assert 0 < after["left"] < 3 - after["epsilon"]
    assert "spent" in text
    assert "for every record; left for further runs" in text.replace("\n", " ")
    (told,) = report["budgets"]
    assert (told["epsilon"], told["left"]) == (3, after["left"])
    assert told["left"] == 3 - told["counted"] == 3 - after["cap"]["counted"]
    assert (report["epsilon_asked"], report["delta"]) == (None, after["delta"])
    (of_run,) = after["runs"]
    assert of_run["training"] == pytest.approx(report["epsilon"])
    assert of_run["held_out"] == pytest.approx(report["held_out_epsilon"])

    louder = (*RUN, "--noise-multiplier", 1, "--delta", 1e-5, *own(owners))
    refused = pea(*louder, "--evaluate", "noisy")
    assert "budget must be at most 3 at delta = 1e-05, the cap, not epsilon " in refused.stderr
    assert [len(shown(path)[1]["runs"]) for path in owners] == [1, 1]

    assert pea(*run).returncode == 1
    shown(owners[0], "--cap", 9, "--except-held-out")
    assert pea(*run).returncode == 0
    text, exact = shown(owners[0])
    assert (exact["exact"], len(exact["runs"])) == (1, 2)
    assert "1 of them counted held-out records exactly" in text
    assert "for training alone" in text
    assert shown(owners[1])[1]["exact"] == 0, "it has no held-out records"


def test_a_reservation_is_freed_by_name(owners):
    run = (*RUN, *NOISE, *own(owners), "--evaluate", "none")
    assert pea(*run).returncode == 0
    path = owners[0].with_name("hospital-0.npz.budget.json")
    kept = json.loads(path.read_text())
    name = kept["entries"][0]["name"]
    assert "Spent budget stays spent" in pea("budget", path, "--free", name).stderr
    kept["entries"][0]["spent"] = False
    path.write_text(json.dumps(kept))
    text, _ = shown(path)
    assert "reserved" in text
    assert shown(owners[0], "--free", name)[1]["runs"] == []
    text, freed = shown(owners[0], "--log")
    assert [event["run"] for event in freed["log"]] == [name, name]
    assert [event["what"].split()[0] for event in freed["log"]] == ["entered", "freed"]
    (line,) = [line for line in text.splitlines() if "freed" in line]
    assert {freed["log"][1][kind] for kind in ("when", "user", "run")} <= {*line.split()}


def test_only_own_files_have_a_ledger_unless_one_is_named(owners, tmp_path):
    assert pea(*RUN, *NOISE, *own(owners), "--budget", "none").returncode == 0
    assert not [*tmp_path.glob("*.budget.json")]
    assert pea(*RUN, *NOISE, "--data", f"npz:{owners[0]}").returncode == 0
    assert not [*tmp_path.glob("*.budget.json")]
    named = tmp_path / "digits.budget.json"
    assert pea(*RUN, *NOISE, "--data", f"npz:{owners[0]}", "--budget", named).returncode == 0
    assert len(shown(named)[1]["runs"]) == 1, "one record is at one party"
    (tmp_path / "ledgers").mkdir()
    assert pea(*RUN, *NOISE, *own(owners), "--budget", tmp_path / "ledgers").returncode == 0
    assert len([*(tmp_path / "ledgers").iterdir()]) == 2


def test_ledgers_of_several_owners_are_several_files(tmp_path):
    same = [tmp_path / folder / "x.npz" for folder in "ab"]
    for given in (tmp_path / "one.json", tmp_path):
        with refused("budget", "value", str(given)):
            ledgers_of(same, 2, given)
    assert ledgers_of([], 2, None) == [None, None]


@pytest.mark.parametrize("name", ["the same", "symlink", "hardlink"])
def test_a_file_is_one_partys_by_whatever_name(name, owners, tmp_path):
    """Each of its records would be twice in every sum, which costs more than two runs."""
    twice = owners[0] if name == "the same" else tmp_path / "other.npz"
    if name != "the same":
        getattr(twice, f"{name}_to")(owners[0])
    done = pea(*RUN, *NOISE, *own([owners[0], twice]))
    assert done.returncode == 1
    assert f"{twice}, which party 0 and party 1 have both" in done.stderr
    assert "share out one file with --data" in done.stderr
    assert not [*tmp_path.glob("*.budget.json")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cap", 0, "--delta", 1e-5), "--cap must be "),
        (("--cap", 1), "--delta must be given with --cap"),
        (("--cap", 1, "--delta", 1), "--delta must be in (0, 1), not 1.0"),
        (("--except-held-out",), "--except-held-out needs --cap"),
        (("--free", "x"), "--free must be one of the reservations [], not 'x'"),
    ],
)
def test_options_are_checked(owners, options, message):
    done = pea("budget", owners[0], *options)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    "name", ["no.npz", "no.npz.budget.json", ".", "south.pem", "schema.toml", "files.npz"]
)
def test_a_cap_is_set_beside_records_alone(owners, tmp_path, monkeypatch, name):
    """A typing error would leave the records without one."""
    monkeypatch.chdir(tmp_path)
    for other in ("south.pem", "schema.toml"):
        Path(other).touch()
    Path("files.npz").mkdir()
    done = pea("budget", name, "--cap", 3, "--delta", 1e-5)
    assert done.returncode == 1
    assert "pea: RECORDS must be an existing .npz, .csv or .parquet file" in done.stderr
    assert f"not {name!r}" in done.stderr
    assert not [*tmp_path.glob("**/*.budget.json")]
    assert not path_of(tmp_path).exists()


def test_a_ledger_is_shown_without_its_records(owners):
    assert shown(owners[0], "--cap", 3, "--delta", 1e-5)[1]["left"] == 3
    owners[0].unlink()
    for path in (owners[0], path_of(owners[0])):
        assert shown(path)[1]["left"] == 3


@pytest.mark.parametrize("name", ["link.budget.json", "link", "link.npz"])
def test_a_ledger_is_shown_and_capped_by_every_link_to_it(owners, tmp_path, name):
    assert shown(owners[0], "--cap", 3, "--delta", 1e-5)[1]["left"] == 3
    target = owners[0] if name == "link.npz" else path_of(owners[0])
    link = tmp_path / name
    link.symlink_to(target)
    assert shown(link)[1]["left"] == 3
    assert shown(link, "--cap", 4)[1]["left"] == 4
    assert shown(owners[0])[1]["left"] == 4
    assert link.is_symlink()


@pytest.mark.parametrize("of", ["--budget", "beside", "folder"])
def test_runs_by_links_are_charged_to_the_ledger_that_they_lead_to(owners, tmp_path, of):
    """One of two owners keeps the common ledger in each run: its cap holds for both."""
    common = tmp_path / "common.budget.json"
    alone = (*RUN, *NOISE, "--evaluate", "none", "--data", f"npz:{owners[0]}")
    assert pea(*alone, "--budget", common).returncode == 0
    cost = shown(common)[1]["epsilon"]
    shown(common, "--cap", cost, "--delta", 1e-5)
    (tmp_path / "ledgers").mkdir()
    run: tuple[object, ...] = (*RUN, *NOISE, "--evaluate", "none", *own(owners))
    if of == "--budget":
        link = tmp_path / "link"
        run = (*alone, "--budget", link)
    elif of == "beside":
        link = path_of(owners[0])
    else:
        link = tmp_path / "ledgers" / path_of(owners[0]).name
        run = (*run, "--budget", link.parent)
    link.symlink_to(common)
    done = pea(*run)
    assert done.returncode == 1
    assert "the cap" in done.stderr
    shown(common, "--cap", 9)
    assert pea(*run).returncode == 0
    assert len(shown(common)[1]["runs"]) == 2
    assert link.is_symlink()


@pytest.mark.parametrize("of", ["beside", "folder"])
def test_two_owners_of_one_run_have_no_ledger_in_common_by_links(owners, tmp_path, of):
    common = tmp_path / "common.budget.json"
    folder = tmp_path / "ledgers" if of == "folder" else tmp_path
    folder.mkdir(exist_ok=True)
    for path in owners:
        (folder / path_of(path).name).symlink_to(common)
    given = ("--budget", folder) if of == "folder" else ()
    done = pea(*RUN, *NOISE, *own(owners), *given)
    assert done.returncode == 1
    assert "ledgers must be another file for each party" in done.stderr
    assert not common.exists()
    with pytest.raises(ArgumentError):
        ledgers_of(owners, 2, folder if of == "folder" else None)


def test_runs_are_added_up_at_their_own_delta_unless_a_cap_has_another(owners):
    run = ("train", "--backend", "clear", "--parties", 2, "--steps", 2, *own(owners))
    none = ("--evaluate", "none", "--budget")
    ledger = owners[0].with_name("x.budget.json")
    alone = (*run[:5], "--steps", 2, "--data", f"npz:{owners[0]}", *none, ledger)
    assert shown(owners[0])[1]["delta"] == 1e-5, "no run is there yet"
    assert pea(*alone, "--epsilon", 2, "--delta", 1e-3).returncode == 0
    text, found = shown(ledger)
    assert (found["delta"], found["deltas"]) == (1e-3, [1e-3])
    assert found["epsilon"] == pytest.approx(2, abs=0.01)
    assert "deltas" not in text
    assert pea(*alone, "--epsilon", 1, "--delta", 1e-4).returncode == 0
    text, found = shown(ledger)
    assert (found["delta"], found["deltas"]) == (1e-3, [1e-4, 1e-3])
    assert "deltas 0.0001, 0.001" in text
    assert shown(ledger, "--delta", 1e-4)[1]["delta"] == 1e-4
    assert shown(ledger, "--cap", 9, "--delta", 1e-2)[1]["delta"] == 1e-2
    found = shown(ledger)[1]
    assert found["left"] == 9 - found["cap"]["counted"]
