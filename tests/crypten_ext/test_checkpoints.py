"""A CrypTen script's checkpoints: own shares only, the newest common step, refused by all alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extensions.runs.checkpoints.files import read
from tests.conftest import Pools

TASK = "tests.helpers.party_tasks.checkpoints:train"
PARTIES, STEPS = 3, 7
ULP = 2.0**-20


def records(rank: int) -> dict[str, Any]:
    draws = np.random.default_rng(rank)
    return {"x": draws.uniform(-0.5, 0.5, (15, 4)), "y": draws.integers(0, 2, 15)}


def run(
    pools: Pools, scratch: Path, name: str, changes: dict[int, Any] | None = None, **options: Any
) -> list[dict[str, Any]]:
    own = [{**records(rank), **(changes or {}).get(rank, {})} for rank in range(PARTIES)]
    return pools.run(
        PARTIES,
        TASK,
        per_party=own,
        state=str(scratch / "state"),
        folder=str(scratch / name),
        **{"steps": STEPS, "until": STEPS, **options},
    )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def interrupted(pools, scratch):
    """A run that ended after step 4, of which party 1 has step 2 only."""
    reached = run(pools, scratch, "kept", until=4)
    (scratch / "kept" / "1" / "party-1-step-4.checkpoint").unlink()
    return reached


def test_a_party_writes_its_own_shares_and_nothing_else(scratch, interrupted):
    for rank in (0, 2):
        (newest,) = (scratch / "kept" / str(rank)).glob("*-step-4.*")
        found = read(newest, rank)
        kept = [*found.shares.values()]
        for share, own in zip(interrupted[rank]["shares"], kept[:4], strict=True):
            np.testing.assert_array_equal(own, share)
        names = [*found.shares]
        assert names[4:8] == [f"velocity of {name}" for name in names[:4]]
        assert names[8:] == [f"sum of iterates of {name}" for name in names[:4]]
        assert np.median([np.abs(share).max() for share in found.shares.values()]) > 2**55


def test_a_party_that_must_refuse_is_told_to_all_before_anything_is_shared(
    pools, scratch, interrupted
):
    path = scratch / "kept" / "2" / "party-2-step-2.checkpoint"
    content = path.read_bytes()
    path.write_bytes(content[:100])
    results = run(pools, scratch, "kept", resume=True)
    path.write_bytes(content)
    assert ".checkpoint': file." in results[2]["refused"][1]
    for rank in (0, 1):
        assert "checkpoint = 'refused by party 2'" in results[rank]["refused"][1]
        assert results[rank]["traffic"] == ["all_gather"] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: {"resume": False}}, "checkpoint = 'refused by party 0'"),
        ({0: {"resume": False, "folder": "fresh"}}, "resume = 'given at parties [1, 2] only'"),
        ({0: {"lr": 0.25}}, "checkpoint = 'refused by party 0'"),
    ],
)
def test_parties_that_differ_are_refused(pools, scratch, interrupted, changes, message):
    if "folder" in changes[0]:
        changes[0]["folder"] = str(scratch / changes[0]["folder"])
    results = run(pools, scratch, "kept", changes, resume=True)
    assert all(message in results[rank]["refused"][1] for rank in (1, 2))
    assert results[0]["refused"][0] == "ArgumentError"


def test_it_goes_on_from_the_newest_common_step_and_is_finished_once(pools, scratch, interrupted):
    """Sampling and noise are replayed from there, so that only truncation differs."""
    whole = run(pools, scratch, "whole")
    resumed = run(pools, scratch, "kept", resume=True)
    for a, b in zip(resumed, whole, strict=True):
        assert a["refused"] == ("", "")
        assert (a["made"], a["resumed"], b["resumed"]) == (2, (2,), ())
        assert a["state"] == b["state"]
        for weight, other in zip(a["weights"], b["weights"], strict=True):
            np.testing.assert_allclose(weight, other, atol=100 * ULP)
    pairs = zip(whole[0]["shares"], resumed[0]["shares"], strict=True)
    assert not any(np.any(x == y) for x, y in pairs)
    for result in run(pools, scratch, "kept", resume=True):
        assert "of a run that was finished" in result["refused"][1]


def test_a_release_that_was_cut_off_opens_the_words_that_were_stored(pools, scratch):
    run(pools, scratch, "cut", cut=True)
    folders = [scratch / "cut" / str(rank) for rank in range(PARTIES)]
    stored = [read(folder / f"party-{r}.release", r).outputs for r, folder in enumerate(folders)]
    assert not [path for folder in folders for path in folder.glob("*.checkpoint")]
    for rank, result in enumerate(run(pools, scratch, "cut", resume=True)):
        assert (result["made"], result["resumed"]) == (STEPS, (STEPS,))
        with np.load(folders[rank] / f"party-{rank}-opened.npz") as opened:
            for (name, kept), weight in zip(opened.items(), result["weights"], strict=True):
                np.testing.assert_array_equal(weight, kept)
                words = np.sum([own[name] for own in stored], axis=0)
                np.testing.assert_array_equal(words * ULP, weight)
        assert not (folders[rank] / f"party-{rank}.release").exists()
