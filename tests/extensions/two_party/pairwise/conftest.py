"""Parties that have met, two and three once for all tests: keys and transfers take a second."""

import pytest

pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")

from tests.helpers.pairwise import Parties


@pytest.fixture(scope="session")
def two():
    return Parties(2)


@pytest.fixture(scope="session")
def three():
    return Parties(3)


@pytest.fixture(
    scope="module", params=[3, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 4))]
)
def parties(request):
    name = {2: "two", 3: "three"}.get(request.param)
    return Parties(request.param) if name is None else request.getfixturevalue(name)
