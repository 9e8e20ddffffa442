"""The ledger of a data set: what it adds up, whom it refuses, and that nothing escapes it."""

import itertools
import json
import math
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.errors import ArgumentError
from extensions.privacy.accounting import FILTER, Ledger
from extensions.runs.budget import Account, Cap, Entry, Reservations, path_of, read, update
from extensions.runs.budget.account import COUNTED
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.options import RunOptions
from tests.helpers.claims import claim
from tests.helpers.crashes import (
    KilledError,
    attempt,
    boundaries_on_disk,
    epsilons_computed_once,
    kept_in,
)
from tests.helpers.refused import refused

DELTA = 1e-5
CONFIG = TrainConfig(
    backend="clear",
    parties=2,
    classes=2,
    steps=4,
    sample_rate=1.0,
    noise_multiplier=8.0,
    delta=DELTA,
    evaluate="noisy",
)


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with epsilons_computed_once():
        yield


def ledger(noise: float = 8.0, steps: int = 4) -> Ledger:
    made = Ledger()
    made.record("training", noise_multiplier=noise, sample_rate=1.0, steps=steps)
    return made


def entry(name: str, **changes: Any) -> Entry:
    usual = Entry(
        name=name, began="2026-01-01", title="run", ledger=ledger(), exact=False, opens=()
    )
    return replace(usual, **changes)


def account(count: int, **options: Any) -> Account:
    return Account(entries=tuple(entry(str(i)) for i in range(count)), **options)


def part(rank: int, held_out: int = 20) -> Split:
    draws = np.random.default_rng(rank)
    return Split(
        train_x=draws.uniform(-0.5, 0.5, (30, 3)),
        train_y=draws.integers(0, 2, 30),
        test_x=draws.uniform(-0.5, 0.5, (held_out, 3)),
        test_y=draws.integers(0, 2, held_out),
    )


def run(paths: list[Path | None], **changes: Any) -> dict[str, Any]:
    parts = [part(rank) for rank in range(2)]
    return train(replace(CONFIG, **changes), parts, lambda event: None, ledgers=paths)


def test_runs_for_records_and_for_persons_are_not_added_up(tmp_path):
    path = tmp_path / "own.budget.json"
    run([path, None])
    persons = {"facts": {"schema unit": {"column": "patient", "rows": 1}}}
    mixed = f"a run for each person of column patient, after runs for each record in {path}"
    with refused("budget", "value", mixed):
        run([path, None], **persons)
    assert len(read(path).entries) == 1
    other = tmp_path / "persons.budget.json"
    for _ in range(2):
        run([other, None], **persons)
    assert (read(path).unit, read(other).unit) == ("record", "person of column patient")
    assert read(other).epsilon(DELTA) > read(path).epsilon(DELTA)


def test_one_run_costs_what_its_report_says_and_several_what_a_filter_allows():
    alone = ledger().get_epsilon(DELTA)
    assert account(0).epsilon(DELTA) == 0.0
    assert account(1).epsilon(DELTA) == alone
    together = Ledger()
    for count in range(2, 4):
        together.add(ledger())
        pld = account(count).epsilon(DELTA)
        whole = ledger(steps=4 * count)
        assert pld == whole.get_epsilon(DELTA, FILTER)
        assert whole.get_epsilon(DELTA, "rdp") < pld < count * alone


@pytest.mark.parametrize(("noise", "steps"), [(0.6, 1), (1.0, 1000), (20.0, 30)])
def test_the_filter_is_above_what_fixed_settings_cost(noise, steps):
    """Its price beside settings that are fixed beforehand, by RDP: a fifth on average."""
    made = Ledger()
    made.record("steps", noise_multiplier=noise, sample_rate=0.05, steps=steps)
    tight, rdp, filtered = (made.get_epsilon(DELTA, each) for each in ("pld", "rdp", FILTER))
    assert tight <= rdp < filtered
    if 0.5 < tight < 20:
        assert filtered < 1.7 * rdp


def test_the_filter_is_the_best_of_its_orders_at_their_parts_of_delta():
    """Order a of a Gaussian is a / (2 sigma^2); its conversion is Canonne et al.'s (2020)."""
    orders = (1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
    for noise in (0.8, 3.0, 12.0):
        made = Ledger()
        made.record("steps", noise_multiplier=noise, sample_rate=1.0, steps=1)
        expected = min(
            a / (2 * noise**2) + math.log1p(-1 / a) - math.log(a * DELTA / len(orders)) / (a - 1)
            for a in orders
        )
        assert made.get_epsilon(DELTA, FILTER) == pytest.approx(expected, rel=1e-9)


def test_a_first_run_may_take_the_whole_cap_and_a_second_is_refused():
    """By the filter the first alone is above the cap: no second one is ever let in."""
    alone = ledger().get_epsilon(DELTA)
    one = Account(cap=Cap(epsilon=alone, delta=DELTA)).with_entry(entry("a"), "here")
    assert one.left() == 0.0
    for weak in (1e3, 1e6):
        with refused("budget", "range", "epsilon 1.174 in here with this run, 0.9264 without"):
            one.with_entry(entry("b", ledger=ledger(weak)), "here")


@claim("Runs are let in as long as all together stay below the cap.")
def test_runs_are_let_in_until_the_cap_and_never_beyond():
    fitting = max(count for count in range(40) if account(count).epsilon(DELTA) <= 4.0)
    assert fitting >= 3
    limited = Account(cap=Cap(epsilon=4.0, delta=DELTA))
    for number in range(fitting):
        limited = limited.with_entry(entry(str(number)), "here")
    with refused("budget", "range", "epsilon 4.057 in here with this run, 3.807 without"):
        limited.with_entry(entry("one more"), "here")
    assert 0.0 < limited.left() < limited.entries[0].epsilon(DELTA)


@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_what_is_not_private_is_infinite_and_refused(noise):
    limited = Account(cap=Cap(epsilon=1e6, delta=DELTA))
    with refused("budget", "range", "epsilon inf in here with this run, 0 without"):
        limited.with_entry(entry("a", ledger=ledger(noise)), "here")


def test_an_exact_count_is_refused_unless_the_cap_is_for_training_alone():
    exact, cap = entry("a", exact=True), Cap(epsilon=10.0, delta=DELTA)
    with refused("evaluate", "value", "an exact use of held-out records"):
        Account(cap=cap).with_entry(exact, "here")
    trained = Account(cap=replace(cap, except_held_out=True)).with_entry(exact, "here")
    assert len(trained.entries) == 1


def test_what_is_spent_is_never_freed():
    reserved = account(2)
    spent = reserved.spend("0")
    assert reserved.without("0").find("0") is None
    with refused("free", "choice", value="0"):
        spent.without("0")
    assert spent.epsilon(DELTA) == reserved.epsilon(DELTA)


def test_a_ledger_is_a_private_file_beside_the_records_and_comes_back(tmp_path):
    records = tmp_path / "hospital.npz"
    records.touch()
    (tmp_path / "link.npz").symlink_to(records)
    path = path_of(records)
    assert path == path_of(tmp_path / "link.npz") == tmp_path / "hospital.npz.budget.json"
    (tmp_path / "backup.npz").hardlink_to(records)
    assert path_of(tmp_path / "backup.npz") == tmp_path / "backup.npz.budget.json"
    assert read(path) == Account()
    cap = Cap(epsilon=1.0, delta=DELTA, except_held_out=True)
    update(path, lambda _: account(2, cap=cap).spend("1"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = read(path)
    assert (found.cap, found.to_json()) == (cap, path.read_text())
    assert [each.spent for each in found.entries] == [False, True]
    assert found.entries[0].ledger.phases == ledger().phases


def linked(folder: Path, how: str, target: Path) -> Path:
    """Returns a name of a ledger that leads to a target, which need not be there."""
    link = folder / "link.budget.json"
    if how == "link":
        link.symlink_to(target)
    elif how == "relative":
        link.symlink_to(os.path.relpath(target, folder))
    elif how == "chain":
        for number in range(3):
            (folder / f"link-{number}").symlink_to(target if number == 0 else f"link-{number - 1}")
        link.symlink_to("link-2")
    elif how == "folder":
        (folder / "into").symlink_to(target.parent)
        link = folder / "into" / target.name
    else:
        (folder / "b.npz").touch()
        link = path_of(folder / "b.npz")
        link.symlink_to(target)
        if how == "records":
            (folder / "other").mkdir()
            (folder / "other" / "c.npz").symlink_to(folder / "b.npz")
            link = path_of(folder / "other" / "c.npz")
    return link


LINKS = ["link", "relative", "chain", "folder", "beside", "records"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("how", LINKS)
def test_a_ledger_of_several_names_is_one(tmp_path, how, there):
    """Runs by either name are under one cap, and links stay; also before there is a file."""
    (tmp_path / "common").mkdir()
    target = tmp_path / "common" / "a.npz.budget.json"
    one = entry("one")
    cap = Cap(epsilon=one.epsilon(DELTA), delta=DELTA)
    if there:
        update(target, lambda _: Account(cap=cap))
    link = linked(tmp_path, how, target)
    links = [each for each in tmp_path.glob("**/*") if each.is_symlink()]
    if not there:
        update(link, lambda before: replace(before, cap=cap))
    Reservations([(link, one)]).reserve()
    for path in (target, link):
        assert read(path).cap == cap
        assert [each.name for each in read(path).entries] == ["one"]
        with pytest.raises(ArgumentError):
            Reservations([(path, entry("two"))]).reserve()
    run = Reservations([(target, one)])
    run.spend()
    update(link, lambda before: before.opening("one", "later"))
    assert read(target).entries[0].opens == ("later",)
    assert all(each.is_symlink() for each in links)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [*(tmp_path / "common").iterdir()] == [target]


@pytest.mark.parametrize("how", ["link", "chain", "folder"])
def test_of_runs_that_begin_at_once_by_several_names_no_two_pass_a_cap_for_one(tmp_path, how):
    (tmp_path / "common").mkdir()
    target = tmp_path / "common" / "a.budget.json"
    update(target, lambda _: Account(cap=Cap(epsilon=ledger().get_epsilon(DELTA), delta=DELTA)))
    names = [target, linked(tmp_path, how, target)]

    def enter(number: int) -> bool:
        try:
            Reservations([(names[number % 2], entry(str(number)))]).reserve()
        except ArgumentError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(enter, range(8))) == 1
    assert len(read(target).entries) == 1


@pytest.mark.parametrize("links", [["a", "a"], ["a", "b", "a"], ["a", "b", "c", "b"]])
def test_links_in_a_circle_are_named(tmp_path, links):
    for name, target in zip(links, links[1:], strict=False):
        (tmp_path / f"{name}.budget.json").symlink_to(f"{target}.budget.json")
    path = tmp_path / "a.budget.json"
    for act in (read, path_of, lambda path: update(path, lambda _: account(1))):
        with pytest.raises(ArgumentError) as refused:
            act(path)
        assert refused.value.argument == "budget"
        assert "circle" in str(refused.value.value)
    (tmp_path / "b.npz").symlink_to("b.npz")
    with pytest.raises(ArgumentError):
        path_of(tmp_path / "b.npz")


@pytest.mark.parametrize("how", ["link", "relative", "chain", "folder"])
def test_a_link_into_a_folder_that_is_not_there_makes_no_ledger(tmp_path, how):
    """The disk with what was spent may not be mounted: an empty ledger would start anew."""
    target = tmp_path / "disk" / "a.budget.json"
    link = linked(tmp_path, how, target)
    for act in (read, lambda path: Reservations([(path, entry("one"))]).reserve()):
        with pytest.raises(ArgumentError) as refused:
            act(link)
        assert refused.value.argument == "budget"
        assert str(target.parent) in refused.value.hint
    assert not target.parent.exists()
    target.parent.mkdir()
    Reservations([(link, entry("one"))]).reserve()
    assert len(read(target).entries) == 1


def test_a_ledger_in_a_new_folder_needs_no_link(tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "into").symlink_to("to")
    path = tmp_path / "into" / "new" / "folder" / "a.budget.json"
    update(path, lambda _: account(1))
    assert len(read(tmp_path / "to" / "new" / "folder" / "a.budget.json").entries) == 1


NO_LEDGERS = [
    *(b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1, "cap": 1}'),
    *(b"\xff\xfe", b"\x00", b'{"format": "\xe9"}', b"[" * 100_000),
]


@pytest.mark.parametrize("damage", NO_LEDGERS, ids=lambda damage: repr(damage[:24]))
def test_a_damaged_ledger_is_refused_and_not_overwritten(tmp_path, damage):
    path = tmp_path / "a.budget.json"
    path.write_bytes(damage)
    with refused("budget", "file", str(path)):
        update(path, lambda before: replace(before, cap=None))
    assert path.read_bytes() == damage


def test_of_runs_that_begin_at_once_no_two_pass_a_cap_for_one(tmp_path):
    path = tmp_path / "a.budget.json"
    update(path, lambda _: Account(cap=Cap(epsilon=ledger().get_epsilon(DELTA), delta=DELTA)))

    def enter(number: int) -> bool:
        try:
            Reservations([(path, entry(str(number)))]).reserve()
        except ArgumentError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(enter, range(8))) == 1
    assert len(read(path).entries) == 1


@claim("A run is reserved before it starts, and spent before it is opened.")
def test_a_run_is_reserved_before_it_starts_and_spent_before_it_is_opened(tmp_path):
    paths: list[Path | None] = [tmp_path / "a.budget.json", None]
    seen: list[bool] = []

    def progress(event: dict[str, Any]) -> None:
        seen.extend(each.spent for each in read(paths[0]).entries)

    report = train(CONFIG, [part(0), part(1)], progress, ledgers=paths)
    (found,) = read(paths[0]).entries
    ahead = 1  # what the run will take is told before its first step
    assert (found.spent, found.exact, seen) == (True, False, [False] * (ahead + 4))
    assert found.opens == ("the number of correct predictions on held-out records, with noise",)
    count = Ledger()
    count.record("count", noise_multiplier=TrainConfig.count_noise, sample_rate=1.0, steps=1)
    assert report["held_out_epsilon"] == count.get_epsilon(DELTA)
    assert report["epsilon"] < found.epsilon(DELTA) < report["epsilon"] + report["held_out_epsilon"]


def test_a_run_that_its_owner_freed_meanwhile_is_entered_again_or_refused(tmp_path):
    path = tmp_path / "a.budget.json"
    run = Reservations([(path, entry("a"))])
    run.reserve()
    update(path, lambda account: account.without("a"))
    run.spend()
    (found,) = read(path).entries
    assert found.spent
    update(path, lambda account: Account(cap=Cap(epsilon=0.01, delta=DELTA)))
    with refused(
        "budget", "range", f"epsilon 0.9264 in {tmp_path}/a.budget.json with this run, 0 without"
    ):
        run.spend()
    assert read(path).entries == ()


def test_an_owner_who_refuses_leaves_no_trace_in_the_ledgers_of_the_others(tmp_path):
    paths: list[Path | None] = [tmp_path / f"{rank}.budget.json" for rank in range(2)]
    update(paths[1], lambda before: replace(before, cap=Cap(epsilon=0.01, delta=DELTA)))
    with refused(
        "budget", "range", f"epsilon 1.216 in {tmp_path}/1.budget.json with this run, 0 without"
    ):
        run(paths)
    assert read(paths[0]).entries == read(paths[1]).entries == ()


@pytest.mark.parametrize(
    ("changes", "infinite", "exact"),
    [
        ({"evaluate": "none"}, False, False),
        ({"evaluate": "mpc"}, False, True),
        ({"evaluate": "opened"}, False, True),
        ({"insecure_seed": 3}, True, False),
        ({"private": False}, True, False),
        ({"init": "local-average", "noise_multiplier_init": 8.0}, False, False),
    ],
)
def test_each_kind_of_run_is_entered_as_what_it_is(tmp_path, changes, infinite, exact):
    path = tmp_path / "a.budget.json"
    report = run([path, None], **changes)
    (found,) = read(path).entries
    assert (found.exact, found.epsilon(DELTA) == np.inf) == (exact, infinite)
    if not infinite:
        assert found.epsilon(DELTA) >= report["epsilon"]
    assert (report["accuracy"] is None) == (changes.get("evaluate") == "none")


def test_a_run_that_fails_before_anything_is_opened_is_taken_out_again(tmp_path):
    path = tmp_path / "a.budget.json"

    def progress(event: dict[str, Any]) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        train(CONFIG, [part(0), part(1)], progress, ledgers=[path, None])
    assert read(path).entries == ()


def test_a_folder_that_cannot_be_written_is_told_with_the_way_out(tmp_path):
    (tmp_path / "file").touch()
    with refused("budget", "file", str(tmp_path / "file/a.budget.json")):
        run([tmp_path / "file" / "a.budget.json", None])


def test_two_parties_of_one_program_keep_two_ledgers(tmp_path):
    path = tmp_path / "a.budget.json"
    for ledgers in ([path, path], [path, linked(tmp_path, "chain", path)]):
        with refused("ledgers", "value"):
            run(ledgers)
    assert not path.exists()


@claim("Whoever is told of a refusal hears only that.")
def test_whoever_is_told_of_a_refusal_hears_no_number(tmp_path):
    """Each party is a program of its own; the one without a cap learns who refused."""
    paths = [tmp_path / f"{rank}.budget.json" for rank in range(2)]
    update(paths[1], lambda before: replace(before, cap=Cap(epsilon=0.01, delta=DELTA)))

    def options(rank: int) -> RunOptions:
        return RunOptions(ledgers=[paths[rank]])

    done = attempt(CONFIG, [part(0), part(1)], options, 1)
    assert "epsilon" in str(done.errors[1])
    assert "refused by party 1" in str(done.errors[0])
    assert not any(word in str(done.errors[0]) for word in ("epsilon", "budget.json", "0.01"))
    assert read(paths[0]).entries == ()
    assert done.sent == [[], []]


def test_a_run_that_crashes_at_any_boundary_is_counted_once_and_never_less(tmp_path):
    """Whatever was sent is in both ledgers as spent; a resumed run has one entry in each."""
    parts = [part(0, 5), part(1, 5)]
    kept, seeds = tmp_path / "kept", itertools.count(1)
    ends = iter(range(0, 200, 7))
    with boundaries_on_disk():
        for at in ends:
            folder = tmp_path / str(at)
            ledgers = [folder / f"{rank}.budget.json" for rank in range(2)]

            def options(rank: int, resume: bool, folder=folder, ledgers=ledgers) -> RunOptions:
                kept = kept_in(folder, resume=resume)(rank)
                return replace(kept, ledgers=[ledgers[rank]])

            first = attempt(
                CONFIG, parts, lambda rank: options(rank, False), next(seeds), {at % 2: at}
            )
            if not first.errors:
                break
            for rank in range(2):
                entries = read(ledgers[rank]).entries
                assert len(entries) <= 1
                if first.sent[rank]:
                    assert entries[0].spent
            again = attempt(CONFIG, parts, lambda rank: options(rank, True), next(seeds))
            for rank in again.reports:
                (found,) = read(ledgers[rank]).entries
                assert found.spent
    assert at > 60
    assert not kept.exists()


def test_a_noised_count_is_noised_and_held_to_its_range(tmp_path):
    """Exactly the same model, counted with much noise ten times: not all alike, all in [0, 1].

    With so much that it is 0 or 1, as likely as not: 28 times the same has a probability of 2^-27.
    """
    found = {run([None, None], insecure_seed=s, count_noise=5.0)["accuracy"] for s in range(10)}
    assert len(found) > 5
    assert all(0.0 <= each <= 1.0 for each in found)
    assert {run([None, None], count_noise=1e6)["accuracy"] for _ in range(28)} == {0.0, 1.0}


@pytest.mark.parametrize("init", ["local", "local-accuracy"])
def test_a_start_that_counts_decide_is_not_made_private_by_a_noised_count(init):
    with refused("init", "conflict", value=init):
        replace(CONFIG, init=init, noise_multiplier_init=1.0)


def test_a_report_without_a_count_is_json(tmp_path):
    report = run([None, None], evaluate="none")
    assert (report["accuracy"], report["held_out_epsilon"]) == (None, None)
    assert json.loads(json.dumps({**report, "parameters": None}))["accuracy"] is None


def test_training_and_counts_are_told_apart_and_make_up_a_run():
    both = ledger()
    both.record(COUNTED, noise_multiplier=5.0, sample_rate=1.0, steps=1)
    found = entry("a", ledger=both)
    training, counts = found.parts(DELTA)
    assert training == entry("b").epsilon(DELTA)
    assert 0.5 < counts < 0.9
    assert max(training, counts) < found.epsilon(DELTA) < training + counts
    assert entry("b").parts(DELTA)[1] == 0.0


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_what_is_left_is_the_cap_less_what_is_counted(count):
    found = account(count, cap=Cap(epsilon=9.0, delta=DELTA))
    assert found.left() == 9.0 - found.counted(DELTA)
    assert found.counted(DELTA) >= found.epsilon(DELTA)
    if count > 1:
        assert found.counted(DELTA) < sum(each.epsilon(DELTA) for each in found.entries)


def test_a_run_keeps_its_delta_which_earlier_versions_need_not_know(tmp_path):
    path = tmp_path / "a.budget.json"
    run([path, None], delta=1e-4)
    update(path, lambda before: replace(before, entries=(*before.entries, entry("old"))))
    found = read(path)
    assert [each.delta for each in found.entries] == [1e-4, None]
    assert found.deltas == [1e-4]
    kept = json.loads(path.read_text())
    assert all("delta" not in fields for fields in kept["entries"])
    del kept["deltas"]
    earlier = Account.from_json(json.dumps(kept))
    assert (earlier.deltas, len(earlier.entries)) == ([], 2)
    assert earlier.epsilon(DELTA) == found.epsilon(DELTA)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, "x", [1]])
def test_a_delta_that_is_none_is_damage(delta):
    text = account(1).to_json()
    kept = {**json.loads(text), "deltas": {"0": delta}}
    with pytest.raises(ArgumentError):
        Account.from_json(json.dumps(kept))


def test_a_log_says_what_was_done_in_turn_and_forgets_nothing(tmp_path):
    """Also of runs that are gone, and whatever a change makes of the account."""
    path = tmp_path / "a.budget.json"
    run = Reservations([(path, entry("a", opens=("a count",)))])
    for _ in range(2):  # a run that goes on
        run.reserve()
    run.spend()
    update(path, lambda before: before.opening("a", "the model"))
    Reservations([(path, entry("b"))]).reserve()
    update(path, lambda before: before.without("b"))
    cap = Cap(epsilon=9.0, delta=DELTA)
    update(path, lambda before: Account(cap=cap, entries=before.entries))
    update(path, lambda before: before)
    update(path, lambda before: replace(before, cap=replace(cap, except_held_out=True)))
    log = read(path).log
    assert [(event.run, event.what) for event in log] == [
        ("a", "entered run"),
        ("a", "opened a count"),
        ("a", "opened the model"),
        ("b", "entered run"),
        ("b", "freed run"),
        ("", "set the cap to epsilon 9 at delta 1e-05"),
        ("", "set the cap to epsilon 9 at delta 1e-05, for training alone"),
    ]
    assert [event.when for event in log] == sorted(event.when for event in log)
    assert {event.user for event in log} == {path.owner()}
    assert Account.from_json(read(path).to_json()).log == log


def test_steps_that_are_told_one_by_one_are_opened_once_in_the_log(tmp_path):
    path = tmp_path / "a.budget.json"
    run = Reservations([(path, entry("a", opens=("sums",)))])
    for _ in range(3):
        run.tell(3)
    assert [event.what for event in read(path).log] == ["entered run", "opened sums"]
    assert read(path).find("a").told == 3


def test_a_ledger_of_a_later_version_is_named_and_kept(tmp_path):
    path = tmp_path / "a.budget.json"
    later = account(1).to_json().replace('"format": 1', '"format": 2')
    path.write_text(later)
    with refused("budget", "file", value=str(path)) as caught:
        Reservations([(path, entry("b"))]).reserve()
    assert "its format is 2, not 1" in caught.value.hint
    assert path.read_text() == later


def alignment(name: str) -> Entry:
    return entry(name, ledger=Ledger(), spent=True, aligned="ab" * 32)


def test_alignments_cost_nothing_and_change_no_sum(tmp_path):
    """Nor the unit, nor whether a single run is composed by the tighter accountant."""
    where = tmp_path / "l"
    plain = Account().with_entry(entry("run", unit="person of column id"), where)
    mixed = Account().with_entry(alignment("one"), where)
    mixed = mixed.with_entry(entry("run", unit="person of column id"), where)
    mixed = mixed.with_entry(alignment("two"), where)
    assert mixed.epsilon(DELTA) == plain.epsilon(DELTA) < plain.counted(DELTA)
    assert mixed.unit == plain.unit
    assert Account.from_json(mixed.to_json()).to_json() == mixed.to_json()
    assert "aligned" not in plain.to_json()


def test_there_are_no_more_alignments_than_the_owner_allows(tmp_path):
    path = tmp_path / "own.budget.json"
    update(path, lambda account: replace(account, most_alignments=2))
    for name in ("one", "two"):
        update(path, lambda account, name=name: account.with_entry(alignment(name), path))
    with refused("most_alignments", "range", 2):
        update(path, lambda account: account.with_entry(alignment("three"), path))
    after = update(path, lambda account: account.with_entry(entry("run"), path))
    again = replace(alignment("two"), opens=("7 common persons",))
    after = update(path, lambda account: account.with_entry(again, path))
    assert [each.name for each in after.entries] == ["one", "two", "run"]
    assert [each.opens for each in read(path).entries] == [(), again.opens, ()]
    assert [event.what for event in read(path).log if "common" in event.what] == [
        "opened 7 common persons"
    ]
    assert read(path).log[0].what == "set the most alignments to 2"
