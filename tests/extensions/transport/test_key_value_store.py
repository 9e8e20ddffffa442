"""The board at party 0: what members may say to it, and connections to it that break."""

import json
import socket
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from extensions.transport.key_value_store import (
    _LENGTH,
    LARGEST,
    KeyValueStore,
    RemoteKeyValueStore,
    StoreLostError,
)
from tests.helpers.crowds import MANY
from tests.helpers.federations import at_once, cabled
from tests.helpers.patience import PATIENCE, wait_until

GOOD = json.dumps(["set", ["name", "text"]]).encode()


@pytest.fixture
def board(tmp_path):
    """A board, and how a member comes to it through a cable."""
    with cabled(tmp_path) as link:
        found = KeyValueStore()
        link.doors[0].hand_on("run", lambda guest: found.serve(guest.connection))
        yield found, link


def test_texts_are_read_on_over_another_connection(board):
    kept, link = board
    far = RemoteKeyValueStore(link.dial(1, PATIENCE), partial(link.dial, 1), PATIENCE)
    for number in range(5):
        far.set("count", str(number))
        link.cable.reset()
        assert far.get("count") == kept.get("count") == str(number).encode()
        assert far.compare_set(f"once {number}", "", "here") == b"here"
    wait_until(lambda: len(kept._readers) == 1, "the end of the connections that broke")
    link.cable.is_out = True
    far._seconds = 0.5
    link.cable.reset()
    with pytest.raises(StoreLostError):
        far.get("count")
    far.close()


def test_a_board_that_is_closed_is_not_called_any_more(board):
    _, link = board
    called = []

    def again(left, over):
        called.append(left)
        return link.dial(1, left, over)

    far = RemoteKeyValueStore(link.dial(1, PATIENCE), again, 10 * PATIENCE)
    link.cable.is_out = True
    link.cable.reset()

    def close():
        wait_until(lambda: called, "a call")
        far.close()

    assert isinstance(at_once(lambda: far.get("name"), close)[0], StoreLostError)


@pytest.mark.parametrize("number", [2000, MANY])
def test_no_message_breaks_the_board(number):
    """Members alone get so far; what is inside TLS is all that counts."""
    kept, draws = KeyValueStore(), np.random.default_rng(9)
    for _ in range(number):
        here, there = socket.socketpair()
        kept.serve(there)
        with here, suppress(OSError):
            here.sendall(_message(draws))
            here.shutdown(socket.SHUT_WR)
            while here.recv(4096):
                pass
    wait_until(lambda: not kept._readers, "the readers' end")
    here, there = socket.socketpair()
    kept.serve(there)
    far = RemoteKeyValueStore(here)
    far.set("name", "as ever")
    assert kept.get("name") == b"as ever"
    far.close()


def _message(draws) -> bytes:
    """Returns what is no question: of no length, no JSON, too deep, no name, or no text."""
    kind = draws.integers(6)
    text = [
        draws.bytes(int(draws.integers(1, 60))),
        b"[" * 20_000,
        json.dumps(["close", []]).encode(),
        json.dumps(["set", ["name", int(draws.integers(9))]]).encode(),
        json.dumps(["check", [{"a": 1}]]).encode(),
        GOOD[: int(draws.integers(1, len(GOOD)))],
    ][kind]
    length = int(draws.choice([len(text), 0, LARGEST + 1, (1 << 32) - 1]))
    return _LENGTH.pack(length) + text
