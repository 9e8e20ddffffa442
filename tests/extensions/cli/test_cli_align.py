"""`pea align`: owners' tables are aligned by processes over TLS, one of which may be killed."""

import csv
import json
import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from extensions import durable
from extensions.checks import check_address
from extensions.data.aligned import Alignment
from extensions.data.datasets import read_cells
from extensions.runs.budget import path_of, read
from extensions.runs.processes.credentials import federation_of
from extensions.transport import Federation
from tests.helpers.commands import Command, pea, started
from tests.helpers.federations import identities, listeners
from tests.helpers.patience import wait_until

NAMES = ("bank", "telco", "insurer")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A folder with three owners' tables, keys and federation, in which commands are typed."""
    monkeypatch.chdir(tmp_path)
    own, places = identities(tmp_path, *NAMES), listeners(3)
    federation_of(own, places).write(Path("federation.toml"))
    for place in places:
        place.close()
    for rank, name in enumerate(NAMES):
        rows = [[f" AB-{n} ", n, f"of {name};" + '"' * (n % 2)] for n in range(rank, 300 - rank)]
        with open(f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([["id", "a", "b"], *rows[:: 1 - 2 * (rank % 2)]])
    return tmp_path


def typed(rank: int, *more: object) -> list[object]:
    """The command of an owner."""
    name = NAMES[rank]
    own = ("--records", f"{name}.csv", "--id", "id", "--key", f"{name}.pem")
    place = ("--rank", rank, "--world-size", 3, "--out", f"{name}/aligned.csv")
    return ["align", *own, *place, "--processes", 1, *more]


def aligned() -> list[list[str]]:
    """Checks what all owners have written; returns column a of each."""
    tables = [read_cells(Path(name, "aligned.csv")) for name in NAMES]
    found = [Alignment.read(Alignment.beside(Path(name, "aligned.csv"))) for name in NAMES]
    assert all([*table] == ["a", "b"] for table in tables)
    assert {one.order for one in found} == {found[0].order}
    assert [one.owner for one in found] == [*NAMES]
    assert {(one.members, one.sizes, one.rows) for one in found} == {(NAMES, (300, 298, 296), 296)}
    assert [str(b) for b in tables[1]["b"]] == [
        "of telco;" + '"' * (int(a) % 2) for a in tables[1]["a"]
    ]
    return [[*table["a"]] for table in tables]


def test_three_owners_have_their_rows_in_one_order(host):
    with ExitStack() as stack:
        all_three = [stack.enter_context(started(*typed(rank))) for rank in range(3)]
        done = [one.finish() for one in all_three]
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]
    first, *others = aligned()
    assert sorted(map(int, first)) == [*range(2, 298)]
    assert others == [first, first]
    assert "lists: bank 300, telco 298, insurer 296" in done[1].stdout
    assert "296 persons, 100% of the shortest list" in done[1].stdout
    assert not any("AB-" in each.stdout + each.stderr for each in done)
    assert "multiplies bank's list" in done[2].stderr
    (entry,) = read(path_of(Path("telco.csv"))).entries
    assert entry.title == "alignment: bank 300, telco 298, insurer 296"
    assert (entry.opens, entry.spent, entry.epsilon(1e-5)) == (("296 common persons",), True, 0.0)
    assert json.loads(Path("telco/alignment.json").read_text())["owner"] == "telco"
    refused = pea(*typed(0), "--most-alignments", 1)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "--most-alignments must be more than 1" in refused.stderr


def listens(rank: int) -> bool:
    """Whether an owner has opened its port, by when its ledger is not in use any more."""
    address = Federation.read(Path("federation.toml")).members[rank].address
    try:
        socket.create_connection(check_address("address", address), 1).close()
    except OSError:
        return False
    return True


def test_an_owner_that_is_killed_is_named_by_all_others(host):
    """While the first one waits for its ledger, so that nobody has sent a point yet."""
    Path("ledgers").mkdir()
    with ExitStack() as stack:
        own = ("--budget", "ledgers/own.budget.json")
        owners = [stack.enter_context(started(*typed(0, *own)))]
        wait_until(lambda: listens(0))
        with durable.locked(Path("ledgers")):
            owners += [stack.enter_context(started(*typed(rank))) for rank in (1, 2)]
            for name in NAMES[1:]:
                wait_until(lambda name=name: read(path_of(Path(f"{name}.csv"))).entries)
            os.kill(owners[1].process.pid, signal.SIGKILL)
            done = {2: owners[2].finish()}
        done[0] = owners[0].finish()
    for one in done.values():
        assert one.returncode == 1
        assert "pea: party 1 (telco)" in one.stderr
    assert not Path("bank").exists()


def test_after_a_kill_the_same_command_goes_on(host):
    """Wherever it was; in the ledgers the alignment is there once if it had begun at all owners."""

    def begun() -> list[Command]:
        return [
            stack.enter_context(started(*typed(rank, "--checkpoint", f"kept-{rank}")))
            for rank in range(3)
        ]

    with ExitStack() as stack:
        owners = begun()
        wait_until(lambda: Path("kept-1/list-own").exists() or owners[1].process.poll() is not None)
        os.kill(owners[1].process.pid, signal.SIGKILL)
        told = [one.finish().stderr for one in owners]
        if not (owners[0].process.returncode or owners[2].process.returncode):
            pytest.skip("it was done before")
        assert all("give the same command again" in told[rank] for rank in (0, 2))
        assert [one.finish().returncode for one in begun()] == [0, 0, 0]
    assert sorted(map(int, aligned()[0])) == [*range(2, 298)]
    assert {len(read(path_of(Path(f"{name}.csv"))).entries) for name in NAMES} == {1}
    assert not [*host.glob("kept-*/*")]


def test_too_few_common_persons_are_told_by_all_and_nothing_is_written(host):
    with ExitStack() as stack:
        least = (("--least", 400), (), ())
        owners = [stack.enter_context(started(*typed(n, *least[n]))) for n in range(3)]
        for done in [one.finish() for one in owners]:
            assert done.returncode == 1
            assert "--least: 296 common ids must be at least 400." in done.stderr
    assert not [*host.glob("*/aligned.csv")]


def test_who_comes_alone_says_whom_it_missed(host):
    done = pea(*typed(0, "--join-timeout", 1))
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "waiting until all are there: bank, telco, insurer"
    assert "party 1 (telco) did not come" in done.stderr
