"""On CrypTen and on ABY3 the protocols take the openings, rounds and bytes that they took."""

from typing import Any

import pytest

from tests.conformance.arenas.arena import ABY3Arena, CrypTenArena
from tests.conformance.arenas.recipes import RECIPES
from tests.conftest import Pools
from tests.golden.cases import CASES
from tests.golden.hosts import PARTIES, TRACED, on_aby3, on_crypten, stored
from tests.golden.protocols import SETTINGS
from tests.helpers.tfe_process import TFEProcess

QUICK = (
    *("truncate_and_multiply", "less_than", "select", "scaled_rows", "through sigmoid"),
    *("through relu", "backpropagate", "windows", "initialize local-average"),
)
"""Whose graphs on ABY3 are traced in a second of a processor at most; the others are long."""


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, Any]]:
    return stored()


def test_every_recipe_that_sends_is_stored(golden: dict[str, dict[str, Any]]):
    assert {one.recipe for one in SETTINGS.values()} == {*RECIPES} - {"local_operations"}
    assert golden["crypten"].keys() == SETTINGS.keys()
    assert golden["aby3"].keys() == {*TRACED}
    assert not CASES.keys() & SETTINGS.keys(), "names say what is to be stored anew"


def test_crypten_opens_what_it_opened(pools: Pools, golden: dict[str, dict[str, Any]]):
    arena = CrypTenArena(PARTIES, pools)
    found = {name: on_crypten(arena, name) for name in SETTINGS}
    assert found == golden["crypten"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else pytest.mark.long) for n in TRACED],
)
def test_aby3_takes_what_it_took(
    tfe_process: TFEProcess, golden: dict[str, dict[str, Any]], name: str
):
    assert on_aby3(ABY3Arena(tfe_process), name) == golden["aby3"][name]
