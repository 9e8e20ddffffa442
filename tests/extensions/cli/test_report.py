"""`pea report`: the lines of a run's end once more, or a page that needs no network."""

import html
import json
import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from extensions.runs.summaries import page
from extensions.runs.summaries.run_page import command_of_run, epsilon_by_step, write_page_of
from tests.helpers.commands import call, pea

EPSILON = ("--epsilon", 2, "--delta", 1e-5)
CLEAR = ("train", "--backend", "clear", "--data", "digits", *EPSILON, "--steps", 30)
KINDS = {
    "sampled": (*CLEAR, "--sample-rate", 0.2),
    "replace": (*CLEAR, "--neighbours", "replace"),
    "local start": (*CLEAR, "--init", "local-average", "--epsilon-init", 0.5),
    "no whitening": (*CLEAR, "--no-whiten"),
    "columns": (*CLEAR, "--split", "columns", "--no-whiten"),
    "each step": (*CLEAR, "--open", "each-step"),
}
ALONE = {"meta", "br", "line", "circle", "polyline"}


class Reader(HTMLParser):
    """Checks that tags are closed in order, and nothing is loaded from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link", "iframe", "object"), tag
        for name, value in attrs:
            assert name not in ("src", "href", "action") or str(value).startswith(("#", "data:"))
        self.open += [] if tag in ALONE else [tag]

    def handle_endtag(self, tag: str) -> None:
        assert tag in ALONE or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> str:
    """Returns what a page says."""
    assert "http" not in text.replace("http://www.w3.org", "")
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader.text


def report_of(*typed: object) -> dict[str, Any]:
    call(*typed, "--json", "run.json")
    return json.loads(Path("run.json").read_text())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_by_step_ends_at_what_the_run_spent(kind):
    report = report_of(*KINDS[kind])
    points = epsilon_by_step(report)
    assert [points[0][0], points[-1][0]] == [0, 30]
    assert math.isclose(points[-1][1], report["epsilon"], rel_tol=0.01)
    values = [epsilon for _, epsilon in points]
    assert values == sorted(values)
    assert points[0][1] > 0 or "--no-whiten" in KINDS[kind]
    assert epsilon_by_step({**report, "epsilon": 1.5 * report["epsilon"]}) == []


def test_a_page_says_what_the_run_was(folder):
    report = report_of(*CLEAR)
    done = pea("report", "run.json", "--html", "run.html")
    assert done.returncode == 0, done.stderr
    text = read(Path("run.html").read_text())
    assert f"{report['accuracy']:.3f}" in text
    assert report["manifest"]["digest"] in text
    assert "everything: this backend is plaintext" in text
    for phase in report["phases"]:
        assert phase["phase"] in text
    assert sum(each["seconds"] for each in report["phases"]) <= report["seconds"] + 0.01
    again = pea("report", "run.json")
    assert "accuracy" in again.stdout
    assert all(len(line) <= 80 for line in again.stdout.splitlines())


def test_the_command_of_a_page_repeats_the_run():
    first = report_of(*CLEAR)
    typed = shlex.split(command_of_run(first))
    assert typed[:2] == ["pea", "train"]
    second = report_of(*typed[1:])
    assert second["manifest"]["digest"] == first["manifest"]["digest"]
    assert command_of_run({**first, "options": {}}) == ""


def test_a_federated_run_has_a_page_too():
    pytest.importorskip("torch")
    private = ("--mechanism", "distributed-dp", "--epsilon", 8, "--delta", 1e-3)
    few = ("--rounds", 3, "--clients", 10, "--local-epochs", 1, "--model", "logistic")
    report = report_of("fl", "--aggregator", "masked", *private, *few)
    text = read(write_page_of(report, command_of_run(report)))
    for said in (report["server_learns"], report["server_and_one_client_learn"]):
        assert said in text
    assert f"{report['epsilon']:.4g}" in text
    assert "Accuracy by round" in text
    again = report_of(*shlex.split(command_of_run(report))[1:])
    assert again["epsilon"] == report["epsilon"]
    assert again["bytes_total"] == report["bytes_total"]


SEEN = {
    "crypten dealer never": ["the dealer and a party together"],
    "crypten first party trusted never": ["party 0, which dealt"],
    "crypten parties themselves never": ["all parties but one"],
    "tfe None never": ["two servers together, or the client"],
    "crypten None each-step": ["the other's sums, under its own noise alone"],
}


@pytest.mark.parametrize("which", SEEN)
def test_who_saw_what_follows_from_the_run(which):
    backend, *provider, opens = which.split()
    changes = {"backend": backend, "provider": " ".join(provider), "open": opens}
    report = {**report_of(*CLEAR[:-1], 2), **changes, "opened": ["the <model>"]}
    text = write_page_of(report, "")
    assert "the &lt;model&gt;" in text
    said = read(text)
    assert all(each in said for each in SEEN[which])
    others = {each for found in SEEN.values() for each in found} - {*SEEN[which]}
    shared = {"all parties but one"}
    assert not any(each in said for each in others - shared)


def test_a_run_without_privacy_says_so():
    report = report_of(*CLEAR[:5], "--no-dp", "--steps", 2)
    text = read(write_page_of(report, ""))
    assert "This run was not private" in text
    assert epsilon_by_step(report) == []


def test_intervals_of_measures_are_shown():
    report = report_of(*CLEAR[:-1], 2)
    report |= {"auc": None, "auc_interval": [0.71, 0.82], "recall": {"no": 0.5, "yes": 0.25}}
    report["precision"] = {"no": 0.5, "yes": 0.25}
    report["recall_interval"] = {"yes": [0.125, 0.375]}
    report["epsilon_without_noise_of"] = {"1": 2.0, "2": None}
    text = read(write_page_of(report, ""))
    for said in ("0.710 to 0.820", "Recall: yes0.2500.125 to 0.375", "2infinite"):
        assert said in text


@pytest.mark.parametrize("most", [0.013, 0.9, 1.0, 7.0, 30, 12345])
def test_a_chart_has_round_numbers_beside_it(most):
    ticks = [*page._ticks(most)]
    assert ticks[0] == 0
    assert 3 <= len(ticks) <= 6
    assert most / 1.7 < ticks[-1] <= most * (1 + 1e-9)
    drawn = page.line_chart([(0, 0.0), (10, most)], "step", 'epsilon "<1>"')
    read(drawn)
    assert f">{html.escape(f'{most:.4g}')}<" in drawn
    line = re.search("points='(.*?)'", drawn)[1]
    assert line.split()[0] == f"{page._LEFT:.1f},{page._HEIGHT - page._BOTTOM:.1f}"
    assert line.split()[1] == f"{page._WIDTH - page._RIGHT:.1f},{page._TOP:.1f}"


def test_a_file_that_is_no_report_is_told(folder):
    Path("other.json").write_text("{}")
    done = pea("report", "other.json", "--html", "page.html")
    assert done.returncode == 1
    assert "RUN must be a report of a run" in done.stderr
    assert not Path("page.html").exists()
