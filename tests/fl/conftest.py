"""What clients note is in a folder of the tests."""

import pytest


@pytest.fixture(autouse=True)
def state_folder(monkeypatch, tmp_path_factory):
    """Gives every test a user's state folder of its own."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "pea"
