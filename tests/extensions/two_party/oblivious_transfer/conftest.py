"""One session of two parties for the tests of a file: base transfers take 0.04 s."""

import pytest

from extensions.two_party.oblivious_transfer.extension import Receiver, Sender


def met():
    """Returns both parties of a new session, ready to extend."""
    receiver = Receiver()
    sender = Sender(receiver.begin())
    sender.finish(receiver.trees(sender.answer()))
    return receiver, sender


@pytest.fixture(scope="module")
def session():
    return met()


@pytest.fixture
def new_session():
    return met
