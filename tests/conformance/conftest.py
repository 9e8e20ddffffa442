"""The hosts as fixtures: every test of the suite that asks for `arena` runs on each of them."""

import pytest

from tests.conformance.arenas.arena import ARENAS, ABY3Arena, Arena, CrypTenArena, parameters
from tests.conftest import Pools
from tests.helpers.tfe_process import TFEProcess


@pytest.fixture(params=parameters(ARENAS), scope="session")
def arena(request: pytest.FixtureRequest) -> Arena:
    return ARENAS[request.param](request)


@pytest.fixture(scope="session")
def aby3_arena(tfe_process: TFEProcess) -> ABY3Arena:
    return ABY3Arena(tfe_process)


@pytest.fixture(params=[2, 3], ids=["crypten-2", "crypten-3"], scope="session")
def crypten_arena(request: pytest.FixtureRequest, pools: Pools) -> CrypTenArena:
    return CrypTenArena(request.param, pools)
