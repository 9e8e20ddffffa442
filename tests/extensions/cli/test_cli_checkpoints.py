"""Runs of the `pea` command that are interrupted for real, resumed, and released once."""

import os
import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from extensions.data.datasets import load, split_among
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from tests.conftest import SHARED
from tests.extensions.cli.test_cli_parties import free_address
from tests.helpers.commands import PLAIN, Command, pea, report_of, started
from tests.helpers.patience import wait_until
from tests.helpers.players import SERVERS, digits, free_addresses, running_players, write
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc"),
]

STEPS = 24
NOISE = ("--noise-multiplier", 1.0, "--delta", 1e-5)
LONG_RUN = (*PLAIN, "--steps", 1000, "--noise-multiplier", 8.0, "--delta", 1e-5)
"""Of so small an epsilon that what goes wrong with a tiny probability weighs little."""
RUN = ("train", *PLAIN, "--parties", 2, "--steps", STEPS, "--checkpoint-every", 2, *NOISE)
LOCAL = ("--init", "local-average", "--epsilon-init", 1.0, "--init-steps", 3)
STARTED = {"init": "local-average", "epsilon_init": 1.0, "init_steps": 3}


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def step_of(path: Path) -> int:
    match = re.fullmatch(r"party-\d+-step-(\d+)\.checkpoint", path.name)
    assert match, path
    return int(match[1])


def kept(folder: Path, rank: int) -> list[int]:
    """Returns the steps of a party's checkpoints."""
    return sorted(step_of(path) for path in folder.glob(f"party-{rank}-step-*"))


def wait_for(command: Command, folder: Path, rank: int, step: int) -> None:
    def reached() -> bool:
        assert command.process.poll() is None, command.process.communicate()
        return max(kept(folder, rank), default=-1) >= step

    wait_until(reached, f"checkpoint {step}")


def uninterrupted(**changes: Any) -> dict[str, Any]:
    """Returns the report of a plaintext run with the same settings, whose ledger is the same."""
    settings: dict[str, Any] = {"parties": 2, "steps": STEPS, **changes}
    config = TrainConfig(backend="clear", noise_multiplier=1.0, delta=1e-5, **settings).resolved()
    parts = split_among(load("digits", None, 0), config.parties)
    return train(config, parts, lambda event: None)


def refused(*arguments: object) -> str:
    done = pea(*arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.xdist_group(SHARED["pools"])
def test_a_killed_party_and_a_resumed_run(tmp_path):
    folder, run = tmp_path / "kept", (*RUN, *LOCAL, "--json", tmp_path / "report.json")
    run = (*run, "--provider", "tfp")
    with started(*run, "--checkpoint", folder) as command:
        wait_for(command, folder, 0, 4)
        os.kill(command.running()[-1], 9)
        done = command.finish()
    assert done.returncode == 1
    assert "was killed by signal 9 (SIGKILL)" in done.stderr
    assert "give the same command with --resume" in done.stderr
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    base = max({*kept(folder, 0)} & {*kept(folder, 1)})
    done = pea(*run, "--checkpoint", folder, "--resume")
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "report.json")
    assert report["resumed_from"] == [base]
    assert report["steps"] == STEPS
    assert report["rounds"] == (STEPS - base) * 18 + 3, "one round to agree, two for checkpoints"
    assert report["epsilon"] == uninterrupted(**STARTED)["epsilon"]
    assert sorted(path.name for path in folder.iterdir()) == [
        f"party-{rank}{name}" for rank in range(2) for name in ("-result.json", ".finished")
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--resume",), "pea: --resume needs --checkpoint."),
        (("--checkpoint-every", 2), "pea: --checkpoint-every needs --checkpoint."),
        (
            ("--checkpoint", "nowhere", "--resume", "--material", "m"),
            "pea: --material ",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    assert refused("train", *NOISE, *options).startswith(message)


def parties_by_hand(stack: ExitStack, folder: Path, *options: object) -> list[Command]:
    rendezvous = f"tcp://{free_address()}"
    common = ("--world-size", 2, "--rendezvous", rendezvous, "--provider", "tfp", *NOISE, *PLAIN)
    return [
        stack.enter_context(
            started(
                *("party", "--rank", rank, "--records", folder / f"party-{rank}.npz"),
                *(*common, *options),
                *("--steps", STEPS, "--checkpoint-every", 2),
                *("--checkpoint", folder / f"kept-{rank}"),
                *("--json", folder / f"report-{rank}.json"),
            )
        )
        for rank in range(2)
    ]


@pytest.mark.long
def test_parties_by_hand_resume_from_folders_of_their_own(tmp_path):
    """Party 1 falls back by one checkpoint; then party 0's file is damaged; then all is well."""
    assert pea("split", "--out", tmp_path, "--parties", 2).returncode == 0
    with ExitStack() as stack:
        commands = parties_by_hand(stack, tmp_path)
        wait_for(commands[1], tmp_path / "kept-1", 1, 4)
        commands[1].process.kill()
        for command in commands:
            command.finish()
    newest = {rank: kept(tmp_path / f"kept-{rank}", rank)[-1] for rank in range(2)}
    if newest[0] <= newest[1]:
        (tmp_path / "kept-1" / f"party-1-step-{newest[1]}.checkpoint").unlink()
    base = max({*kept(tmp_path / "kept-0", 0)} & {*kept(tmp_path / "kept-1", 1)})

    whole = tmp_path / "kept-0" / f"party-0-step-{base}.checkpoint"
    content = whole.read_bytes()
    whole.write_bytes(content[:-1])
    with ExitStack() as stack:
        outputs = [each.finish() for each in parties_by_hand(stack, tmp_path, "--resume")]
    assert [done.returncode for done in outputs] == [1, 1]
    assert "must be an undamaged checkpoint" in outputs[0].stderr
    assert "must be accepted by every party, not refused by party 0" in outputs[1].stderr
    whole.write_bytes(content)

    with ExitStack() as stack:
        outputs = [each.finish() for each in parties_by_hand(stack, tmp_path, "--resume")]
    assert [done.returncode for done in outputs] == [0, 0], [done.stderr for done in outputs]
    reports = [report_of(tmp_path / f"report-{rank}.json") for rank in range(2)]
    assert [report["resumed_from"] for report in reports] == [[base]] * 2
    assert reports[0]["epsilon"] == uninterrupted()["epsilon"]

    with ExitStack() as stack:
        outputs = [each.finish() for each in parties_by_hand(stack, tmp_path, "--resume")]
    assert all("of a run that was finished" in done.stderr for done in outputs)


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize("apart", [False, True], ids=["devices", "players"])
def test_servers_that_die_and_a_resumed_run(tmp_path, apart):
    folder, file = tmp_path / "kept", tmp_path / "players.json"
    run = ("train", *PLAIN, "--backend", "tfe", "--steps", STEPS, "--checkpoint-every", 2, *NOISE)
    run = (*run, *LOCAL, "--checkpoint", folder, "--json", tmp_path / "report.json")
    with ExitStack() as stack:
        if apart:
            records = ("--records", digits(tmp_path / "records"))
            stack.enter_context(running_players(write(file, free_addresses(SERVERS)), *records))
            run = (*run, "--players", file)
        with started(*run) as command:
            wait_for(command, folder, 2, 4)
            os.kill(command.running()[-1], 9)
            done = command.finish()
        assert done.returncode == 1
        base = max(set.intersection(*({*kept(folder, rank)} for rank in range(3))))
        done = pea(*run, "--resume")
        assert done.returncode == 0, done.stderr
        assert "of a run that is not finished" in refused(*run, "--resume")
    report = report_of(tmp_path / "report.json")
    assert report["resumed_from"] == [base]
    assert report["rounds"] == (STEPS - base) * 19
    whole = uninterrupted(parties=3, **STARTED)
    assert report["epsilon"] == pytest.approx(whole["epsilon"], rel=1e-3)
    assert report["accuracy"] > 0.5


@pytest.mark.long
@needs_tensorflow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "falls silent"])
def test_a_lost_player_is_named_and_the_run_can_be_resumed(tmp_path, sent):
    """TensorFlow raises an error for a player that died, and waits for a silent one."""
    folder, addresses = tmp_path / "kept", free_addresses(SERVERS)
    file = write(tmp_path / "players.json", addresses)
    run = ("train", "--backend", "tfe", "--players", file, *LONG_RUN)
    run = (*run, "--checkpoint-every", 1)
    running = running_players(file, "--records", digits(tmp_path / "records"))
    with running as (_, pids), started(*run, "--checkpoint", folder) as command:
        wait_for(command, folder, 2, 2)
        os.kill(pids["server1"], sent)
        done = command.finish()
    assert done.returncode == 1
    *_, lost, hint = done.stderr.splitlines()
    assert lost == f"pea: player server1 no longer answers at {addresses['server1']}"
    said = f"What players keep in {folder} is not lost: give the same command with --resume."
    assert hint == said
