"""What carries the rounds in which parties attack."""

import pytest

from tests.helpers.federated import attackers
from tests.helpers.federated.carriers import CARRIERS


@pytest.fixture
def carrier(request, monkeypatch):
    """Has rounds carried by the named one (`CARRIERS`)."""
    monkeypatch.setattr(attackers, "carry", CARRIERS[request.param])
    return request.param
