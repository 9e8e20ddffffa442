"""What a run says of its traffic: of each party, their mean, the largest, and of padding."""

import socket
import sys
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from extensions.protocols.agreement import Statement
from extensions.protocols.host import Carried, Host, Traffic
from extensions.protocols.optimizer import State
from extensions.runs.callbacks import ProgressCallback
from extensions.runs.config import TrainConfig
from extensions.runs.summaries.forecast import traffic_in
from extensions.transport.kernel import carried, connections
from tests.helpers.patience import wait_until

CONFIG = TrainConfig(private=False)
START = Traffic(1, [Carried(10, 20, 5)])
NOW = Traffic(28, [Carried(110, 320, 50)])


class OneOfThree(Host):
    """A party whose traffic is given, and what the others say of theirs."""

    holders = (0,)

    def __init__(self, traffic: Traffic, *others: list[int]) -> None:
        self.given, self.others = traffic, others

    def traffic(self) -> Traffic:
        return self.given

    def exchange(self, own: Any) -> Any:
        return [*own, *self.others]


def following(host: OneOfThree, told: list[dict[str, Any]]) -> ProgressCallback:
    """One whose steps begin at START, with a quarter of padding."""
    now, host.given = host.given, START if host.given.carried else Traffic(1)
    callbacks = ProgressCallback(host, CONFIG, Statement(run={}), told.append)
    callbacks.begin(SimpleNamespace(sizes=(1,), padding=lambda _: 0.25))  # type: ignore[arg-type]
    host.given = now
    return callbacks


def test_a_sum_of_traffic():
    step = NOW.plus(START, times=-1)
    assert step == Traffic(27, [Carried(100, 300, 45)])
    assert START.plus(step, times=1) == NOW
    assert (NOW.mean, NOW.largest) == (430, 430)
    three = Traffic(1, [Carried(1, 2, 9), Carried(3, 3), Carried()])
    assert (three.mean, three.largest) == (3, 6)
    assert (Traffic(3).mean, Traffic(3).largest) == (None, None)


def test_a_report_has_all_parties_and_progress_this_one():
    told: list[dict[str, Any]] = []
    callbacks = following(OneOfThree(NOW, [100, 100, 0, 10], [600, 0, 90, 30]), told)
    assert callbacks.traffic() == (
        Traffic(28, [Carried(110, 320, 50), Carried(100, 100, 0), Carried(600, 0, 90)]),
        round((100 + 10 + 30) / 3),
    )
    callbacks(1, State([]), None)  # type: ignore[arg-type]
    steps = {"step": 1, "steps": CONFIG.steps}
    assert told == [{**steps, "rounds": 28, "bytes": 430, "largest": 430, "padding": 100}]


@pytest.mark.parametrize("own", [Traffic(28), NOW])
def test_where_a_party_cannot_count_nobody_tells_bytes(own):
    other = [-1] * 4 if own.carried else [1, 1, 1, 1]
    told: list[dict[str, Any]] = []
    callbacks = following(OneOfThree(own, other), told)
    assert callbacks.traffic() == (Traffic(28), None)


@pytest.mark.parametrize(
    ("sizes", "shown"),
    [
        ((430e6, 430e6, 100e6), "28 rounds, 430.0 MB a party (100.0 of padding)"),
        ((430e6, 512e6, 100e6), "28 rounds, 430.0 MB a party, 512.0 at most (100.0 of padding)"),
        ((None, None, None), "28 rounds"),
    ],
)
def test_progress_is_told_in_megabytes(sizes, shown):
    names = ("bytes", "largest", "padding")
    event = {"rounds": 28, **dict(zip(names, sizes, strict=True))}
    assert traffic_in(event, len(shown)) == shown
    assert len(traffic_in(event, len(shown) - 1)) < len(shown)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux counts")
def test_a_connection_s_bytes_count_once_they_are_handed_over():
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        with closing(far), closing(near):
            ends = far.fileno(), near.fileno()
            ports = far.getsockname()[1], near.getsockname()[1]
            found = {one.descriptor: (one.near, one.far) for one in connections()}
            assert [found[end] for end in ends] == [ports, ports[::-1]]
            assert server.fileno() not in found
            assert carried(ends) == (0, 0)
            near.sendall(bytes(1000))
            wait_until(lambda: carried(ends) == (1000, 1000), "the bytes")
            far.setblocking(False)
            sent = far.send(bytes(1 << 26))
            assert sent < 1 << 26
            assert carried(ends[:1]) == (sent, 1000)  # unread, and some of it not even sent
        assert carried(ends) == (0, 0)
