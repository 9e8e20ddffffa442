"""Releases on the way: drawn once in a run, however often it is interrupted, and opened alike."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.errors import PeaError
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.protocols.noisy_sums.noisy_sum import noisy_sum
from extensions.protocols.optimizer import State
from extensions.runs.callbacks import CheckpointCallback, ProgressCallback
from extensions.runs.checkpoints import (
    AllCheckpoints,
    CheckpointOptions,
    PartyCheckpoints,
    run_settings,
)
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from extensions.runs.model import LocalShareStore
from extensions.runs.options import RunOptions
from extensions.runs.training import manifest_by
from tests.helpers.refused import refused

CONFIG = TrainConfig(backend="clear", steps=8, noise_multiplier=1.0, delta=1e-5)
F = 30


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def parts():
    return split_among(load("digits", None, 0), 3)


def keeping(
    parts: Any, folder: Path, *, resume: bool, source: Any = None
) -> tuple[Any, CheckpointCallback]:
    host = ClearHost(20, parties=3, owners=3, source=source or SystemSource())
    manifest = manifest_by(host, CONFIG, [part.public for part in parts], RunOptions())
    options = CheckpointOptions(folder=folder, every=2, resume=resume)
    sizes = [part.public.facts(rank) for rank, part in enumerate(parts)]
    settings = run_settings(manifest.kept, CONFIG.steps, sizes)
    parties = LocalShareStore(host.holders).checkpoints(options, settings)
    callbacks = CheckpointCallback(host, CONFIG, manifest, lambda event: None, parties)
    return host, callbacks


def summed(
    host: Any, callbacks: ProgressCallback, name: str, calls: list[int] | None = None
) -> list[Any]:
    """A noisy sum of the ranks; notes whose array was asked for."""

    def own(rank: int) -> list[Any]:
        if calls is not None:
            calls.append(rank)
        return [np.full(5, rank << F), np.full((2, 2), 1 << F)]

    return noisy_sum(host, callbacks, name, own, [1.0, 0.5], frac_bits=F)


PARTS = [(np.ones((2, 2), np.int64), np.zeros(2, np.int64))]


def test_noise_is_drawn_once_however_often_a_run_goes_on(parts, tmp_path):
    host, callbacks = keeping(parts, tmp_path / "run", resume=False)
    assert callbacks.resume() is None
    first = summed(host, callbacks, "whitening")
    for _ in range(2):  # killed before any checkpoint, twice
        host, callbacks = keeping(parts, tmp_path / "run", resume=True)
        assert callbacks.resume() is None
        assert callbacks.resumed[-1] == 0
        calls: list[int] = []
        again = summed(host, callbacks, "whitening", calls)
        assert calls == [], "nobody computes, let alone draws, again"
        for one, other in zip(first, again, strict=True):
            np.testing.assert_array_equal(one, other)
        later = summed(host, callbacks, "step-1", calls)
        assert calls in ([0, 1, 2], [])
    assert later[0].shape == (5,)
    callbacks(0, State(PARTS), Ledger())
    host, callbacks = keeping(parts, tmp_path / "run", resume=True)
    assert callbacks.resume() is not None
    np.testing.assert_array_equal(summed(host, callbacks, "whitening")[0], first[0])
    np.testing.assert_array_equal(summed(host, callbacks, "step-1")[1], later[1])


def test_two_new_runs_draw_apart(parts, tmp_path):
    drawn = []
    for name in ("a", "b"):
        host, callbacks = keeping(parts, tmp_path / name, resume=False)
        callbacks.resume()
        drawn.append(summed(host, callbacks, "whitening"))
    assert np.all(drawn[0][0] != drawn[1][0])


def test_an_insecure_source_goes_on_behind_what_was_drawn(parts, tmp_path):
    """Bit for bit what an uninterrupted run draws, whether the release is computed or read."""
    host, callbacks = keeping(
        parts, tmp_path / "whole", resume=False, source=InsecureSeededSource(3)
    )
    callbacks.resume()
    whole = [summed(host, callbacks, name) for name in ("one", "two")]
    host, callbacks = keeping(parts, tmp_path / "cut", resume=False, source=InsecureSeededSource(3))
    callbacks.resume()
    summed(host, callbacks, "one")
    host, callbacks = keeping(parts, tmp_path / "cut", resume=True, source=InsecureSeededSource(3))
    callbacks.resume()
    for name, expected in zip(("one", "two"), whole, strict=True):
        for one, other in zip(summed(host, callbacks, name), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_of_two_copies_of_a_run_one_opens_a_name(parts, tmp_path):
    host, callbacks = keeping(parts, tmp_path / "run", resume=False)
    callbacks.resume()
    summed(host, callbacks, "one")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    runs = [keeping(parts, tmp_path / name, resume=True) for name in ("run", "copy")]
    for _, kept in runs:
        kept.resume()
    summed(*runs[0], "two")
    with pytest.raises(PeaError, match="has opened 'two'"):
        summed(*runs[1], "two")
    same = [summed(*run, "one")[0] for run in runs]
    np.testing.assert_array_equal(*same)


def test_words_that_a_model_depends_on_are_missed(parts, tmp_path):
    host, callbacks = keeping(parts, tmp_path / "run", resume=False)
    callbacks.resume()
    summed(host, callbacks, "one")
    callbacks(0, State(PARTS), Ledger())
    (tmp_path / "run" / "party-0-one.opening").unlink()
    host, callbacks = keeping(parts, tmp_path / "run", resume=True)
    callbacks.resume()
    with pytest.raises(PeaError, match="has opened 'one' before this checkpoint"):
        summed(host, callbacks, "one")


def test_a_damaged_or_foreign_file_and_a_new_run_beside_it_are_refused(parts, tmp_path):
    folder = tmp_path / "run"
    host, callbacks = keeping(parts, folder, resume=False)
    callbacks.resume()
    summed(host, callbacks, "one")
    _, new = keeping(parts, folder, resume=False)
    with refused("checkpoint", "file", str(folder)):
        new.resume()
    path = folder / "party-0-one.opening"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    _, damaged = keeping(parts, folder, resume=True)
    with refused("checkpoint", "file", str(path)):
        damaged.resume()


def test_a_finished_run_leaves_no_words(parts, tmp_path):
    host, callbacks = keeping(parts, tmp_path / "run", resume=False)
    callbacks.resume()
    summed(host, callbacks, "one")
    outputs = [[np.zeros(1, np.int64)]]
    assert callbacks.release(["counts"], lambda: outputs, PARTS, Ledger()) == outputs
    assert (tmp_path / "run" / "party-0-one.opening").exists(), "until all have the result"
    callbacks.complete({"accuracy": 1.0}, {})
    assert not [*(tmp_path / "run").glob("*.opening")]


def parties(folder: Path, *, resume: bool) -> list[PartyCheckpoints]:
    found = []
    for rank in range(3):
        options = CheckpointOptions(folder=folder / str(rank), every=2, resume=resume)
        settings = {"steps": 8, "settings": {"lr": 1.0}, "own": {}}
        found.append(PartyCheckpoints(options, rank, **settings))
    AllCheckpoints(found).settle()
    return found


def words(value: int) -> list[Any]:
    return [np.full(2, value)]


def stored(found: Sequence[PartyCheckpoints], name: str) -> list[int | None]:
    held = [party.opening(name) for party in found]
    return [None if each is None else int(each.outputs["0"][0]) for each in held]


def test_words_of_different_attempts_are_never_added_up(tmp_path):
    """Parties die before, between and after their writes, in every order."""
    first = parties(tmp_path, resume=False)
    for party in first:
        party.store_opening("kept", words(7), None)
    for party in first[:2]:
        party.store_opening("cut", words(1), None)
    second = parties(tmp_path, resume=True)
    assert stored(second, "kept") == [7, 7, 7]
    assert stored(second, "cut") == [None] * 3, "party 2 has none"
    second[0].store_opening("cut", words(2), None)
    second[2].store_opening("cut", words(2), None)
    third = parties(tmp_path, resume=True)
    assert stored(third, "cut") == [None] * 3, "party 1 has those of the first attempt"
    for party in third:
        party.store_opening("cut", words(3), None)
    fourth = parties(tmp_path, resume=True)
    assert stored(fourth, "cut") == [3, 3, 3]


@pytest.mark.parametrize("failing", range(3))
def test_nothing_is_claimed_before_all_parties_have_stored(tmp_path, monkeypatch, failing):
    found = parties(tmp_path, resume=False)
    folder = tmp_path / str(failing)

    def full(path: Path, *_: Any) -> Any:
        if path.parent == folder:
            raise OSError("No space left on device")
        return written(path)

    from extensions import durable

    written = durable.write
    monkeypatch.setattr(durable, "write", full)
    every: itertools.count[int] = itertools.count()

    def exchange(own: Any) -> Any:
        next(every)
        return own

    with refused("checkpoint", "file"):
        AllCheckpoints(found, exchange).open("one", [words(rank) for rank in range(3)])
    assert next(every) == 1, "all hear of it"
    monkeypatch.undo()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert not (tmp_path / "state" / "pea" / "opened-on-the-way").exists()
