"""Parties started by hand, and what is left of a run when one of its parties is killed."""

import os
import signal
import socket
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from crypten_ext.processes.joining import joined
from extensions.data.datasets import write_records
from extensions.errors import PartyLostError
from extensions.protocols.agreement import Statement
from tests.extensions.runs.test_config_data import small_split
from tests.helpers.commands import Command, pea, report_of, started, work_of
from tests.helpers.patience import wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

NOISE = ("--noise-multiplier", 1.0, "--delta", 1e-5)
TWO = Statement(run={"parties": 2})
TRAINED = 6.0
"""Seconds of work after which a party is in mid-run: importing takes three of them."""


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def parties_by_hand(stack: ExitStack, folder: Path, count: int, *options: object) -> list[Command]:
    assert pea("split", "--out", folder, "--parties", count).returncode == 0
    rendezvous = f"tcp://{free_address()}"
    common = ("--world-size", count, "--rendezvous", rendezvous, "--provider", "tfp", *NOISE)
    return [
        stack.enter_context(
            started(
                *("party", "--rank", rank, "--records", folder / f"party-{rank}.npz"),
                *(*common, *options),
                *("--json", folder / f"report-{rank}.json"),
            )
        )
        for rank in range(count)
    ]


@pytest.mark.long
def test_parties_started_by_hand_report_alike(tmp_path):
    with ExitStack() as stack:
        commands = parties_by_hand(stack, tmp_path, 2, "--steps", 3)
        for command in commands:
            done = command.finish()
            assert done.returncode == 0, done.stderr
            assert done.stderr.count("trusted first party") == 1
    first, second = (report_of(tmp_path / f"report-{rank}.json") for rank in range(2))
    for each in (first, second):
        del each["seconds"], each["phases"]
    assert first == second
    assert first["rounds"] == 3 * 18 + 1


@pytest.mark.long
def test_settings_follow_from_what_all_parties_have(tmp_path):
    """Neither knows before they meet that there are enough records for samples of a tenth."""
    address = f"tcp://{free_address()}"
    common = (
        "--world-size",
        2,
        "--rendezvous",
        address,
        "--provider",
        "tfp",
        "--class-names",
        "a,b",
    )
    settings = (
        "--label",
        "kind",
        "--epsilon",
        2,
        "--delta",
        1e-5,
        "--steps",
        2,
        "--budget",
        "none",
    )
    with ExitStack() as stack:
        commands = []
        for rank, rows in enumerate((4_500, 3_000)):
            table, own = (
                tmp_path / f"{rank}.csv",
                "".join(f"{i % 97},{'ab'[i % 2]}\n" for i in range(rows)),
            )
            table.write_text(f"dose,kind\n{own}")
            report = ("--json", tmp_path / f"report-{rank}.json")
            run = ("party", "--rank", rank, "--records", table, *common, *settings, *report)
            commands.append(stack.enter_context(started(*run)))
        for command in commands:
            done = command.finish()
            assert done.returncode == 0, done.stderr
    first, second = (report_of(tmp_path / f"report-{rank}.json") for rank in range(2))
    assert first["chosen"] == second["chosen"]
    assert (sum(first["records"]), first["sample_rate"]) == (6_000, 0.1)


def test_a_party_that_never_comes_is_missed(tmp_path):
    with ExitStack() as stack:
        first, second = parties_by_hand(stack, tmp_path, 2, "--join-timeout", 5)
        second.process.kill()
        done = first.finish()
    assert done.returncode == 1
    (line,) = [one for one in done.stderr.splitlines() if one.startswith("pea: ")]
    assert line.startswith("pea: party 1 has not come to tcp://127.0.0.1:")


def test_the_party_at_which_the_others_meet_is_missed():
    """In this process: nobody has joined anybody yet."""
    place = free_address()
    silent = rf"^party 0 does not answer at tcp://{place} after 0\.3 s"
    with pytest.raises(PartyLostError, match=silent), joined(f"tcp://{place}", 1, TWO, 0.3):
        pass


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--rank", 2, "--rank "),
        ("--rendezvous", "here", "--rendezvous "),
        ("--records", "nowhere.npz", "--records "),
        ("--provider", "dealer", "Give --dealer or --material "),
        ("--dealer", "here:1", "Give --dealer or --material "),
    ],
)
def test_a_party_checks_its_own_arguments_before_it_joins(option, value, expected, tmp_path):
    records = write_records(replace(small_split(), classes=3), tmp_path / "own.npz")
    given = {"--rank": 0, "--rendezvous": "tcp://127.0.0.1:9", "--records": records}
    given |= {"--provider": "tfp", option: value}
    done = pea(
        "party", "--world-size", 2, *NOISE, *(part for pair in given.items() for part in pair)
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"pea: {expected}")
    assert "Traceback" not in done.stderr


def wait_for_work(pids: list[int]) -> None:
    wait_until(lambda: min(map(work_of, pids)) >= TRAINED, "the work of all")


@pytest.mark.long
def test_a_killed_party_ends_the_run_and_is_named():
    with started("train", *NOISE, "--steps", 5000) as command:
        wait_until(lambda: len(command.running()) == 4, "the start of all")
        _, *parties = command.running()
        wait_for_work(parties)
        os.kill(parties[1], 9)
        done = command.finish()
    assert done.returncode == 1
    assert "pea: party 1 was killed by signal 9 (SIGKILL)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_parties_by_hand_name_the_one_that_was_lost(victim, number, tmp_path):
    """Party 0 hosts the meeting place."""
    with ExitStack() as stack:
        commands = parties_by_hand(stack, tmp_path, 3, "--steps", 5000)
        wait_for_work([command.process.pid for command in commands])
        commands[victim].process.send_signal(number)
        for rank in {0, 1, 2} - {victim}:
            done = commands[rank].finish()
            assert done.returncode == 1
            (line,) = [one for one in done.stderr.splitlines() if one.startswith("pea: ")]
            assert line.startswith(f"pea: party {victim} ")
            assert "Traceback" not in done.stderr
