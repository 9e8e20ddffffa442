"""Text of strangers that is nested deeper than a parser goes, or has values of other kinds."""

import json
from pathlib import Path

import pytest

from extensions.data.schema import read_schema
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.runs.budget import Account
from extensions.transport import Federation
from tests.helpers.commands import pea

DEPTH = 100_000
DEEP = "[" * DEPTH + "]" * DEPTH
OTHERS = ("null", "[]", "{}", '{"format": 1}', '{"format": [], "phases": 3}', "9" * 5000)


@pytest.mark.parametrize("read", [Federation.read, read_schema])
@pytest.mark.parametrize("text", [f"a = {DEEP}", "members = 3", "members = [1]", "basis = []"])
def test_toml_that_cannot_be_read_is_one_error(read, text, tmp_path: Path):
    (tmp_path / "file.toml").write_text(text)
    with pytest.raises(ArgumentError):
        read(tmp_path / "file.toml")


@pytest.mark.parametrize("read", [Ledger.from_json, Account.from_json])
@pytest.mark.parametrize("text", [DEEP, *OTHERS], ids=["deep", *map(str, range(len(OTHERS)))])
def test_json_that_cannot_be_read_is_one_error(read, text):
    with pytest.raises(ArgumentError):
        read(text)


@pytest.mark.parametrize("entry", [{}, {"name": 3}, {"ledger": 3, "opens": []}, 3, []])
def test_entries_of_a_ledger_that_are_none_are_one_error(entry):
    whole = json.loads(Account().to_json()) | {"entries": [entry]}
    with pytest.raises(ArgumentError):
        Account.from_json(json.dumps(whole))


@pytest.mark.parametrize(
    ("option", "text"),
    [("config", f"a = {DEEP}"), ("again", DEEP), ("again", '{"options": []}'), ("again", "3")],
)
def test_files_of_options_that_cannot_be_read_are_one_line(option, text, tmp_path: Path):
    (tmp_path / "file").write_text(text)
    done = pea("train", f"--{option}", tmp_path / "file")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"pea: --{option} ")
