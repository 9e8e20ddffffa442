"""The pages of recorded results: complete, escaped, self-contained, and equal to the results."""

import json
import re
import shutil
import xml.etree.ElementTree as ET
from base64 import b64decode
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks import listing, pages, tables
from benchmarks.pages import catalogue, recorded
from tests.helpers.refused import refused

PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG of one pixel."""
EVIL = """<script>alert(1)</script> & 'a' | "b" c"""
NETWORK = {"profile": "wan", "one-way ms": 20.0, "Mbit/s": 100.0, "means": "switch"}
NETWORK |= {"round trip ms": 40.1, "bulk Mbit/s": 88.0}
BYTES = 3_000_000


class Page(HTMLParser):
    """What the tests ask of a page: its tags with their attributes, tables, and texts."""

    VOID = frozenset({"meta", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)
        if self._open and self._open[-1] in ("th", "td"):
            self.tables[-1][-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def record(folder: Path, name: str, rows: list[dict], *, machine: dict | None = None, **settings):
    content = {"machine": machine or {}, "settings": settings, "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(content))


@pytest.fixture
def folder(tmp_path) -> Path:
    """Results of every form: known, on an emulated network, unknown, without rows, long."""
    record(tmp_path, "accounting", [{"q": 0.1, "sigma": 2.41823}, {"q": 0.01, "sigma": 0.85}])
    rows = [{"host": "CrypTen", "step": "DPSGD", "MB/party": 5.169, "median ms": 233.9}]
    record(tmp_path, "dpsgd-step-3-parties-wan", rows, network=NETWORK, frac_bits=20, parties=3)
    record(tmp_path, "news", [{EVIL: EVIL}, {"other": 1.0}], seed=EVIL, curve=list(range(1000)))
    record(tmp_path, "nothing", [])
    for figure in ("news.png", "news-detail.png", "accounting.svg", "stranger.png"):
        (tmp_path / figure).write_bytes(PIXEL if figure.endswith("png") else b"<svg/>")
    return tmp_path


def html(folder: Path) -> Page:
    return Page(pages.contents(folder)[pages.HTML])


def test_every_table_is_on_both_pages(folder):
    text = pages.contents(folder)[pages.MARKDOWN]
    assert html(folder).tables == [
        [
            ["host", "step", "MB/party", "median ms"],
            ["CrypTen", "DPSGD", "5.169", "233.9"],
        ],
        [["q", "sigma"], ["0.1", "2.418"], ["0.01", "0.85"]],
        [[EVIL, "other"], [EVIL, ""], ["", "1"]],
    ]
    assert "| q | sigma |\n| ---: | ---: |\n| 0.1 | 2.418 |\n| 0.01 | 0.85 |\n" in text
    assert "| CrypTen | DPSGD | 5.169 | 233.9 |\n" in text
    assert text.count("No row was recorded.") == 1


def test_names_are_escaped(folder):
    made = pages.contents(folder)
    assert html(folder).all("script") == []
    for text in made.values():
        assert not re.search(r"(?<!\\)<script", text)
    assert r"""\<script\>alert(1)\</script\> & 'a' \| "b" c""" in made[pages.MARKDOWN]


def test_images_are_in_the_page_and_nothing_is_outside(folder):
    page = html(folder)
    images = [b64decode(image["src"].partition(";base64,")[2]) for image in page.all("img")]
    assert images == [b"<svg/>", PIXEL, PIXEL]
    assert all(image["alt"] for image in page.all("img"))
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "style", "onclick"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/"))
    style = "".join(page.texts)
    assert not re.search(r"url\(|@import|https?:", style)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object", "base"})


def test_a_figure_belongs_to_the_longest_name_it_begins_with(tmp_path):
    for name in ("news", "news-detail"):
        record(tmp_path, name, [{"a": 1}])
    for figure in ("news.png", "news-detail.png", "news-detail-more.svg", "newsroom.png"):
        (tmp_path / figure).touch()
    short, long = recorded.read(tmp_path)
    assert [figure.path.name for figure in short.figures] == ["news.png"]
    assert [figure.path.name for figure in long.figures] == [
        "news-detail.png",
        "news-detail-more.svg",
    ]


def test_contents_lead_to_every_result(folder):
    page = html(folder)
    places = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    wanted = [result.name for result in recorded.read(folder)]
    assert [link["href"] for link in page.all("a")] == [f"#{name}" for name in wanted]
    assert set(wanted) <= places
    assert {head["scope"] for head in page.all("th")} == {"col", "row"}


def test_a_network_is_part_of_title_command_and_settings(folder):
    for text in pages.contents(folder).values():
        assert "gradients materialised, WAN" in text
        assert "--profile wan --means switch -- python -m benchmarks dpsgd-step" in text
        assert "measured: round trip 40.100 ms, bulk 88 Mbit/s" in text


def test_calibrations_of_samples_are_shown_as_a_range(tmp_path):
    network = {"one-way ms": 20.0, "Mbit/s each way": None}
    samples = [
        {"network": NETWORK},
        {"network": {**NETWORK, "round trip ms": 41.24, "bulk Mbit/s": 91.6}},
    ]
    record(tmp_path, "inverse-sqrt-runtime-wan", [{"a": 1}], network=network, samples=samples)
    words = "measured: round trip 40.1..41.2 ms, bulk 88..91.6 Mbit/s"
    assert f"one-way ms: 20; Mbit/s each way: none; {words}" in "".join(html(tmp_path).texts)


def test_what_older_files_lack_is_said(folder):
    page = html(folder)
    terms = [text.strip() for text in page.texts if text.strip()]
    first = terms.index("Machine")
    assert terms[first + 1 : first + 5] == ["date", "not recorded", "processor", "not recorded"]
    assert "torch not recorded" in pages.contents(folder)[pages.MARKDOWN]
    assert "see news.json" in terms


def test_the_machine_is_recorded(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    before = datetime.now(UTC).date().isoformat()
    tables.publish("table", [{"a": 1}], samples=[{"seconds": [0.5, 0.25]}], seed=3)
    content = json.loads((tmp_path / "table.json").read_text())
    assert before <= content["recorded"] <= datetime.now(UTC).date().isoformat()
    assert content["machine"].keys() >= {"processor", "cores", "memory GiB", "kernel", "python"}
    assert content["machine"]["versions"].keys() == set(tables.PACKAGES)
    text = pages.contents(tmp_path)[pages.MARKDOWN]
    assert f"date: {content['recorded']} ·\nprocessor: " in text
    assert f"numpy {content['machine']['versions']['numpy']}" in text


def test_pages_and_charts_depend_on_the_results_alone(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("copy")
    shutil.copytree(folder, other, dirs_exist_ok=True)
    written = pages.write(folder)
    assert [path.name for path in written] == [
        "dpsgd-step-3-parties-wan.svg",
        pages.MARKDOWN,
        pages.HTML,
    ]
    again = pages.write(other)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]
    drawn = "".join(ET.parse(written[0]).getroot().itertext())
    for text in ("CrypTen, DPSGD", "MB/party", "5.169", "median ms", "233.9"):
        assert text in drawn
    assert len(html(folder).all("img")) == 4


@pytest.mark.parametrize("text", ["{", "[]", '{"rows": []}'])
def test_a_file_that_is_no_result_is_named(tmp_path, text):
    (tmp_path / "broken.json").write_text(text)
    with refused("result", "file", value="broken.json"):
        pages.contents(tmp_path)


def test_committed_pages_are_those_of_the_committed_results():
    for name, text in pages.contents(tables.RESULTS).items():
        assert (tables.RESULTS / name).read_text() == text, "Type: python -m benchmarks report"
        assert len(text) < BYTES


def test_the_list_leads_from_commands_to_results(folder, monkeypatch, capsys):
    monkeypatch.setattr(tables, "RESULTS", folder)
    listing.main()
    lines = capsys.readouterr().out.splitlines()
    title = "  Plain SGD, DPSGD, and gradients materialised, WAN"
    emulated = "python -m benchmarks network --profile wan --means switch"
    assert lines[:2] == [
        f"{emulated} -- python -m benchmarks dpsgd-step",
        f"{title}: dpsgd-step-3-parties-wan.json",
    ]
    place = lines.index("python -m benchmarks accounting")
    assert lines[place + 1].endswith(": accounting.json, accounting.svg")


def test_every_committed_result_is_described_and_its_command_exists():
    from benchmarks.__main__ import Benchmarks

    for result in recorded.read(tables.RESULTS):
        assert result.entry in catalogue.CATALOGUE, result.name
        name, *words = result.command.split(" -- ")[-1].split()[3:]
        command, _ = Benchmarks.command("benchmarks", [name])
        assert command is not None
        options = {leaf.typed for leaf in command.leaves}
        assert {word for word in words if word.startswith("--")} <= options, result.command
        if result.entry.chart is not None:
            assert [figure.path.suffix for figure in result.figures] == [".svg"]
