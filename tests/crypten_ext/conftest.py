"""What several files share: parties with a dealer, and what CrypTen's processes are copies of."""

from collections.abc import Iterator

import pytest

from crypten_ext.processes.launch import Parties
from tests.helpers.commands import assert_all_end
from tests.helpers.patience import PATIENCE


@pytest.fixture(scope="session")
def dealer_pool() -> Iterator[Parties]:
    """Three parties and a dealer, of which nothing is left in the end."""
    with Parties(3, timeout=PATIENCE, provider="dealer") as parties:
        yield parties
        dealer_pid = parties.dealer_pid
    assert_all_end([dealer_pid])


@pytest.fixture(scope="session")
def imported() -> Iterator[None]:
    """CrypTen is imported once for all pools of the session with the usual environment."""
    with Parties(2, timeout=PATIENCE):
        yield
