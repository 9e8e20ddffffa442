"""The hosts as fixtures: every test of the suite that asks for `arena` runs on each of them."""

import pytest

from tests.conformance.arena import ARENAS, Arena, CrypTenArena
from tests.conftest import Pools


@pytest.fixture(params=ARENAS, scope="session")
def arena(request: pytest.FixtureRequest, pools: Pools) -> Arena:
    return ARENAS[request.param](pools)


@pytest.fixture(params=[2, 3], ids=["crypten-2", "crypten-3"], scope="session")
def crypten_arena(request: pytest.FixtureRequest, pools: Pools) -> CrypTenArena:
    return CrypTenArena(request.param, pools)
