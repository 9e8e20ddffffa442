"""What the kernel tells of a connection of two hosts whose cable is pulled, or that is full."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from extensions.transport import stream
from extensions.transport.kernel import hung_up, silent_for
from extensions.transport.stream import Stream, prepare
from tests.helpers.hosts_apart import Hosts, enter, needs_root
from tests.helpers.patience import PATIENCE, wait_until

pytestmark = [pytest.mark.long, needs_root]
ASKED = 3.0
"""Seconds after which a host is asked whether it is there."""


@pytest.fixture
def ends():
    """Hosts a and b, and the two ends of a connection between them."""
    with Hosts(["a", "b"]) as hosts:

        def on(name, task):
            with ThreadPoolExecutor(1, initializer=enter, initargs=[hosts.space(name)]) as host:
                return host.submit(task).result(PATIENCE)

        place = (hosts.addresses["b"], 7000)
        with on("b", lambda: socket.create_server(place)) as listener:
            near = on("a", lambda: socket.create_connection(place))
            far, _ = listener.accept()
        with near, far:
            prepare(near)
            prepare(far)
            yield hosts, near, far


def test_a_host_that_drops_packets_is_silent_and_one_that_is_back_is_not(ends):
    hosts, near, _ = ends
    hosts.pull("b")
    wait_until(lambda: silent_for(near) > 3 * ASKED)
    hosts.plug("b")
    wait_until(lambda: silent_for(near) < ASKED)
    assert not hung_up(near)


def test_one_that_vanishes_with_words_on_their_way_ends_a_writer(ends, monkeypatch):
    hosts, near, _ = ends
    monkeypatch.setattr(stream, "VANISHED", 3 * ASKED)
    monkeypatch.setattr(stream, "_LOOK", 1.0)
    hosts.pull("b")
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        Stream(near).write(bytes(64 << 20), PATIENCE)
    assert time.monotonic() - begin < PATIENCE / 2


def test_one_that_does_not_read_is_not_silent_while_its_host_answers(ends):
    """Its kernel is asked ever more rarely; both directions say nothing else meanwhile."""
    _, near, far = ends
    near.setblocking(False)
    with suppress(BlockingIOError):
        while near.send(bytes(1 << 16)):
            pass
    begin, most = time.monotonic(), 0.0
    while time.monotonic() - begin < 10 * ASKED:  # as long as it takes to be asked rarely
        most = max(most, silent_for(near))
        time.sleep(0.2)
    assert most < 3 * ASKED
    assert not hung_up(near)
    assert far.recv(1)
