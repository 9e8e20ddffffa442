"""A model's run in the ledger of a data owner's records: never below what is told, once for all."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crypten_ext.pencil.account import Account, Budget, enter_earlier
from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger
from extensions.runs.budget import Cap, Entry, Reservations, read, update
from extensions.transport import Member
from tests.helpers.commands import pea

BUDGET: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "steps": 20, "sample_rate": 0.1}
RECORDS = 1000


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "records.npz.budget.json"


def account(path: Path, owner: str | None = None, **changes: Any) -> Account:
    member = None
    if owner is not None:
        fingerprint = f"{len(owner)}" * 64
        member = Member(name=owner, role="party", address="127.0.0.1:7000", fingerprint=fingerprint)
    return Account(path, Budget(**{**BUDGET, **changes}), RECORDS, member)


def of_training(name: str = "trained", noise: float = 3.0) -> Entry:
    """Returns what `pea train` enters."""
    made = Ledger()
    made.record("training", noise_multiplier=noise, sample_rate=0.1, steps=20)
    return Entry(name=name, began="2026-01-01", title="run", ledger=made, exact=False, opens=())


def spend(one: Account) -> int:
    """Returns how many steps an account lets a model's owner be told."""
    made = 0
    while one.left:
        try:
            one.charge()
        except ArgumentError:
            break
        made += 1
    return made


def test_accounts_of_one_model_share_its_steps_whatever_the_order(ledger: Path):
    one, two = account(ledger), account(ledger)
    for _ in range(7):
        one.charge(), two.charge()
    assert (one.made, two.made, account(ledger).left) == (14, 14, 6)
    assert spend(one) + spend(two) == 6
    for each in (one, two, account(ledger)):
        with pytest.raises(ArgumentError) as refused:
            each.charge()
        assert refused.value.argument == "steps"
    (entry,) = read(ledger).entries
    assert (entry.told, entry.spent) == (20, True)


def test_runs_at_once_are_together_told_the_steps_of_one(ledger: Path):
    several = [account(ledger) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(spend, several)) == 20
    assert [entry.told for entry in read(ledger).entries] == [20]


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_run_that_ended_anyhow_goes_on_with_the_steps_that_are_left(ledger: Path, steps: int):
    """One that is killed frees nothing: all that it knows is on disk."""
    killed = account(ledger)
    killed.reserve()
    for _ in range(steps):
        killed.charge()
    (entry,) = read(ledger).entries
    assert (entry.told, entry.spent) == (steps, steps > 0)
    again = account(ledger)
    again.reserve()
    assert again.made == steps
    again.free()
    assert len(read(ledger).entries) == 1, "it is the other's"
    assert spend(again) == 20 - steps
    assert len(read(ledger).entries) == 1


@pytest.mark.parametrize("written", [False, True])
def test_a_charge_that_is_interrupted_counts_if_it_could_be_told(
    ledger: Path, monkeypatch, written: bool
):
    one = account(ledger)
    one.charge()
    replace_file = Path.replace

    def interrupted(self: Path, target: Path) -> None:
        if written:
            replace_file(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.charge()
    monkeypatch.undo()
    assert account(ledger).made == 1 + written


def test_a_run_costs_all_its_steps_from_before_the_first_one(ledger: Path):
    one = account(ledger)
    assert one.epsilon() == pytest.approx(2.0, rel=1e-3)
    assert one.epsilon() <= 2.0
    one.reserve()
    assert read(ledger).epsilon(1e-5) == one.epsilon()
    one.charge()
    assert read(ledger).epsilon(1e-5) == one.epsilon()


def test_a_run_that_told_nothing_is_freed_and_any_other_stays(ledger: Path):
    for told in (0, 1):
        one = account(ledger)
        one.reserve()
        for _ in range(told):
            one.charge()
        one.free()
        assert len(read(ledger).entries) == told


@pytest.mark.parametrize(
    "other",
    [
        {"owner": "another"},
        {"epsilon": 3.0},
        {"delta": 1e-6},
        {"steps": 21},
        {"sample_rate": 0.2},
    ],
)
def test_another_model_or_budget_is_another_run_which_adds_up(ledger: Path, other: dict[str, Any]):
    one, two = account(ledger, "model"), account(ledger, **{"owner": "model", **other})
    one.charge(), two.charge()
    assert (one.made, two.made) == (1, 1)
    found = read(ledger)
    assert len({entry.name for entry in found.entries}) == 2
    assert found.epsilon(1e-5) > max(each.epsilon(1e-5) for each in found.entries)


def test_runs_of_training_and_of_models_share_one_cap(ledger: Path):
    alone = of_training().epsilon(1e-5)
    update(ledger, lambda before: replace(before, cap=Cap(epsilon=alone + 1.5, delta=1e-5)))
    Reservations([(ledger, of_training())]).reserve()
    one = account(ledger)
    for act in (one.reserve, one.charge):
        with pytest.raises(ArgumentError) as refused:
            act()
        assert refused.value.argument == "budget"
    assert one.made == 0
    assert [entry.name for entry in read(ledger).entries] == ["trained"]
    update(ledger, lambda before: replace(before, cap=Cap(epsilon=9.0, delta=1e-5)))
    one.charge()
    spent = read(ledger).epsilon(1e-5)
    update(ledger, lambda before: replace(before, cap=Cap(epsilon=spent, delta=1e-5)))
    with pytest.raises(ArgumentError):
        Reservations([(ledger, of_training("another"))]).reserve()


def test_models_that_begin_at_once_pass_no_cap_for_one(ledger: Path):
    update(ledger, lambda before: replace(before, cap=Cap(epsilon=2.5, delta=1e-5)))
    owners = ["a", "bb", "ccc", "dddd"]

    def begin(owner: str) -> bool:
        try:
            account(ledger, owner).charge()
        except ArgumentError:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(begin, owners)) == 1
    assert len(read(ledger).entries) == 1


def test_a_run_that_its_owner_freed_is_entered_again_before_a_step_or_refused(ledger: Path):
    one = account(ledger)
    one.reserve()
    (entry,) = read(ledger).entries
    update(ledger, lambda before: before.without(entry.name))
    one.charge()
    assert read(ledger).entries[0].told == 1
    with pytest.raises(ArgumentError):
        update(ledger, lambda before: before.without(entry.name))


def test_records_of_persons_and_models_for_records_are_not_added_up(ledger: Path):
    persons = replace(of_training(), unit="person of column patient")
    Reservations([(ledger, persons)]).reserve()
    with pytest.raises(ArgumentError) as refused:
        account(ledger).charge()
    assert refused.value.argument == "budget"


def test_a_budget_that_is_none_is_named():
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"steps": 0}, {"sample_rate": 0.0}):
        with pytest.raises(ArgumentError) as refused:
            Budget(**{**BUDGET, **wrong})
        assert refused.value.argument == next(iter(wrong))


def test_the_command_shows_what_models_cost_and_were_told(ledger: Path, tmp_path: Path):
    one = account(ledger, "hospital")
    for _ in range(3):
        one.charge()
    done = pea("budget", ledger, "--json", tmp_path / "shown.json")
    assert done.returncode == 0, done.stderr
    shown = json.loads((tmp_path / "shown.json").read_text())
    assert shown["epsilon"] == one.epsilon()
    (run,) = shown["runs"]
    assert run["state"] == "spent"
    assert all(word in run["run"] for word in ("hospital", "20 steps", "3 told"))


# --- ledgers of earlier versions ----------------------------------------------------------------


def earlier(path: Path, steps: int) -> Path:
    """Writes what earlier versions kept of one model, after so many steps."""
    made = Ledger()
    if steps:
        made.record("training", noise_multiplier=1.0, sample_rate=0.1, steps=steps)
    stated = {**BUDGET, "records": RECORDS}
    said = {"format": 1, "budget": stated, "ledger": json.loads(made.to_json())}
    path.write_text(json.dumps(said, indent=2) + "\n")
    return path


@pytest.mark.parametrize("cap", [None, Cap(epsilon=0.5, delta=1e-5)])
def test_a_ledger_of_an_earlier_version_is_charged_once_whatever_the_cap(
    ledger: Path, tmp_path: Path, cap: Cap | None
):
    if cap is not None:
        update(ledger, lambda before: replace(before, cap=cap))
    old = earlier(tmp_path / "a.ledger", 7)
    (tmp_path / "link").symlink_to(old)
    for path in (old, old, tmp_path / "link"):
        enter_earlier(ledger, path)
    found = read(ledger)
    (entry,) = found.entries
    assert (entry.spent, entry.told, found.cap) == (True, 7, cap)
    assert [phase.steps for phase in entry.ledger.phases] == [7]
    enter_earlier(ledger, earlier(tmp_path / "b.ledger", 7))
    assert len(read(ledger).entries) == 2, "another model's, with equal numbers"


def test_of_a_ledger_of_an_earlier_version_that_told_nothing_nothing_is_charged(
    ledger: Path, tmp_path: Path
):
    enter_earlier(ledger, earlier(tmp_path / "a.ledger", 0))
    assert read(ledger).entries == ()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"\xff", b'{"ledger": 1}', b"PK\x03"])
def test_what_is_no_ledger_of_an_earlier_version_is_named(
    ledger: Path, tmp_path: Path, content: bytes | None
):
    old = tmp_path / "a.ledger"
    if content is not None:
        old.write_bytes(content)
    with pytest.raises(ArgumentError) as refused:
        enter_earlier(ledger, old)
    assert refused.value.argument == "ledger"
    assert not ledger.exists()


def test_a_ledger_of_an_earlier_version_is_not_taken_for_that_of_records(tmp_path: Path):
    old = earlier(tmp_path / "a.ledger", 7)
    before = old.read_bytes()
    with pytest.raises(ArgumentError) as refused:
        account(old).charge()
    assert "{ledger}" in refused.value.hint
    assert old.read_bytes() == before
