"""What clients note is in a folder of the tests, and workers that are asked for are used."""

import pytest

from fl.training.federated import FederatedAveraging


@pytest.fixture(autouse=True)
def state_folder(monkeypatch, tmp_path_factory):
    """Gives every test a user's state folder of its own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "pea"


@pytest.fixture(autouse=True)
def workers_used(monkeypatch):
    """Lets runs use the workers that they are asked for, however short they are."""
    make = FederatedAveraging._trainer
    monkeypatch.setattr(FederatedAveraging, "_trainer", lambda run, rounds: make(run, None))
