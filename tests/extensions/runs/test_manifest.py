"""Every field of a run and every column: where one party states another, all refuse and say so."""

import copy
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import extensions
from extensions.data.datasets import Split, read_party_file, write_records
from extensions.layers.losses import LOSSES
from extensions.protocols.agreement import Statement, canonical, check_equal
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.config import TrainConfig
from extensions.runs.manifest import (
    PARTY_SPECIFIC,
    PRESENCE_ONLY,
    comparable_settings,
    flattened_value,
    manifest_of,
)
from extensions.runs.options import Meeting, RunOptions
from tests.helpers.refused import refused
from tests.helpers.seated import refusals

PARTIES, ODD = 3, 1
CONFIG = replace(
    TrainConfig(
        backend="clear",
        classes=2,
        steps=3,
        noise_multiplier=0.52,
        delta=1e-5,
        facts={"unit": "patient"},
    ).resolved(),
    epsilon=8.0,
)
"""As a target of epsilon makes it, without the second that this takes whoever collects tests."""
OPTIONS = RunOptions(checkpoints=CheckpointOptions(folder=Path("kept"), every=2))
RECIPE = {
    **{"column 1": "age", "column 2": "weight", "class 0": "no", "class 1": "yes"},
    **{"features": "own:rows", "features: source of own": "1f" * 32, "features: weights 1": "2e"},
    **{"scaling": "rows cut to norm 1", "schema": "3d" * 32},
}
CHOICES = {
    **{"backend": "toy", "provider": "tfp", "model": "mlp:3", "neighbours": "replace"},
    **{"calibration": "rdp", "evaluate": "opened", "init": "random", "init_weighting": "uniform"},
    **{"facts": {"unit": "visit"}, "settled": False, "data_kind": "texts", "chosen": ("lr",)},
    **{"loss": next(loss for loss in LOSSES if loss != CONFIG.loss)},
}
"""Other values of settings that have choices; another number, text or flag is made as needed."""


@functools.cache
def part() -> Split:
    x = np.random.default_rng(4).uniform(-0.5, 0.5, (12, 2))
    y = np.arange(12) % 2
    return Split(train_x=x[:8], train_y=y[:8], test_x=x[8:], test_y=y[8:], recipe=RECIPE)


def with_other(settings: Any, name: str) -> Any:
    """Returns settings of which one field is another, though no rule of theirs would allow it."""
    value = getattr(settings, name)
    other: Any = CHOICES.get(name)
    if other is None and isinstance(value, bool):
        other = not value
    elif other is None:
        other = 7 if value is None else value / 2 or 0.5 if isinstance(value, float) else None
    if other is None:
        other = value + 1 if isinstance(value, int) else f"another {name}"
    changed = copy.copy(settings)
    object.__setattr__(changed, name, other)
    return changed


def names_of(settings: Any, name: str) -> set[str]:
    """Returns what is stated otherwise where a field is another."""
    before, after = comparable_settings(settings), comparable_settings(with_other(settings, name))
    return {each for each in {*before, *after} if before.get(each) != after.get(each)}


def check_refused(found: list[str], name: str, first: object, odd: object) -> None:
    first, odd = (json.loads(canonical(value)) for value in (first, odd))
    expected = f"{name} = {first!r} at parties 0 and 2, {odd!r} at party {ODD}"
    assert [expected in text for text in found] == [True] * PARTIES, found
    assert [": value." in text for text in found] == [True] * PARTIES, found


@pytest.mark.parametrize("name", [field.name for field in fields(TrainConfig)])
def test_a_setting_that_one_party_has_otherwise_is_named_at_all(name):
    assert f"TrainConfig.{name}" not in PARTY_SPECIFIC
    (shown,) = names_of(CONFIG, name)
    other = with_other(CONFIG, name)
    own = replace(part(), recipe={})
    plans = [(other if rank == ODD else CONFIG, RunOptions(), own) for rank in range(PARTIES)]
    if name == "chosen":
        assert f"{shown} = nothing at parties 0 and 2, True at party 1" in refusals(plans)[0]
        return
    check_refused(
        refusals(plans),
        shown,
        comparable_settings(CONFIG)[shown],
        comparable_settings(other)[shown],
    )


@pytest.mark.parametrize("name", [field.name for field in fields(RunOptions)])
def test_what_a_run_reads_and_writes_is_each_partys_own_or_given_by_all(name):
    place = f"RunOptions.{name}"
    assert (place in PARTY_SPECIFIC) != (place in PRESENCE_ONLY)
    shown = (
        names_of(OPTIONS, name) if place in PARTY_SPECIFIC else {"material", "checkpoints"} & {name}
    )
    assert shown == ({name} if place in PRESENCE_ONLY else set())


@pytest.mark.parametrize("name", [field.name for field in fields(CheckpointOptions)])
def test_checkpoints_of_one_party_that_differ_are_named_at_all(name, tmp_path):
    def options(rank: int) -> RunOptions:
        own = replace(OPTIONS.checkpoints, folder=tmp_path / str(rank))
        return RunOptions(checkpoints=own if rank != ODD else with_other(own, name))

    if f"CheckpointOptions.{name}" in PARTY_SPECIFIC:
        assert comparable_settings(options(ODD)) == comparable_settings(options(0))
        return
    (shown,) = names_of(OPTIONS.checkpoints, name)
    found = refusals([(CONFIG, options(rank), part()) for rank in range(PARTIES)])
    check_refused(
        found,
        shown,
        comparable_settings(options(0))[shown],
        comparable_settings(options(ODD))[shown],
    )


@pytest.mark.parametrize("given", ["material", "checkpoints"])
def test_what_one_party_alone_has_is_named_at_all(given, tmp_path):
    value = {"material": tmp_path / "own", "checkpoints": CheckpointOptions(folder=tmp_path / "k")}
    plans = [
        (CONFIG, RunOptions(**({given: value[given]} if rank == ODD else {})), part())
        for rank in range(PARTIES)
    ]
    check_refused(refusals(plans), given, False, True)


@pytest.mark.parametrize("name", [*RECIPE])
def test_a_column_class_or_function_that_one_party_has_otherwise_is_named_at_all(name):
    others = replace(part(), recipe={**RECIPE, name: "another"})
    plans = [(CONFIG, RunOptions(), others if rank == ODD else part()) for rank in range(PARTIES)]
    check_refused(refusals(plans), name, RECIPE[name], "another")


def test_columns_in_another_order_and_one_more_are_named_at_all():
    x = np.hstack([part().train_x, part().train_x[:, :1]])
    turned = {**RECIPE, "column 1": "weight", "column 2": "age", "column 3": "more"}
    wider = replace(part(), train_x=x, test_x=np.hstack([part().test_x] * 2)[:, :3], recipe=turned)
    plans = [(CONFIG, RunOptions(), wider if rank == ODD else part()) for rank in range(PARTIES)]
    found = refusals(plans)
    check_refused(found, "column 1", "age", "weight")
    check_refused(found, "columns", 2, 3)
    assert all("column 3 = nothing at parties 0 and 2, 'more' at party 1" in one for one in found)


def test_parties_that_state_the_same_begin_whatever_is_their_own(tmp_path):
    def plan(rank: int) -> Any:
        more = {name: np.repeat(getattr(part(), name), rank + 1, axis=0) for name in ARRAYS}
        own = RunOptions(save=tmp_path / str(rank), ledgers=[tmp_path / f"{rank}.json"])
        return CONFIG, own, replace(part(), **more)

    assert refusals([plan(rank) for rank in range(PARTIES)]) == ["shared"] * PARTIES


ARRAYS = ("train_x", "train_y", "test_x", "test_y")


def manifest(**changes: Any) -> Statement:
    return manifest_of(replace(CONFIG, **changes), OPTIONS, part().public, ["cyclopts"])


@pytest.mark.parametrize("name", sorted(manifest().everything))
def test_whatever_is_stated_is_compared(name):
    everybody = dict.fromkeys(range(PARTIES), Statement(run=manifest().everything))
    differing = f"{everybody[0].run[name]!r} at parties 0 and 2, 'another' at party 1"
    everybody[ODD] = Statement(run={**everybody[0].run, name: "another"})
    with refused(name, "value", differing) as caught:
        check_equal(everybody)
    assert str(caught.value) == f"{name} must be equal at every party, not {differing}."
    assert caught.value.rule == "equal at every party"


def test_versions_of_what_computes_are_stated():
    run = manifest().run
    assert run["version of pea-mpl"] == extensions.__version__
    assert run["version of numpy"] == np.__version__
    assert {"protocol", "version of cyclopts", "version of dp-accounting"} <= run.keys()


def test_what_was_asked_for_is_stated_beside_what_follows_from_it():
    run = manifest().run
    assert (run["epsilon"], run["delta"]) == (8.0, 1e-5)
    assert run["noise_multiplier"] == CONFIG.noise_multiplier
    assert run["columns"] == 2


def test_the_digest_is_of_all_that_makes_the_run_and_of_no_single_start():
    again = replace(OPTIONS.checkpoints, resume=True)
    resumed = manifest_of(CONFIG, RunOptions(checkpoints=again), part().public, ["cyclopts"])
    assert resumed.everything != manifest().everything
    assert resumed.digest == manifest().digest == manifest(lr=10).digest
    assert manifest(lr=2.0).digest != manifest().digest


def test_it_is_read_as_it_was_written():
    written = manifest()
    read = Statement.from_bytes(written.to_bytes(), 2)
    assert (read, read.digest) == (written, written.digest)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: b"",
        lambda said: said[:-1],
        lambda said: b"x" + said,
        lambda said: said.replace(b'"steps":3', b'"steps":[]'),
        lambda said: said.replace(b'"start"', b'"begin"'),
        lambda said: said.replace(b'"steps":3', b'"steps":' + b"[" * 9999),
    ],
)
def test_what_is_no_manifest_is_refused(change: Callable[[bytes], bytes]):
    with refused("manifest", "value", "unreadable at party 2"):
        Statement.from_bytes(change(manifest().to_bytes()), 2)


def test_a_field_that_nobody_can_compare_must_be_listed():
    @dataclass
    class Later:
        somewhere: Path = Path("here")

    with pytest.raises(TypeError, match="parties cannot compare somewhere"):
        comparable_settings(Later())


def test_all_that_is_listed_is_there_and_has_a_reason():
    known = {cls.__name__: cls for cls in (RunOptions, CheckpointOptions, Meeting)}
    for place in (*PARTY_SPECIFIC, *PRESENCE_ONLY):
        cls, _, name = place.partition(".")
        if cls in known:
            assert is_dataclass(known[cls])
            assert name in {field.name for field in fields(known[cls])}
    assert all(len(reason) > 10 for reason in (*PARTY_SPECIFIC.values(), *PRESENCE_ONLY.values()))


def test_lists_and_mappings_are_stated_part_by_part():
    assert flattened_value("column", ["a", {"low": 1}]) == {"column 1": "a", "column 2: low": 1}


def test_a_recipe_travels_with_the_records(tmp_path):
    read = read_party_file(write_records(part(), tmp_path / "own.npz"))
    assert read.recipe == RECIPE
    np.testing.assert_array_equal(read.train_x, part().train_x)
    with (tmp_path / "odd.npz").open("wb") as file:
        np.savez(file, recipe="no JSON", **{n: getattr(part(), n) for n in ARRAYS})
    with refused("records", "file", str(tmp_path / "odd.npz")):
        read_party_file(tmp_path / "odd.npz")
    plain = write_records(replace(part(), recipe={}), tmp_path / "plain.npz")
    assert read_party_file(plain).recipe == {}
