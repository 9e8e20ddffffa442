"""Every mutant can be tried: it changes a statement of the tree, and the tests it names exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.mutants import __main__ as runner
from tests.mutants.__main__ import report, try_mutants
from tests.mutants.catalogue import FOLDER, Mutant, find_mutants
from tests.mutants.edits import Edit

MUTANTS = find_mutants()
TRIED = [mutant for mutant in MUTANTS if not mutant.gone]


@cache
def program(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes())


def test_there_are_as_many_as_promised_each_in_the_file_of_its_area():
    assert len(TRIED) >= 60
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert {mutant.area for mutant in MUTANTS} == {path.stem for path in FOLDER.iterdir()}
    for mutant in MUTANTS:
        assert mutant.promise, mutant.name
        assert bool(mutant.tests) == bool(mutant.edits) == (not mutant.gone), mutant.name


def test_every_one_changes_the_tree():
    cannot = []
    for mutant, edit in [(each, edit) for each in TRIED for edit in each.edits]:
        try:
            edit.find(program(edit.file(ROOT)))
            if ast.unparse(ast.parse(edit.old)) == ast.unparse(ast.parse(edit.new)):
                cannot.append(f"{mutant.name}: changes nothing in {edit.at}")
        except (LookupError, OSError, SyntaxError) as error:
            cannot.append(f"{mutant.name}: {error}")
    assert cannot == []


def test_the_named_tests_exist():
    missing = []
    for test in sorted({test for mutant in MUTANTS for test in mutant.tests}):
        path, *names = test.partition("[")[0].split("::")
        text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        found = [re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE) for name in names]
        if not text or not all(found):
            missing.append(test)
    assert missing == []


def test_a_name_that_is_none_is_refused():
    with pytest.raises(LookupError, match="no-such-mutant"):
        find_mutants(["no-such-mutant"])


def test_what_is_gone_is_told_and_not_run(tmp_path):
    (tmp_path / "door.py").write_text("open = True\n")
    shut = Edit(at="door", old="shut = True", new="")
    gone = Mutant(name="door-gone", promise="Shut.", gone="The door was removed.")
    moved = Mutant(name="door-moved", promise="Open.", tests=("test_door.py",), edits=(shut,))
    results = list(try_mutants(tmp_path, [gone, moved]))
    assert [result.outcome for result in results] == ["gone", "does not apply"]
    assert "gone: door-gone: The door was removed." in report(results).splitlines()


def test_a_test_that_hangs_finds_a_fault_only_if_the_table_says_that_it_does(tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "door.py").write_text("open = True\nred = True\n")
    waits = "import door\n\ndef test_it():\n    while not door.open:\n        pass\n"
    (tree / "test_door.py").write_text(waits)

    def outcome(name, hangs):
        edit = Edit(at="door", old=f"{name} = True", new=f"{name} = False")
        row = {"tests": ("test_door.py",), "edits": (edit,), "hangs": hangs}
        [result] = try_mutants(tree, [Mutant(name="door", promise="Open.", **row)])
        return result.outcome

    assert outcome("red", True) == "survived"
    monkeypatch.setattr(runner, "HANGING", 1.0)
    monkeypatch.setattr(runner, "LONGEST", 1.0)
    assert outcome("open", True) == "died"
    assert outcome("open", False) == "timed out"
