"""CrypTen's parties make their tuples: right ones, ahead of a step, and in files of use once."""

import os
import re
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("seal", reason="seal-python is not installed: there is no wheel here.")

from benchmarks.providers import STEP
from crypten_ext.dealer import prepare as dealt_beforehand
from crypten_ext.processes.launch import Parties
from crypten_ext.run.needs import check_lattice
from extensions.errors import MissingExtraError, PartyLostError
from extensions.runs.providers import check_provider
from tests.conftest import SHARED
from tests.helpers.commands import pea, report_of, started
from tests.helpers.openings import uniform_p_value
from tests.helpers.party_tasks.pairwise import REQUESTS
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM

TASKS = "tests.helpers.party_tasks.pairwise:"
DEALERS = "tests.helpers.party_tasks.dealer:"

pytestmark = [
    pytest.mark.usefixtures("imported"),
    pytest.mark.xdist_group(SHARED["dealer_pool"]),
]


@pytest.mark.parametrize(
    "task", ["host_tuples", pytest.param("own_tuples", marks=pytest.mark.long)]
)
def test_opened_tuples_fulfil_their_relations(dealer_pool, task):
    for right in dealer_pool.run(DEALERS + task, provider="PARTIES"):
        assert len(right) > 5
        assert [kind for kind, holds in right.items() if not holds] == []


def test_a_step_has_the_rounds_and_openings_that_it_has_with_a_dealer(dealer_pool):
    sizes = {"batch": 6, "features": 5, "classes": 3}
    dealt, made = (
        dealer_pool.run(
            "benchmarks.providers:measure", work=STEP, provider=provider, steps=1, **sizes
        )
        for provider in ("dealer", "parties")
    )
    for one, other in zip(dealt, made, strict=True):
        assert other["rounds"] == one["rounds"] == 18
        # What is made is told alone; TLS records and counts of what is on its way differ a little.
        assert other["bytes"] - other["made_bytes"] == pytest.approx(one["bytes"], rel=0.2)
        assert other["dealer_bytes"] == 0


def test_the_tuples_of_a_step_are_made_when_it_begins(dealer_pool):
    """The first step as it goes, then as many as the last one asked for; what differs, anew."""
    for counted in dealer_pool.run(TASKS + "planned"):
        assert counted == [[2, 2], [4, 4], [6, 6], [9, 8], [11, 9], [12, 10]]


@pytest.mark.long
def test_the_view_of_a_party_does_not_depend_on_data(dealer_pool):
    """As many bytes in every round, and none of them again; what they are, other tests say."""
    one, other = (dealer_pool.run(TASKS + "view", scale=scale) for scale in (1.0, 7.5))
    for seen, again in zip(one, other, strict=True):
        assert len(seen) == len(again) > 20
        for came, later in zip(seen, again, strict=True):
            sizes = {rank: len(message) for rank, message in came.items()}
            assert sizes == {rank: len(message) for rank, message in later.items()}
            assert all(came[rank] != later[rank] for rank, size in sizes.items() if size)


@pytest.mark.long
def test_every_opened_word_is_masked(dealer_pool):
    opened, *_ = dealer_pool.run("tests.helpers.party_tasks.openings:opened", provider="PARTIES")
    assert uniform_p_value(opened) > ALARM


# --- prepared ------------------------------------------------------------------------------------


def paths_in(folder: Path, parties: int = 3) -> list[dict[str, Path]]:
    return [{"path": folder / f"party-{rank}.material"} for rank in range(parties)]


def test_files_are_of_use_once_and_to_their_run_alone(dealer_pool, tmp_path: Path):
    one, other = paths_in(tmp_path / "one"), paths_in(tmp_path / "other")
    for files in (one, other):
        seen = dealer_pool.run(TASKS + "prepared", per_party=files)
        assert seen == [list(range(len(REQUESTS) + 1))] * 3
    assert {path.name for path in tmp_path.rglob("*.*")} == {p["path"].name for p in one}

    def refused(files, **options) -> str:
        answers = dealer_pool.run(TASKS + "used", per_party=files, **options)
        assert all(isinstance(answer, str) for answer in answers)
        return " ".join(answers)

    assert "prepared for steps = 2" in refused(one, settings={"steps": 3})
    assert "at party 0, " in refused([one[0], *other[1:]])
    assert "must be party 0's, not the file of party 1" in refused([one[1], one[0], one[2]])
    dealt = dealt_beforehand(tmp_path / "dealt", 3, REQUESTS, {"made by": "dealer"})
    assert "made by the parties" in refused([{"path": path} for path in dealt])
    assert dealer_pool.run(TASKS + "used", per_party=one) == [[True] * len(REQUESTS)] * 3
    assert refused(one).count("was used before") >= 1


def test_what_was_made_before_a_party_died_is_gone_on_with(tmp_path: Path):
    files = paths_in(tmp_path, 2)
    dying = [files[0], {**files[1], "dies_after": 3}]
    with (
        Parties(2, timeout=PATIENCE) as parties,
        pytest.raises(PartyLostError, check=lambda lost: lost.rank == 1),
    ):
        parties.run(TASKS + "prepared", per_party=dying)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".partial"] * 2
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    partial = [tmp_path / f"party-{rank}.material.partial" for rank in range(2)]
    before = [path.read_bytes() for path in partial]
    os.truncate(partial[0], len(before[0]) - 10)  # as a disk that was full leaves it
    with Parties(2, timeout=PATIENCE) as parties:
        seen = parties.run(TASKS + "prepared", per_party=files)
        assert seen == [list(range(2, len(REQUESTS) + 1))] * 2
        for held, own in zip(before, files, strict=True):
            now = own["path"].read_bytes()
            assert RUN.search(now).group() == RUN.search(held).group()
            assert held[-1000:-900] not in now  # sealed anew
        taken = {"settings": {"made by": "dealer"}, "provider": "DEALER"}
        for refused in parties.run(TASKS + "used", per_party=files, **taken):
            assert "prepared for made by = 'parties'" in refused
        found = parties.run(TASKS + "used", per_party=files)
        assert found == [[True] * len(REQUESTS)] * 2


RUN = re.compile(rb'"run": "[0-9a-f]{32}"')


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_a_party_that_dies_while_tuples_are_made_is_named(victim: int):
    with Parties(2, timeout=PATIENCE) as parties:

        def kill(rank: int, event: object) -> None:
            os.kill(parties.pids[victim], signal.SIGKILL)

        with pytest.raises(PartyLostError, check=lambda lost: lost.rank == victim):
            parties.run(TASKS + "make_forever", on_event=kill)


def test_what_parties_cannot_do():
    for parties in (1, 5):
        with refused("parties", "value", value=parties):
            check_provider("parties", parties)
    with refused("parties", "value", value=5):
        Parties(5, provider="parties")


def test_without_seal_nothing_starts(monkeypatch):
    monkeypatch.setitem(sys.modules, "seal", None)
    with pytest.raises(MissingExtraError, match="lattice"):
        check_lattice()


# --- the command ---------------------------------------------------------------------------------

TRAIN = ("--noise-multiplier", 1.0, "--delta", 1e-5, "--steps", 2, "--provider", "parties")


@pytest.mark.long
@pytest.mark.parametrize("parties", [2, 3])
def test_digits_are_learnt_without_a_dealer(tmp_path: Path, parties: int):
    """Rounds are the dealer's, and so is the number of records that are right, but for noise."""
    reports = {}
    for provider in ("parties", "dealer"):
        told = tmp_path / f"{provider}.json"
        options = ("--parties", parties, "--steps", 20, "--provider", provider, "--json", told)
        done = pea("train", "--epsilon", 8, "--delta", 1e-4, *options)
        assert done.returncode == 0, done.stderr
        reports[provider] = report_of(told)
    made, dealt = reports["parties"], reports["dealer"]
    assert made["provider"] == "parties themselves"
    assert made["rounds"] == dealt["rounds"]
    assert made["dealt_bytes"] == [0] * parties
    assert abs(made["accuracy"] - dealt["accuracy"]) < 0.08


@pytest.mark.long
def test_parties_prepare_each_on_its_own(tmp_path: Path):
    sizes = ("--records", "5,5", "--held-out", "4,4", "--columns", 3)
    meet = ("--rendezvous", f"file://{tmp_path}/meeting")
    out = ("--parties", 2, "--out", tmp_path / "m")
    with ExitStack() as stack:
        commands = [
            stack.enter_context(started("prepare", *TRAIN, *sizes, *meet, *out, "--rank", rank))
            for rank in range(2)
        ]
        for rank, command in enumerate(commands):
            done = command.finish()
            assert done.returncode == 0, done.stderr
            assert done.stdout.count(f"party-{rank}.material") == 1
    assert len([*(tmp_path / "m").iterdir()]) == 2


@pytest.mark.long
def test_a_run_that_the_parties_prepared_makes_no_tuple(tmp_path: Path):
    run = (*TRAIN, "--parties", 2)
    done = pea("prepare", *run, "--out", tmp_path / "m")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(".material") == 2
    train = ("train", *run, "--material", tmp_path / "m", "--json", tmp_path / "run.json")
    done = pea(*train)
    assert done.returncode == 0, done.stderr
    report = report_of(tmp_path / "run.json")
    assert max(report["sent_bytes"]) < 5_000_000
    again = pea(*train)
    assert again.returncode == 1
    assert "party-0.material was used before" in again.stderr
