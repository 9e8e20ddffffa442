"""The house stays small: names and rules stand once, and rooms keep to their budgets."""

import json

import pytest

from tests.house.rules import EXCEPTIONS, RULES, budgets, size_of


@pytest.mark.parametrize("rule", RULES)
def test_nothing_new_breaks_a_rule_and_what_no_longer_does_is_taken_out(rule: str):
    """`python -m tests.house --write` takes out what is no longer there."""
    found, excepted = RULES[rule](), set(json.loads(EXCEPTIONS.read_text())[rule])
    new = {what: places for what, places in found.items() if what not in excepted}
    assert not new, "say it once, or in its place"
    assert excepted <= set(found), "these hold now: take them out"


@pytest.mark.parametrize("room", budgets())
def test_a_room_keeps_to_its_budget(room: str):
    size, most = size_of(room), budgets()[room]
    assert 0 < size <= most, f"{size} lines: take some out, or say in pyproject.toml what goes"
