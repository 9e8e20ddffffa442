"""Checkpoints: what a file holds and refuses, who agrees on what, and runs that went on."""

import itertools
import shutil
import stat
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.errors import ArgumentError, PeaError
from extensions.runs.checkpoints import (
    AllCheckpoints,
    CheckpointOptions,
    Offer,
    PartyCheckpoints,
    run_concurrently,
)
from extensions.runs.checkpoints.agreement import settle
from extensions.runs.checkpoints.files import read
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from tests.helpers.claims import claim
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused

STEPS = 12
CONFIG = TrainConfig(
    backend="clear",
    steps=STEPS,
    noise_multiplier=1.0,
    delta=1e-5,
    model="mlp:4",
    lr=1.0,
    insecure_seed=5,
)
DESCENT: dict[str, Any] = {
    **{"momentum": 0.5, "average": 0.5, "lr_schedule": "cosine"},
    **{"model": "logistic", "bias_scale": 0.5, "loss": "least-squares"},
}
LOCAL: dict[str, Any] = {"init": "local-average", "noise_multiplier_init": 1.0, "init_steps": 3}


class PowerCutError(Exception):
    """Ends a run where a test wants it to end."""


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def parts():
    return split_among(load("digits", None, 0), 3)


def run(
    parts: Any, folder: Path | None, *, resume: bool = False, cut: int | None = None, **changes: Any
) -> dict[str, Any]:
    """Returns the report of a plaintext run, which may be cut off after a step."""

    def progress(event: dict[str, Any]) -> None:
        if event["step"] == cut:
            raise PowerCutError

    options = None
    if folder is not None:
        options = CheckpointOptions(folder=folder, every=changes.pop("every", 5), resume=resume)
    return train(replace(CONFIG, **changes), parts, progress, options)


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    """Two reports are equal, but for seconds and for where they were resumed."""
    for key in a.keys() - {"seconds", "phases", "resumed_from", "parameters"}:
        assert a[key] == b[key], key
    pairs = zip(itertools.chain(*a["parameters"]), itertools.chain(*b["parameters"]), strict=True)
    for x, y in pairs:
        np.testing.assert_array_equal(x, y)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_all_parties_of_a_program_are_asked_at_once():
    """Each waits for the others; who fails is told of once all have ended, the first one alone."""
    met, ended = threading.Barrier(3), []

    def ask(rank, fails):
        met.wait(PATIENCE / 10)
        ended.append(rank)
        if fails:
            raise PeaError(f"party {rank}")
        return 2 * rank

    assert run_concurrently(ask, range(3), [False] * 3) == [0, 2, 4]
    with pytest.raises(PeaError, match="party 1"):
        run_concurrently(ask, range(3), [False, True, True])
    assert sorted(ended[3:]) == [0, 1, 2]


@pytest.mark.parametrize(
    "start", [{}, LOCAL, DESCENT], ids=["public start", "local models", "momentum and a mean"]
)
def test_a_resumed_run_is_that_of_no_interruption_bit_for_bit(parts, tmp_path, start):
    """Cut off twice, once before any later checkpoint; local models are not trained again.

    The last cut is where the mean has begun, and the velocity is not zero.
    """
    whole = run(parts, None, **start)
    folder = tmp_path / "kept"
    with pytest.raises(PowerCutError):
        run(parts, folder, cut=3, **start)
    assert names(folder) == ["party-0-step-0.checkpoint"]
    with pytest.raises(PowerCutError):
        run(parts, folder, cut=11, resume=True, **start)
    assert names(folder) == ["party-0-step-10.checkpoint", "party-0-step-5.checkpoint"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    report = run(parts, folder, resume=True, **start)
    assert report["resumed_from"] == [0, 10]
    assert whole["resumed_from"] is None
    same(report, whole)
    other = run(parts, None, **{**start, "insecure_seed": 6})
    assert np.any(other["parameters"][0][0] != whole["parameters"][0][0])


def test_without_a_seed_noise_after_resuming_is_fresh(parts, tmp_path):
    """Two continuations differ in every parameter: noise of one step has a scale of 2^13 and more.

    A value repeats with probability below 2^-12 a parameter, so that of 310 at most 10 do but with
    probability below 1e-17. The run that is finished first is the only one.
    """
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "a", cut=6, insecure_seed=None)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    reached = []
    for name in "ab":
        with pytest.raises(PowerCutError):
            run(parts, tmp_path / name, cut=11, resume=True, insecure_seed=None)
        found = read(tmp_path / name / "party-0-step-10.checkpoint", 0)
        assert found.source is None
        reached.append(np.concatenate([part.ravel() for part in found.shares.values()]))
    assert reached[0].size == 310
    assert (reached[0] == reached[1]).sum() <= 10
    report = run(parts, tmp_path / "a", resume=True, insecure_seed=None)
    assert report["resumed_from"] == [5, 10]
    assert report["epsilon"] == run(parts, None, insecure_seed=None)["epsilon"]
    with refused("checkpoint", "value", f"{tmp_path}/b, of a run that was finished"):
        run(parts, tmp_path / "b", resume=True, insecure_seed=None)


def test_of_two_copies_that_run_at_once_only_one_is_finished(parts, tmp_path):
    """The second had resumed before the first was finished; nothing of it is opened."""
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "a", cut=6)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    finished: list[dict[str, Any]] = []

    def meanwhile(event: dict[str, Any]) -> None:
        if event["step"] == STEPS:
            finished.append(run(parts, tmp_path / "a", resume=True))

    options = CheckpointOptions(folder=tmp_path / "b", every=5, resume=True)
    with pytest.raises(PeaError, match="another continuation of this run was finished"):
        train(CONFIG, parts, meanwhile, options)
    assert len(finished) == 1


def test_a_finished_run_leaves_no_shares_and_is_not_resumed(parts, tmp_path):
    folder = tmp_path / "kept"
    run(parts, folder)
    assert names(folder) == ["party-0-opened.npz", "party-0-result.json", "party-0.finished"]
    with refused("checkpoint", "value", f"{tmp_path}/kept, of a run that was finished"):
        run(parts, folder, resume=True)
    with refused("checkpoint", "file", str(folder)):
        run(parts, folder)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"lr": 2.0}, "lr"),
        ({"steps": 13}, "steps"),
        ({"noise_multiplier": 1.1}, "noise_multiplier"),
        ({"insecure_seed": 6}, "insecure_fixed_randomness"),
        ({"features": "hog"}, "features"),
    ],
)
def test_other_settings_are_named(parts, tmp_path, changes, name):
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "kept", cut=1)
    with refused(name, "value", value=next(iter(changes.values()))):
        run(parts, tmp_path / "kept", resume=True, **changes)


def test_records_of_another_size_are_named(parts, tmp_path):
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "kept", cut=1)
    fewer = replace(parts[1], train_x=parts[1].train_x[1:], train_y=parts[1].train_y[1:])
    with refused("training records of party 1", "value", value=478):
        run([parts[0], fewer, parts[2]], tmp_path / "kept", resume=True)


def test_a_state_folder_that_cannot_be_written_is_missed_at_once(parts, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with refused("XDG_STATE_HOME", "file", str(tmp_path / "file/pea")):
        run(parts, tmp_path / "kept", cut=1)


def test_options_are_checked(parts, tmp_path):
    with refused("checkpoint_every", "range", value=0):
        CheckpointOptions(folder=tmp_path, every=0)
    (tmp_path / "file").touch()
    with refused("checkpoint", "file", str(tmp_path / "file/kept")):
        run(parts, tmp_path / "file" / "kept")
    with refused("checkpoint", "file", str(tmp_path)):
        run(parts, tmp_path, resume=True)
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "kept", cut=1)
    with refused("checkpoint", "file", str(tmp_path / "kept")):
        run(parts, tmp_path / "kept")


def party(folder: Path, rank: int, *, resume: bool = False, **settings: Any) -> PartyCheckpoints:
    options = CheckpointOptions(folder=folder / str(rank), every=2, resume=resume)
    shared = {"lr": 1.0, **settings}
    return PartyCheckpoints(options, rank, steps=8, settings=shared, own={"records": 10 + rank})


def begun(folder: Path, count: int = 3, **options: Any) -> tuple[list[PartyCheckpoints], int]:
    """Parties that agreed, and the step from which they go on."""
    parties = [party(folder, rank, **options) for rank in range(count)]
    bases = AllCheckpoints(parties).settle()
    assert len(bases) in (0, count)
    steps = {base.step for base in bases} or {0}
    assert len(steps) == 1
    return parties, steps.pop()


def write(one: PartyCheckpoints, step: int, value: int) -> None:
    one.write(step, {"weight": np.full(3, value)}, optimizer={}, source=None)


def test_parties_at_different_steps_resume_from_the_newest_that_all_have(tmp_path):
    parties, _ = begun(tmp_path)
    for step in (0, 2, 4):
        for one in parties:
            write(one, step, step)
    write(parties[1], 6, 6)
    again = [party(tmp_path, rank, resume=True) for rank in range(3)]
    bases = AllCheckpoints(again).settle()
    for rank, base in enumerate(bases):
        assert base is not None
        assert (base.step, base.rank, base.shares["weight"].tolist()) == (4, rank, [4] * 3)
        assert again[rank].resumed == (4,)


@claim("A step of an abandoned attempt is never mixed with that of the next.")
def test_a_step_of_an_abandoned_attempt_is_never_mixed_with_that_of_the_next(tmp_path):
    """Party 0 has step 6 of the first attempt, the others step 6 of the second."""
    parties, _ = begun(tmp_path, 3)
    for one, step in itertools.product(parties, (2, 4)):
        write(one, step, step)
    write(parties[0], 6, -1)
    parties, step = begun(tmp_path, resume=True)
    assert step == 4
    for one in parties[1:]:
        write(one, 6, 6)
    parties, step = begun(tmp_path, resume=True)
    assert step == 4
    for one in parties:
        write(one, 6, 7)
    parties, step = begun(tmp_path, resume=True)
    assert step == 6
    assert parties[0].resumed == (4, 6), "the steps on the way to this model"


def test_an_older_step_of_an_unfinished_run_may_be_continued_but_not_once_it_is_finished(tmp_path):
    parties, _ = begun(tmp_path)
    for one, step in itertools.product(parties, (2, 4)):
        write(one, step, step)
    (old,) = (tmp_path / "0").glob("*-step-2.*")
    kept = old.read_bytes()
    for folder in ("0", "1", "2"):
        (tmp_path / folder / f"party-{folder}-step-4.checkpoint").unlink()
    parties, step = begun(tmp_path, resume=True)
    assert step == 2
    for one in parties:
        one.store({}, {"count": np.zeros(1, np.int64)}, optimizer={}, source=None)
    parties[0].mark()
    for path in (tmp_path / "0").iterdir():
        path.unlink()
    old.write_bytes(kept)
    with refused("checkpoint", "value", f"{tmp_path}/0, of a run that was finished"):
        begun(tmp_path, resume=True)


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "truncated":
        content = content[:-1]
    elif how == "empty":
        content = content[:0]
    else:
        content[{"first": 0, "middle": len(content) // 2, "last": -1}[how]] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["truncated", "empty", "first", "middle", "last"])
def test_a_damaged_file_is_named(tmp_path, how):
    parties, _ = begun(tmp_path)
    for one in parties:
        write(one, 0, 1)
    damage(tmp_path / "1" / "party-1-step-0.checkpoint", how)
    with refused("checkpoint", "file", str(tmp_path / "1/party-1-step-0.checkpoint")):
        begun(tmp_path, resume=True)


def test_a_file_of_a_later_version_is_named(tmp_path):
    parties, _ = begun(tmp_path)
    for one in parties:
        write(one, 0, 1)
    path = tmp_path / "1" / "party-1-step-0.checkpoint"
    path.write_bytes(path.read_bytes().replace(b"checkpoint 4", b"checkpoint 5", 1))
    given = f"{path}, of format 5, which a later version wrote"
    with refused("checkpoint", "file", value=given):
        begun(tmp_path, resume=True)


def test_an_interrupted_write_leaves_the_file_before(tmp_path, monkeypatch):
    parties, _ = begun(tmp_path, 1)
    write(parties[0], 0, 1)

    def cut(*_: Any) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", cut)
        with pytest.raises(PowerCutError):
            write(parties[0], 0, 2)
    parties, _ = begun(tmp_path, 1, resume=True)
    again = party(tmp_path, 0, resume=True)
    (base,) = AllCheckpoints([again]).settle()
    assert base is not None
    assert base.shares["weight"].tolist() == [1] * 3
    left = tmp_path / "0" / ".party-0-step-0.checkpoint.left"
    left.write_bytes(b"by a process that was killed")
    write(again, 2, 3)
    assert [path.name[:13] for path in left.parent.iterdir()] == ["party-0-step-"] * 2


def test_another_partys_file_is_refused(tmp_path):
    parties, _ = begun(tmp_path)
    for one in parties:
        write(one, 0, 1)
    stolen = (tmp_path / "1" / "party-1-step-0.checkpoint").read_bytes()
    (tmp_path / "2" / "party-2-step-0.checkpoint").write_bytes(stolen)
    with refused("checkpoint", "file", f"{tmp_path}/2/party-2-step-0.checkpoint of party 1"):
        begun(tmp_path, resume=True)


@pytest.mark.parametrize(
    "taken", ["party-1-step-0.checkpoint", "party-1.charges", "party-1.release"]
)
def test_a_file_under_the_name_of_another_is_refused(tmp_path, taken):
    """One step twice, or what was kept of a release, is no checkpoint of another step."""
    parties, _ = begun(tmp_path)
    for one in parties:
        write(one, 0, 1)
    if taken.endswith("charges"):
        parties[1].charge({})
    if taken.endswith("release"):
        words = [({"weight": np.zeros(3, dtype=np.int64)}, {})] * len(parties)
        for one, (shares, outputs) in zip(parties, words, strict=True):
            one.store(shares, outputs, optimizer={}, source=None)
    content = (tmp_path / "1" / taken).read_bytes()
    place = tmp_path / "1" / "party-1-step-2.checkpoint"
    place.write_bytes(content)
    with pytest.raises(ArgumentError) as refused:
        begun(tmp_path, resume=True)
    assert refused.value.argument == "checkpoint"
    assert str(place) in str(refused.value.value)


def test_a_mixture_of_two_runs_is_refused(tmp_path):
    for run_name in "ab":
        parties, _ = begun(tmp_path / run_name)
        for one in parties:
            write(one, 0, 1)
    (tmp_path / "a" / "2" / "party-2-step-0.checkpoint").write_bytes(
        (tmp_path / "b" / "2" / "party-2-step-0.checkpoint").read_bytes()
    )
    with refused("checkpoint", "value", "of one run at party 0, of another at party 2"):
        begun(tmp_path / "a", resume=True)
    write(parties[0], 2, 1)
    (tmp_path / "a" / "0" / "party-0-step-2.checkpoint").write_bytes(
        (tmp_path / "b" / "0" / "party-0-step-2.checkpoint").read_bytes()
    )
    with refused("checkpoint", "file", f"{tmp_path}/a/0, of several runs"):
        begun(tmp_path / "a", resume=True)


def offers(**changes: Any) -> Sequence[Offer]:
    usual = Offer(problem=False, resume=True, settings={}, nonce="n", run="r", held=[("a", 2)])
    return [usual, replace(usual, **changes)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": True}, "checkpoint"),
        ({"resume": False}, "resume"),
        ({"settings": {"lr": 2.0}}, "lr"),
        ({"run": "s"}, "checkpoint"),
        ({"held": [("a", 4)]}, "checkpoint"),
        ({"held": [("b", 2)]}, "checkpoint"),
    ],
)
def test_parties_that_do_not_agree_are_refused_at_all_of_them(changes, message):
    """What arrives is what was sent, so that all parties decide alike."""
    sent = [Offer.from_bytes(each.to_bytes()) for each in offers(**changes)]
    with refused(message, "value"):
        settle(sent)


def test_names_of_runs_and_attempts_are_never_those_of_before(tmp_path):
    names = set()
    for resume in (False, True, True):
        parties = [party(tmp_path, rank, resume=resume) for rank in range(2)]
        agreed = settle([one.offer() for one in parties])
        names.add(agreed.attempt)
        if not resume:
            AllCheckpoints(parties).settle()
            for one in parties:
                write(one, 0, 1)
    assert len(names) == 3
