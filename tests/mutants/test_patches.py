"""Every mutant can be tried: its patch applies to the tree, and the tests that it names exist."""

import re
import shutil

import pytest

from tests.helpers.paths import ROOT
from tests.mutants.catalogue import PROMISE, TESTS, find_mutants

MUTANTS = find_mutants()


def test_there_are_as_many_as_promised_and_each_has_a_header():
    assert len(MUTANTS) >= 60
    for mutant in MUTANTS:
        first, second, *_ = mutant.patch.splitlines()
        assert first.startswith(PROMISE), mutant.name
        assert second.startswith(TESTS), mutant.name
        assert mutant.tests, mutant.name
        assert mutant.files, mutant.name


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed.")
def test_every_patch_applies_to_the_tree():
    refused = {m.name: said for m in MUTANTS if (said := m.apply(ROOT, dry_run=True))}
    assert refused == {}


def test_the_named_tests_exist():
    missing = []
    for test in sorted({test for mutant in MUTANTS for test in mutant.tests}):
        path, *names = test.partition("[")[0].split("::")
        text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""
        found = [re.search(rf"^\s*(def|class) {name}\b", text, re.MULTILINE) for name in names]
        if not text or not all(found):
            missing.append(test)
    assert missing == []
