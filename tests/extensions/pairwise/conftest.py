"""Parties that have met, once for all tests of a file: keys and base transfers take a second."""

import pytest

pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")

from tests.helpers.pairwise import Parties


@pytest.fixture(scope="module", params=[2, 3, pytest.param(4, marks=pytest.mark.long)])
def parties(request):
    return Parties(request.param)


@pytest.fixture(scope="module")
def three():
    return Parties(3)
