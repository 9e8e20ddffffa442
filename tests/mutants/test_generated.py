"""Changes that a program makes are found by the tests, when they were last tried."""

import ast

import pytest

from tests.helpers.paths import ROOT
from tests.mutants import changes, generated, mapping
from tests.mutants.changes import change_of, functions

PROGRAM = '''
def first(x, y):
    """Docs."""
    if x < 2:
        x += y
    return max(x, 7) + y


class Door:
    width: int = 3

    def shut(self, *parts):
        raise ValueError(parts[0] / 2)

    def abstract(self):
        raise NotImplementedError

    def inner(self):
        def deepest():
            return {zip(self, self, strict=True)}
        return deepest
'''


def test_a_change_is_one_of_its_function_and_always_the_same(tmp_path):
    file = tmp_path / "door.py"
    file.write_text(PROGRAM)
    names = [name for name, _ in functions(ast.parse(PROGRAM))]
    assert names == ["first", "Door.shut", "Door.inner", "Door.inner.deepest"]
    before = ast.unparse(ast.parse(PROGRAM)).splitlines()
    for name in names:
        change = change_of(file, "door", name)
        assert change == change_of(file, "door", name)
        after = change.program.splitlines()
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1, change.change
    assert change_of(file, "door", "Door.inner.deepest").change.endswith("-> return None")


def test_what_is_computed_may_be_changed_in_many_ways():
    [function] = ast.parse("def f(x):\n    g(x, 1)\n    return not min(x, 2) <= 3 or -x").body
    kinds = {kind for _, _, kind, _ in changes._possible(function)}
    assert kinds == {"both", "compare", "constant", "drop", "nothing", "sign", "swap", "twin"}


def test_own_tests_come_first_and_a_test_function_before_a_second_case_of_one():
    own, other = "tests/test_door.py::test_it", "tests/test_house.py::test_it"
    tests = [
        mapping.Reaching(f"{own}[1]", 0.1, False),
        mapping.Reaching(f"{own}[2]", 0.2, False),
        mapping.Reaching(f"{own}_too", 0.3, False),
        mapping.Reaching(other, 0.01, False),
        mapping.Reaching(f"{own}_apart", 0.05, True),
    ]
    ordered = mapping._in_order("house.door:Door.shut", tests)
    names = [f"{own}[1]", f"{own}_too", f"{own}[2]", other, f"{own}_apart"]
    assert [test.test for test in ordered] == names
    assert [[test.test for test in some] for some in generated.rounds(ordered)] == [names[:4]]
    assert next(generated.rounds(ordered[4:])) == ordered[4:]


@pytest.mark.skipif(not generated.FILE.exists(), reason="nothing is stored")
def test_what_is_stored_is_of_this_program_and_nine_of_ten_changes_died():
    rows = generated.read()
    now = {
        f"{module}:{name}"
        for module, file in mapping.modules(ROOT)
        for name, _ in functions(ast.parse(file.read_bytes()))
    }
    known = {row.function for row in rows} & now
    assert len(known) >= max(300, 0.9 * len(now))
    assert generated.share(rows) >= generated.LEAST
    without = [row.function for row in rows if row.outcome not in generated.DIED and not row.reason]
    assert without == []
