"""The hosts as fixtures: every test of the suite that asks for `arena` runs on each of them.

Full grids run on the clear ring. On a host a protocol is made of the host's blocks, which run in
full, so that a smoke of it shows what can go wrong there: ``@hosts(frac_bits=[16])`` makes the
other cases long, and all of them between two parties of CrypTen: three have the same blocks.
"""

import pytest

from tests.conformance.arenas.arena import ARENAS, ABY3Arena, Arena, CrypTenArena, parameters
from tests.conftest import Pools
from tests.helpers.tfe_process import TFEProcess

TWO = "crypten-2"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what runs on hosts in full only with the long tests."""
    for item in items:
        smoke = item.get_closest_marker("hosts")
        if smoke is None or not isinstance(item, pytest.Function):
            continue
        given = item.callspec.params
        host = str(given.get("arena", ""))
        if host.startswith("clear"):
            continue
        if host == TWO or any(given[name] not in values for name, values in smoke.kwargs.items()):
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=parameters(ARENAS), scope="session")
def arena(request: pytest.FixtureRequest) -> Arena:
    return ARENAS[request.param](request)


@pytest.fixture(scope="session")
def aby3_arena(tfe_process: TFEProcess) -> ABY3Arena:
    return ABY3Arena(tfe_process)


@pytest.fixture(params=[2, 3], ids=["crypten-2", "crypten-3"], scope="session")
def crypten_arena(request: pytest.FixtureRequest, pools: Pools) -> CrypTenArena:
    return CrypTenArena(request.param, pools)
