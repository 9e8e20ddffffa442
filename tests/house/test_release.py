"""A release finds what it needs: a changelog of fragments, a citation, one version."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.paths import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text())
NEXT, MOST_LINES = "99.0.0", 40


def draft(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", NEXT]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_changelog_builds_from_its_fragments():
    result = draft(ROOT)
    assert result.returncode == 0, result.stderr
    for fragment in (ROOT / "changelog.d").glob("*.*.md"):
        text = fragment.read_text().strip()
        assert text.startswith("- "), f"{fragment.name}: must be a list"
        assert text in result.stdout


def test_kinds_are_headings_and_an_unknown_one_is_refused(tmp_path):
    for name in ("pyproject.toml", "changelog.d/TEMPLATE.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    for name in ("one.fixed", "one.added", "two.added"):
        (tmp_path / f"changelog.d/{name}.md").write_text(f"- A change\n  of {name}.\n- More.\n")
    found = draft(tmp_path).stdout
    assert f"## {NEXT} (" in found
    assert found.partition("### Added")[2].strip() == (
        "- A change\n  of one.added.\n- More.\n- A change\n  of two.added.\n- More.\n\n"
        "### Fixed\n\n- A change\n  of one.fixed.\n- More."
    )
    (tmp_path / "changelog.d/three.new.md").write_text("- A change.\n")
    assert "three.new.md" in draft(tmp_path).stderr


def test_an_entry_is_short_and_the_newest_is_of_this_version():
    entries = re.split(r"^## ", CHANGELOG, flags=re.MULTILINE)[1:]
    assert max(len(entry.strip().splitlines()) for entry in entries) <= MOST_LINES
    assert entries[0].split()[0] == SETTINGS["project"]["version"] == CITATION["version"]


def test_citation_file_has_what_its_format_requires():
    """Of the schema of CFF 1.2.0: what is required, and the forms of what we use."""
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(CITATION)
    assert CITATION["license"] == SETTINGS["project"]["license"]
    (paper,) = CITATION["references"]
    assert {"type", "title", "authors"} <= set(paper)
    assert re.fullmatch(r"10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;\-.()\[\]\\]+", paper["doi"])
    for author in [*CITATION["authors"], *paper["authors"]]:
        assert set(author) in ({"name"}, {"family-names", "given-names"})


@pytest.mark.parametrize("part", ["title", "doi"])
def test_the_page_on_citing_names_the_same_paper(part):
    page = " ".join((ROOT / "docs/how-to/research/cite.md").read_text().split())
    assert CITATION["references"][0][part] in page
