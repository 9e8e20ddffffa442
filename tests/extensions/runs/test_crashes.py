"""A run that dies at any boundary: no model is lost that was complete, and none is opened twice."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.data.datasets import Split
from extensions.errors import LostError
from extensions.runs.config import TrainConfig
from tests.helpers.claims import claim
from tests.helpers.crashes import (
    Attempt,
    KilledError,
    attempt,
    boundaries_on_disk,
    epsilons_computed_once,
    kept_in,
)

CONFIG = TrainConfig(
    backend="clear",
    parties=2,
    classes=2,
    one_output=True,
    steps=2,
    momentum=0.5,
    average=1.0,
    sample_rate=0.5,
    noise_multiplier=1.0,
    delta=1e-5,
)
SEEDS = itertools.count(1)


def part(rank: int) -> Split:
    draws = np.random.default_rng(rank)
    return Split(
        train_x=draws.uniform(-0.5, 0.5, (8, 3)),
        train_y=draws.integers(0, 2, 8),
        test_x=draws.uniform(-0.5, 0.5, (50, 3)),
        test_y=draws.integers(0, 2, 50),
    )


PARTS = [part(rank) for rank in range(2)]


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with epsilons_computed_once(), boundaries_on_disk():
        yield


def start(folder: Path, *, resume: bool = False, **options: Any) -> Attempt:
    config = options.pop("config", CONFIG)
    return attempt(config, PARTS, kept_in(folder, resume=resume), next(SEEDS), **options)


def result(folder: Path, rank: int) -> tuple[Any, ...] | None:
    """Returns the result that a party has on disk, in figures."""
    path = folder / str(rank) / f"party-{rank}-result.json"
    if not path.exists():
        return None
    report = json.loads(path.read_text())
    opened = path.with_name(f"party-{rank}-opened.npz")
    values = ()
    if opened.exists():
        with np.load(opened) as arrays:
            values = tuple((name, arrays[name].tobytes()) for name in arrays.files)
    return report["accuracy"], report["epsilon"], *values


def follow(folder: Path, tries: list[Attempt], config: TrainConfig = CONFIG) -> None:
    """Resumes what crashed until it ends, and checks what a user relies on."""
    stored = all((folder / str(rank) / f"party-{rank}.release").exists() for rank in range(2))
    before = [result(folder, rank) for rank in range(2)]
    for _ in range(2):
        tries.append(start(folder, resume=True, config=config))
        texts = {str(error) for error in tries[-1].errors.values()}
        assert not any("Traceback" in text or "several runs" in text for text in texts)
    results = [result(folder, rank) for rank in range(2)]
    for rank in range(2):
        sent = {words for one in tries for words in one.sent[rank]}
        assert len(sent) <= 1, "one party gives one set of words, whatever happens"
        assert before[rank] in (None, results[rank])
    sending = any(one.sent[rank] for one in tries for rank in range(2))
    if not sending and None in results:
        assert not stored, "a model that was complete is lost"
        assert any("with a checkpoint of party" in text for text in texts), texts
        return
    assert results[0] == results[1] != None  # noqa: E711 - both are there, and equal
    for rank, error in tries[-1].errors.items():
        assert "of a run that was finished" in str(error)
        assert f"party-{rank}-result.json" in str(error)
    assert len(tries[-1].errors) == 2
    left = {path.name for rank in range(2) for path in (folder / str(rank)).glob("**/*release*")}
    assert not left, "shares outlive the result"


def crashes(folder: Path, ends: dict[int, int], config: TrainConfig = CONFIG) -> bool:
    """Returns whether a party died."""
    tries = [start(folder, ends=ends, config=config)]
    errors = tries[0].errors.values()
    if not errors:
        return False
    assert all(isinstance(error, KilledError | LostError) for error in errors), errors
    follow(folder, tries, config)
    return True


def all_boundaries(folder: Path, config: TrainConfig, first: int, every: int = 1) -> None:
    """Crashes a run of each party at its boundaries from some boundary on.

    With `every` at 2 the parties, which do the same, take turns.
    """
    whole = start(folder / "whole", config=config)
    assert not whole.errors
    for rank in range(2):
        for at in itertools.count(first + rank * (every - 1), every):
            own = folder / f"{rank}-{at}"
            if not crashes(own, {rank: at}, config):
                break
            found = result(own, 0)
            assert found is None or found[1] == whole.reports[0]["epsilon"]
        assert at > first + 20


@claim("One party may die at any boundary of the release: it is opened once, with the same words.")
def test_one_party_dies_at_any_boundary_of_the_release(tmp_path):
    """The last messages are: sizes of held-out records, all have stored, the words, all have it."""
    config = replace(CONFIG, evaluate="opened")
    whole = start(tmp_path / "first", config=config)
    all_boundaries(tmp_path, config, whole.lives[0].segments[-4], every=2)


@pytest.mark.long
@pytest.mark.parametrize("evaluate", ["mpc", "opened"])
def test_one_party_dies_at_any_boundary_of_the_run(tmp_path, evaluate):
    all_boundaries(tmp_path, replace(CONFIG, evaluate=evaluate), 0)


@pytest.mark.long
def test_both_parties_die_between_two_messages(tmp_path):
    """Of all pairs of boundaries between the same two messages of the release."""
    whole = start(tmp_path / "whole")
    ends = [[*life.segments, life.passed] for life in whole.lives]
    for i in range(-5, -1):
        for pair in itertools.product(*(range(own[i], own[i + 1]) for own in ends)):
            crashes(tmp_path / f"{pair[0]}-{pair[1]}", dict(enumerate(pair)))


@pytest.mark.long
def test_runs_that_crash_again_and_again(tmp_path):
    """Each of the 200 runs dies at random boundaries, at one party or both, up to four times."""
    draws = np.random.default_rng(1)
    for number in range(200):
        folder, tries = tmp_path / str(number), []
        for _ in range(draws.integers(1, 5)):
            ends = {int(rank): int(draws.integers(0, 80)) for rank in draws.choice(2, 2)}
            tries.append(start(folder, resume=bool(tries), ends=ends))
        follow(folder, tries)
