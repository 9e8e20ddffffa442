"""The benchmarks of 1/sqrt(x) run from end to end, and count the rounds that are documented."""

import contextlib
import json
import math
import os
import re
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from benchmarks import tables
from benchmarks.instruments.hosts import ABY3, CRYPTEN, SPU
from benchmarks.instruments.socket_diag import carried
from benchmarks.inverse_sqrt import error, hosts, runtime
from benchmarks.inverse_sqrt.error import row
from benchmarks.inverse_sqrt.points import FAR, HIGH, LOW, batch_of, points
from benchmarks.inverse_sqrt.runtime import BATCHES, PUBLISHED, floor_ms, table
from benchmarks.inverse_sqrt.session import INV_SQRT, OURS, PAPER
from benchmarks.network import link
from extensions.errors import EmulationError, PeaError
from tests.helpers.patience import wait_until
from tests.helpers.refused import refused
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads what the kernel counted"),
]
ROUNDS = {(CRYPTEN, OURS): 12, (CRYPTEN, PAPER): 20, (ABY3, OURS): 13, (ABY3, PAPER): 17}
ROUNDS |= {(CRYPTEN, INV_SQRT): 41, (ABY3, INV_SQRT): 37}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    return tmp_path


def recorded(folder: Any, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    assert content["machine"]["processor"]
    assert content["settings"]["parties"] == 3
    return content


def assert_errors(rows: list[dict[str, Any]]) -> None:
    for found in rows:
        if found["method"] == OURS:
            assert found["worst above, %"] == found["points above, %"] == found["above, %"] == 0
            assert 0 < found["worst below, %"] < {16: 0.1, 20: 0.02}[found["f"]]
        elif found["method"] == PAPER:
            assert 0.8 < found["worst below, %"] < 0.9
    two_sided = [found for found in rows if found["method"] == INV_SQRT]
    assert min(found["worst above, %"] for found in two_sided) > 0


def assert_times(content: dict[str, Any], repeats: int) -> None:
    for sample in content["samples"]:
        assert sample["rounds"] == ROUNDS.get((sample["host"], sample["method"]), sample["rounds"])
        assert len(sample["seconds"]) == repeats
        assert min(sample["seconds"]) > 0
        assert min(sample["sent"]) > 8 * sample["batch"]
        assert (sample["dealt"] > 0) == (sample["host"] == CRYPTEN)
        assert sample["network"]["round trip ms"] > 0


@pytest.fixture(scope="module")
def missing_python(tmp_path_factory):
    return str(tmp_path_factory.mktemp("none") / "python")


@pytest.mark.long
def test_error_command_in_crypten(results, monkeypatch):
    monkeypatch.setitem(error.FRAC_BITS, CRYPTEN, (16,))
    error.main(count=300, host=[CRYPTEN], record=True)
    rows = recorded(results, error.NAME)["rows"]
    assert len(rows) == 5
    assert_errors(rows)


@pytest.mark.long
def test_runtime_command_in_crypten(results):
    runtime.main(network=["loopback"], batch=[2], host=[CRYPTEN], repeats=2, record=True)
    content = recorded(results, "inverse-sqrt-runtime-loopback")
    assert [found["rounds"] for found in content["rows"]] == [12, 20, 41, 117]
    assert_times(content, repeats=2)


@needs_tensorflow
@pytest.mark.long
def test_error_command_in_all_hosts(results):
    error.main(count=2000, record=True)
    rows = recorded(results, error.NAME)["rows"]
    assert {(CRYPTEN, 16), (CRYPTEN, 20), (ABY3, 16), (ABY3, 20)} <= {
        (found["host"], found["f"]) for found in rows
    }
    assert_errors(rows)


@needs_tensorflow
@pytest.mark.long
def test_runtime_command_in_all_hosts_on_a_network(results):
    try:
        runtime.main(network=["lan"], batch=[1, 4], repeats=2, record=True)
    except EmulationError as refused:
        pytest.skip(str(refused))
    content = recorded(results, "inverse-sqrt-runtime-lan")
    assert_times(content, repeats=2)
    assert {found["host"] for found in content["rows"]} >= {CRYPTEN, ABY3, "CrypTen (paper)"}
    for found in content["rows"]:
        if found["floor, ms"] != "-":
            assert found["time / floor"] >= 1


def test_a_host_that_is_missing_is_left_out_with_a_line(missing_python, capsys):
    found = hosts.available(missing_python)
    assert SPU not in {host.name for host in found}
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(SPU)]
    assert re.search(r"left out: .*python does not have it.*as spu_python", line)
    with refused("host", "choice", value="MP-SPDZ"):
        hosts.available(missing_python, ["MP-SPDZ"])
    with pytest.raises(PeaError, match="No host is left"):
        hosts.available(missing_python, [SPU])


@pytest.mark.parametrize("frac_bits", [16, 18, 20])
def test_points_are_what_fixed_point_holds(frac_bits):
    x = points(frac_bits, 999)
    for values, high in ((x, FAR), (batch_of(frac_bits, 128), HIGH)):
        scaled = values * 2.0**frac_bits
        assert np.array_equal(scaled, np.rint(scaled))
        assert values[0] == pytest.approx(LOW, abs=2.0**-frac_bits)
        assert values[-1] == high
    assert np.array_equal(batch_of(frac_bits, 1), batch_of(frac_bits, 2)[:1])
    decades = np.histogram(np.log10(x), bins=7, range=(-2, 5))[0]
    assert decades.max() - decades.min() <= 2


def test_a_row_tells_both_sides_and_both_ranges():
    x = np.array([1.0, 4.0, 16.0, 400.0])
    found = row(x, np.array([0.9, 0.6, 0.25, 0.04]))
    expected = {
        "worst below, %": 10.0,
        "worst above, %": 20.0,
        "mean, %": 10 / 3,
        "worst below": 0.1,
        "worst above": 0.1,
        "points above, %": 100 / 3,
        "beyond 300: below, %": 20.0,
        "above, %": 0.0,
    }
    assert found == pytest.approx(expected)


def sample(**changes: Any) -> dict[str, Any]:
    base = {"host": ABY3, "method": OURS, "batch": 128, "rounds": 16, "dealt": 0.0}
    base |= {"seconds": [0.5, 0.4, 0.9], "sent": [1e6, 2e6, 25e5]}
    return base | changes


def test_the_floor_is_that_of_rounds_and_of_the_busiest_party():
    wan = link("wan")
    assert floor_ms(sample(), wan) == pytest.approx(16 * 20 + 25e5 * 8 / 2 / 100e3)
    assert floor_ms(sample(rounds=None), wan) is None
    assert floor_ms(sample(), link("loopback")) is None


def test_a_table_has_the_papers_rows_where_the_paper_has_figures():
    rows = table([sample(), sample(batch=1), sample(host=SPU, rounds=None)], link("wan"))
    ours, peer, *paper = rows
    assert ours["ms, 128"] == ours["ms, 1"] == "500 (400-900)"
    assert ours["paper / this"] == pytest.approx(848.3 / 500)
    assert ours["time / floor"] == pytest.approx(500 / 420)
    assert (ours["ms, 32"], peer["rounds"], peer["floor, ms"], peer["paper / this"]) == ("-",) * 4
    assert peer["time / latency"] == pytest.approx(25)
    assert [found["host"] for found in paper] == [f"{name} (paper)" for name in PUBLISHED["wan"]]
    assert [paper[2][f"ms, {batch}"] for batch in BATCHES] == [4696.42, 6632.96, 6641.89, 6647.64]
    assert all(found.keys() == ours.keys() for found in rows)
    assert len(table([sample()], link("loopback"))) == 1


def test_bytes_of_another_process_are_counted():
    code = "import socket, sys; peer = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
    code += "peer.sendall(bytes(int(sys.argv[2]))); sys.stdin.readline()"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port, size = server.getsockname()[1], 123_457
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(port), str(size)], stdin=subprocess.PIPE
        )
        with contextlib.closing(server.accept()[0]) as near:
            received = 0
            while received < size:
                received += len(near.recv(1 << 16))
            ((sent, received),) = carried([os.getpid()])
            near.sendall(bytes(1000))
            expected = [(sent + 1000, received)]
            wait_until(lambda: carried([os.getpid()]) == expected, "the count of all bytes")
            # TCP counts the opening of a connection.
            assert carried([other.pid]) == [(size + 1, 1000)]
        other.communicate(b"\n")
    with pytest.raises(OSError, match="No such"):
        carried([other.pid])


def test_published_figures_are_complete():
    for figures in PUBLISHED.values():
        assert {len(times) for times in figures.values()} == {len(BATCHES)}
        assert all(math.isfinite(time) for times in figures.values() for time in times)
