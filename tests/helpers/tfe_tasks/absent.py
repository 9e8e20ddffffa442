"""Tasks on files of players, and on players that are not there."""

from pathlib import Path

import pytest

import tfe_ext
from extensions.errors import ArgumentError, PlayerLostError

GOOD = '{"server0": "localhost:1", "server1": "localhost:2", "server2": "localhost:3"}'


def nobody_answers(file, seconds):
    with pytest.raises(PlayerLostError) as caught:
        tfe_ext.remote_config(file, join_timeout=seconds)
    assert caught.value.player == "server0"
    text = str(caught.value)
    assert text.startswith("player server0 did not answer at 127.0.0.1:")
    assert "within 2 s, nor did player server1, nor did player server2." in text
    assert "pea players --config FILE --player server0" in text


def unsuitable_files(folder):
    file = Path(folder) / "players.json"
    for text, pattern in (
        ("{", "a JSON file"),
        ("[]", "a JSON object"),
        ('{"server0": "localhost:1", "server1": "localhost:2"}', '"server2"'),
        (GOOD.replace('"localhost:3"', "3"), "a JSON object"),
        (GOOD.replace("localhost:3", "localhost"), "server2.*HOST:PORT"),
        (GOOD.replace("localhost:3", ":3"), "server2.*HOST:PORT"),
        (GOOD.replace("localhost:3", "localhost:65536"), "server2.*HOST:PORT"),
        (GOOD.replace("localhost:3", "localhost:0"), "server2.*HOST:PORT"),
        (GOOD.replace("localhost:3", "localhost:1"), "occurs twice"),
        (GOOD.replace("server1", "server0"), "A name occurs twice"),
    ):
        file.write_text(text)
        with pytest.raises(ArgumentError, match=pattern):
            tfe_ext.remote_config(file)
    file.write_text(GOOD)
    with pytest.raises(ArgumentError, match="join_timeout"):
        tfe_ext.remote_config(file, join_timeout=0)
    with pytest.raises(FileNotFoundError):
        tfe_ext.remote_config(file.with_name("missing.json"))
