"""The file that says where the players are."""

import json
import socket
from collections import OrderedDict
from pathlib import Path
from typing import Any

from extensions.checks import check_address
from extensions.errors import ArgumentError

SERVERS = ("server0", "server1", "server2")


def read_players(file: str | Path) -> "OrderedDict[str, str]":
    """Returns each player's address, in the file's order, which must be one for all processes.

    The file is a JSON object such as ``{"server0": "10.0.0.1:4440", "server1": "10.0.0.2:4440",
    "server2": "10.0.0.3:4440"}``. The three servers must be there; any other name is a player that
    gives inputs or gets outputs. TF Encrypted's own tools read it too.
    """
    try:
        players: OrderedDict[str, str] = json.loads(
            Path(file).read_text(), object_pairs_hook=_distinct
        )
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError("players", str(file), "a JSON file", f"{error}.", code="file") from None
    texts = isinstance(players, OrderedDict) and all(isinstance(a, str) for a in players.values())
    if not texts or not set(SERVERS) <= set(players):
        allowed = 'a JSON object of names and addresses with "server0", "server1" and "server2"'
        raise ArgumentError("players", str(file), allowed, code="file")
    for name, address in players.items():
        check_address(f"players[{name!r}]", address)
    if len(set(players.values())) < len(players):
        allowed = "a file in which no address occurs twice"
        raise ArgumentError("players", str(file), allowed, code="file")
    return players


def is_here(address: str) -> bool:
    """Whether a socket of this host can have the address; its port does not matter."""
    host, _ = check_address("players", address)
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(
            host, 0, type=socket.SOCK_STREAM
        ):
            with socket.socket(family, kind, protocol) as one:
                one.bind(place)
    except OSError:
        return False
    return True


def _distinct(pairs: list[tuple[str, Any]]) -> "OrderedDict[str, Any]":
    players = OrderedDict(pairs)
    if len(players) < len(pairs):
        raise ValueError("A name occurs twice.")
    return players
