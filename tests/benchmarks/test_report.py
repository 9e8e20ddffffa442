"""What is recorded has a benchmark that says what it is, and documents show it as it is."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import charts, listing, page, report, tables
from benchmarks.__main__ import Benchmarks
from benchmarks.benchmark import NOISE, Benchmark, Chart, Result, found
from tests.helpers.refused import refused

ROWS = [
    {"host": "CrypTen", "step": "plain SGD", "MB": 5.169, "ms": "233 (200-300)"},
    {"host": "CrypTen", "step": "ours", "MB": 0.0, "ms": "-"},
]


def record(folder: Path, name: str, rows: list[dict], **settings) -> None:
    content = {"machine": {"processor": "P", "cores": 2}, "settings": settings, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def texts(path: Path) -> str:
    return " ".join(ET.parse(path).getroot().itertext())


def test_the_list_fits_a_screen_and_tells_minutes(capsys):
    listing.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80
    for one in found():
        (line,) = [line for line in lines if line.split()[0] == one.name]
        assert f"{one.minutes:g} min" in line


def test_every_benchmark_is_found_in_its_file_and_its_options_exist():
    for one in found():
        command, _ = Benchmarks.command("benchmarks", [one.name])
        assert command is not None
        options = {leaf.typed for leaf in command.leaves}
        assert "--record" in options
        for result in one.results:
            assert {word for word in result.options.split() if word.startswith("--")} <= options


def test_a_run_writes_beside_what_is_recorded_unless_told_to_replace_it(folder):
    rows = [[{"a": 1}], [{"a": 2}]]
    entry = Benchmark(NOISE, "toy", "A toy", minutes=0, results=[Result("toy", "Shows.")])

    def measure(which: int = 0):
        yield tables.Table("toy", rows[which], samples=[0.5], seed=3)

    command = entry(measure)
    before = datetime.now(UTC).date().isoformat()
    command(record=True)
    command(which=1)
    first, second = (
        json.loads(path.read_text()) for path in (folder / "toy.json", folder / "reruns/toy.json")
    )
    assert (first["rows"], second["rows"]) == tuple(rows)
    assert before <= first["recorded"] <= datetime.now(UTC).date().isoformat()
    assert first["machine"].keys() >= {"processor", "cores", "memory GiB", "kernel", "python"}
    assert (first["settings"], first["samples"]) == ({"seed": 3}, [0.5])


def test_rows_and_columns_are_chosen():
    where = "step = ours or other and host = CrypTen"
    assert tables.chosen(ROWS, "ms | step", where) == [{"ms": "-", "step": "ours"}]
    assert tables.chosen(ROWS) == ROWS


def test_a_chart_of_dots_has_every_cell_and_depends_on_the_rows_alone(tmp_path):
    chart = Chart(of="x", labels=("host", "step"), values=("MB", "ms"), logarithmic=("MB",))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        charts.draw(chart, ROWS, tmp_path / name / "x.svg")
    drawn = texts(tmp_path / "one" / "x.svg")
    for text in ("CrypTen, plain SGD", "CrypTen, ours", "5.169", "233", "MB", "ms"):
        assert text in drawn
    same = [(tmp_path / name / "x.svg").read_bytes() for name in ("one", "two")]
    assert same[0] == same[1]
    assert charts.OURS in same[0].decode()


def test_a_chart_of_lines_has_a_line_for_each_label(tmp_path):
    rows = [
        {"way": way, "5 clients, s": 1.0, "50 clients, s": y} for way, y in (("a", 2), ("b", 3))
    ]
    chart = Chart(
        of="x", labels=("way",), values=("s",), x="* clients, s", logarithmic=("* clients, s",)
    )
    charts.draw(chart, rows, tmp_path / "x.svg")
    drawn = texts(tmp_path / "x.svg").split()
    assert {"a", "b", "way", "clients", "5", "50"} <= {*drawn}


def test_what_is_recorded_on_an_emulated_network_belongs_to_the_same_result(folder):
    record(folder, "dpsgd-step-3-parties-wan", ROWS)
    record(folder, "dpsgd-step-3-parties", ROWS)
    plain, wan = page.read(folder)
    assert (plain.profile, wan.profile) == ("", "wan")
    assert plain.result == wan.result


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": []}'])
def test_a_file_that_is_no_result_is_named(folder, text):
    (folder / "noise-cost.json").write_text(text)
    with refused("result", "file", value="noise-cost.json"):
        page.read(folder)


def test_a_result_of_no_benchmark_is_named(folder):
    record(folder, "news", ROWS)
    with refused("result", "file", value="news.json"):
        page.read(folder)


def test_the_document_has_its_charts_and_links_and_is_short():
    text = page.RESULTS.read_text()
    drawn = {path.stem for path in (page.DOCS / "charts").glob("*.svg")}
    recorded = page.read(tables.RESULTS)
    assert drawn == {one.name for one in recorded if one.result.chart_of(one.name)}
    assert len(drawn) <= 12
    assert all(f"charts/{name}.svg" in text for name in drawn)
    assert all(f"results/{one.name}.json" in text for one in recorded)
    assert len(text.splitlines()) < 800


def test_the_report_renews_the_documents(folder, tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    readme = tmp_path / "README.md"
    readme.write_text("<!-- table: noise-cost: q -->\n<!-- end -->\n")
    record(folder, "noise-cost", [{"q": 0.1, "T": 5}])
    monkeypatch.setattr(page, "DOCS", docs)
    monkeypatch.setattr(page, "RESULTS", docs / "results.md")
    monkeypatch.setattr(report, "README", readme)
    report.main()
    assert "| q |\n| --- |\n| 0.1 |\n" in readme.read_text()
    assert "| q | T |\n| --- | --- |\n| 0.1 | 5 |\n" in (docs / "results.md").read_text()
