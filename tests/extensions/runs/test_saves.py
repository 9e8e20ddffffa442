"""Where shares and models are saved: a folder of another run's is refused before anything runs."""

import numpy as np
import pytest

from extensions.data.datasets import load, split_among
from extensions.runs.checkpoints import CheckpointOptions
from extensions.runs.checkpoints.folder import runs_in
from extensions.runs.model import check_free, write_opened, write_shares
from tests.extensions.runs.test_checkpoints import PowerCutError, run
from tests.extensions.runs.test_model import model_of
from tests.extensions.runs.test_model_together import shared, small
from tests.helpers.commands import pea
from tests.helpers.refused import refused

TRAIN = ("train", "--backend", "clear", "--parties", 2, "--steps", 2, "--evaluate", "opened")
TRAIN = (*TRAIN, "--noise-multiplier", 8, "--delta", 1e-5)
PARTY = ("party", "--rank", 0, "--world-size", 2, "--rendezvous", "file:///nowhere/met")
PARTY = (*PARTY, "--records", "own.npz", "--classes", 2, "--provider", "tfp", "--epsilon", 2)
PARTY = (*PARTY, "--delta", 1e-5, "--checkpoint", "run-y", "--save", "shares")


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def parts():
    return split_among(load("digits", None, 0), 3)


def test_a_second_run_leaves_the_first_ones_model(tmp_path):
    first = pea(*TRAIN, "--checkpoint", "run-1", "--save", "model")
    assert first.returncode == 0, first.stderr
    before = (tmp_path / "model" / "model.npz").read_bytes()
    second = pea(*TRAIN, "--checkpoint", "run-2", "--save", "model")
    assert second.returncode == 1
    assert "pea: --save must be a folder without another run's model" in second.stderr
    assert "another folder for --save and for --checkpoint." in second.stderr
    assert not (tmp_path / "run-2").exists()
    assert (tmp_path / "model" / "model.npz").read_bytes() == before
    third = pea(*TRAIN, "--checkpoint", "run-1", "--save", "other")
    assert "pea: --checkpoint must be a folder without an earlier run" in third.stderr
    assert "or choose new folders here and for --save." in third.stderr


def test_a_party_leaves_the_share_of_an_unopened_model(tmp_path):
    share = write_shares(tmp_path / "shares" / "party-0.npz", shared(small(), run="x")[0])
    before = share.read_bytes()
    done = pea(*PARTY)
    assert done.returncode == 1
    assert "pea: --save must be a folder without another run's model" in done.stderr
    assert share.read_bytes() == before


def test_a_run_that_goes_on_may_replace_its_own_shares_alone(parts, tmp_path):
    with pytest.raises(PowerCutError):
        run(parts, tmp_path / "kept", cut=7)
    (name,) = runs_in(tmp_path / "kept")
    folder = tmp_path / "shares"
    begun = CheckpointOptions(folder=tmp_path / "kept")
    resumed = CheckpointOptions(folder=tmp_path / "kept", resume=True)
    for options in (None, begun, resumed):
        check_free(folder, options)
    for one in shared(small(), run=name):
        write_shares(folder / f"party-{one.rank}.npz", one)
    check_free(folder, resumed)
    for options in (None, begun):
        with refused("save", "file", str(folder)):
            check_free(folder, options)
    write_shares(folder / "party-2.npz", shared(small(), run="another")[2])
    with refused("save", "file", str(folder)):
        check_free(folder, resumed)


def test_the_folder_of_a_finished_run_has_its_name(parts, tmp_path):
    run(parts, tmp_path / "kept")
    (name,) = runs_in(tmp_path / "kept")
    assert len(name) == 64


@pytest.mark.parametrize("name", ["model.npz", "party-0.npz"])
def test_models_and_records_are_not_replaced(tmp_path, name):
    np.savez(tmp_path / name, train_x=np.zeros(3))
    with refused("save", "file", str(tmp_path)):
        check_free(tmp_path, None)


def test_what_checkpoints_opened_is_no_share(tmp_path):
    (tmp_path / "party-0-opened.npz").touch()
    check_free(tmp_path, None)


def test_an_opened_model_is_not_replaced(tmp_path):
    for one in shared(small()):
        write_shares(tmp_path / "shares" / f"party-{one.rank}.npz", one)
    path = write_opened(tmp_path / "model" / "model.npz", model_of())
    before = path.read_bytes()
    done = pea("open", "--shares", "shares", "--out", "model")
    assert done.returncode == 1
    assert "pea: --out must be a folder without model.npz" in done.stderr
    assert path.read_bytes() == before
