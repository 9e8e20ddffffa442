"""Every file and every module that a document names exists."""

import re
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGES = "benchmarks|crypten_ext|extensions|fl|tests|tfe_ext"
PATH = re.compile(rf"`((?:{PACKAGES}|docs|examples)/[\w./*-]+)")
NAME = re.compile(rf"[`(= ]((?:{PACKAGES})(?:\.\w+)+)")


def is_defined(name: str) -> bool:
    """Returns whether a dotted name is a module, or a word of the module that it begins with."""
    module, *rest = name.split(".")
    folder = ROOT / module
    while rest and (folder / rest[0]).is_dir():
        folder /= rest.pop(0)
    file = folder / "__init__.py"
    if rest and (folder / f"{rest[0]}.py").is_file():
        file = folder / f"{rest.pop(0)}.py"
    return not rest or re.search(rf"\b{rest[0]}\b", file.read_text()) is not None


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_modules_that_a_document_names_exist(document: Path):
    text = document.read_text()
    missing = [path for path in PATH.findall(text) if not any(ROOT.glob(path.rstrip("./")))]
    names = [name for name in NAME.findall(text) if not name.endswith(".md")]
    missing += [name for name in names if not is_defined(name)]
    assert missing == []


def test_nothing_says_to_install_from_an_index_that_does_not_have_us():
    """Whoever registers the name there would be installed instead."""
    files = [*DOCUMENTS]
    files += [path for path in (ROOT / "examples").rglob("*") if path.suffix != ".pyc"]
    files += [path for package in PACKAGES.split("|") for path in (ROOT / package).rglob("*.py")]
    told = re.compile(r"pip install[^\n]*pea[-]mpl")
    assert not [path for path in files if path.is_file() and told.search(path.read_text())]


def test_a_name_that_is_gone_is_found():
    assert not is_defined("extensions.dpsgd")
    assert not is_defined("fl.chain.ledger.Ledger")
    assert is_defined("fl.chain.state.ChainState")
