"""The site builds without a warning, shows every page, and needs no other host."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt

from extensions import errors
from extensions.cli.main import PeaCommands
from extensions.sentences import SENTENCES
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE

REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TAGS = [
    "li",
    "ul",
    "ol",
    "table",
    "tr",
    "h1",
    "h2",
    "h3",
    "h4",
    "blockquote",
    "strong",
    "em",
    "a",
    "img",
]


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(
        [*command, *options],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # what becomes of the generator itself
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    result = build(folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_each_page_is_in_the_site_and_in_its_navigation(site):
    home = (site / "index.html").read_text()
    for page in PAGES:
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / place).is_file()
        assert page.name == "contents.md" or f'href="{place}"' in home, "add it to contents.md"


def test_pages_load_nothing_from_another_host(site):
    loaded = re.compile(r"""(?:src|<link[^>]*href|url)[=(]["']?(?:https?:)?//[^"'>)]+""")
    for page in site.rglob("*.html"):
        assert not loaded.findall(page.read_text()), page


def test_a_link_or_an_anchor_that_leads_nowhere_stops_the_build(tmp_path):
    """Also one to a file outside the documents, and one in a page that no navigation names."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# A\n\n[b](b.md) [c](#c) [d](../LICENSE.md)\n")
    settings = (ROOT / "mkdocs.yml").read_text().replace("docs/site", f"{ROOT}/docs/site")
    settings = settings.replace("docs_dir: docs", f"docs_dir: {docs}")
    (tmp_path / "mkdocs.yml").write_text(re.sub("hooks:.*", "", settings))
    result = build(tmp_path / "out", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert result.returncode != 0
    for link in ("'b.md'", "'#c'", "'../LICENSE.md'"):
        assert link in result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_reads_alike_in_commonmark_and_in_the_site(page):
    """Another generator, and a reader of the clone, see the same lists, tables and links."""
    text = page.read_text()
    strict = MarkdownIt("commonmark").enable("table").render(text)
    ours = markdown.markdown(text, extensions=["tables", "sane_lists", "pymdownx.superfences"])
    for tag in TAGS:
        opened = re.compile(f"<{tag}[ >]")
        assert len(opened.findall(ours)) == len(opened.findall(strict)), tag


def test_each_code_of_an_error_has_a_section():
    page = (REFERENCE / "errors.md").read_text()
    codes = re.findall("^### (.+)$", page, re.M)
    assert re.findall(r"^<!-- sentence: (.+) -->$", page, re.M) == codes
    assert {*codes} == {*SENTENCES}
    kinds = {name for name in vars(errors) if name.endswith("Error")}
    told = {*re.findall(r"^\| `(\w+)`", page, re.M)}
    assert told == kinds - {"PeaError", "LostError"}


def test_commands_have_all_their_options(site):
    page = html.unescape((site / "reference" / "commands.html").read_text())
    for word in PeaCommands.points():
        command, _ = PeaCommands.command("pea", [word])
        if command is not None:  # and no group
            part = page.partition(f'id="pea-{word}"')[2].partition("<h2")[0]
            for leaf in command.leaves:
                assert f"<code>{leaf.typed}" in part


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.stem)
def test_blocks_print_what_stands_below_them(page, tmp_path, monkeypatch, capsys):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page.read_text(), re.S)
    for code, told in blocks:
        exec(code, {})
        assert capsys.readouterr().out == told
