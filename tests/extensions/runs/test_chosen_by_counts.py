"""What a model owes to held-out records stays with it: no noised count hides the exact ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import write_private
from extensions.errors import ArgumentError
from extensions.layers.models.start_file import with_digest
from extensions.runs.config import TrainConfig
from extensions.runs.model import (
    Header,
    OpenedModel,
    path_of,
    read_opened,
    read_shares,
    write_opened,
    write_shares,
)
from extensions.runs.model.export import export
from extensions.runs.model.joint_use import Request, settings_of
from tests.extensions.runs.test_model_together import shared
from tests.helpers.arrays import arrays_of
from tests.helpers.commands import PLAIN, once, pea

NOISY = Request(task="evaluate", noisy=True)
RUN = ("train", "--backend", "clear", "--parties", 2, *once(*PLAIN, "--sample-rate", 1))
RUN = (*RUN, "--steps", 2, "--epsilon", 2, "--delta", 1e-5)


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))


def trained(folder: Path, *options: object) -> Path:
    local = any(str(option).startswith("local") for option in options)
    done = pea(*RUN, "--save", folder, *options, *(("--epsilon-init", 0.5) if local else ()))
    assert done.returncode == 0, done.stderr
    return folder


def saved(model: OpenedModel, folder: Path) -> Path:
    """A folder of shares of a model."""
    for own in shared(model):
        write_shares(path_of(folder, own.rank), own)
    return folder


def refused(header: Header) -> bool:
    """Whether a noised count of a model is refused; an exact one, and the rest, never is."""
    for request in (Request(task="evaluate"), Request(task="predict"), Request(task="open")):
        settings_of(header, request)
    try:
        settings_of(header, NOISY)
    except ArgumentError as error:
        return error.argument == "noisy"
    return False


@pytest.mark.parametrize("init", ["local-accuracy", "local"])
def test_shares_that_began_by_exact_counts_have_no_noised_count(init, tmp_path):
    model = trained(tmp_path / "model", "--init", init, "--evaluate", "opened") / "model.npz"
    shares = saved(read_opened(model), tmp_path / "shares")
    assert refused(read_shares(shares / "party-0.npz").header)
    assert pea("split", "--data", "digits", "--parties", 2, "--out", tmp_path).returncode == 0
    records = ("--data-for-party", f"0={tmp_path / 'party-0.npz'}", "--budget", "none")
    done = pea("evaluate", "--shares", shares, "--noisy", *records)
    assert done.returncode == 1
    assert done.stderr.startswith("pea: --noisy ")
    ours = read_shares(shares / "party-0.npz").header.to_json()
    assert json.loads(ours)["chosen_by_counts"] is True


@pytest.mark.parametrize("init", ["zero", "random", "local-average"])
def test_other_starts_owe_nothing(init, tmp_path):
    options = ("--init", init, "--evaluate", "opened")
    model = trained(tmp_path / "first", *options) / "model.npz"
    assert not refused(read_opened(model).header)
    again = trained(tmp_path / "again", "--init", model, "--evaluate", "opened")
    assert not refused(read_opened(again / "model.npz").header)
    assert pea(*RUN, "--init", model, "--evaluate", "noisy").returncode == 0


def test_a_chain_of_starts_from_saved_models_keeps_it(tmp_path):
    model = trained(tmp_path / "0", "--init", "local-accuracy", "--evaluate", "opened")
    for number in (1, 2):
        path = model / "model.npz"
        assert refused(read_opened(path).header)
        export(read_opened(path), "npz", tmp_path / "exported.npz")
        for start in (path, tmp_path / "exported.npz"):
            done = pea(*RUN, "--init", start, "--evaluate", "noisy")
            assert done.returncode == 1
            assert "init" in done.stderr
        model = trained(tmp_path / str(number), "--init", path, "--evaluate", "opened")
    shares = saved(read_opened(model / "model.npz"), tmp_path / "shares")
    assert refused(read_shares(shares / "party-1.npz").header)


def test_what_checkpoints_leave_of_a_model_keeps_it(tmp_path):
    kept_in = tmp_path / "kept"
    options = ("--evaluate", "opened", "--checkpoint", kept_in)
    trained(tmp_path / "0", "--init", "local-accuracy", *options)
    start = with_digest(str(kept_in / "party-0-opened.npz"))
    with pytest.raises(ArgumentError) as caught:
        TrainConfig(private=False, init=start, evaluate="noisy")
    assert caught.value.argument == "init"
    TrainConfig(private=False, init=start, evaluate="mpc")


def changed(header: Header, init: str | None, told: bool | None) -> str:
    said = json.loads(header.to_json())
    local = str(init).startswith("local")
    said["run"] |= {"init": init, "noise_multiplier_init": 2.0 if local else None}
    del said["chosen_by_counts"]
    return json.dumps(said | ({} if told is None else {"chosen_by_counts": told}))


OF_A_FILE = "file:" + "0" * 64


@pytest.mark.parametrize(
    ("init", "told", "owes"),
    [
        ("local-accuracy", None, True),
        ("local", None, True),
        (OF_A_FILE, None, True),
        (OF_A_FILE, False, False),
        (OF_A_FILE, True, True),
        ("file-chosen-by-counts:" + "0" * 64, None, True),
        ("local-average", None, False),
        ("zero", None, False),
        (None, None, False),
    ],
)
def test_a_file_that_does_not_say_it_owes_where_it_may(init, told, owes, tmp_path):
    """Earlier versions did not say it: a start from a file may have been chosen by counts."""
    model = read_opened(trained(tmp_path / "m", "--evaluate", "opened") / "model.npz")
    header = Header.of_json(changed(model.header, init, told))
    assert refused(header) is owes
    path = write_opened(tmp_path / "older.npz", replace(model, header=header))
    arrays = arrays_of(path) | {"header": np.array(changed(model.header, init, told))}
    write_private(path, **arrays)
    assert with_digest(str(path)).startswith("file-chosen-by-counts:" if owes else "file:")


def test_weights_without_a_header_are_public(tmp_path):
    model = trained(tmp_path / "0", "--evaluate", "opened") / "model.npz"
    weights = {name: each for name, each in arrays_of(model).items() if name != "header"}
    bare = write_private(tmp_path / "bare.npz", **weights)
    other = write_private(tmp_path / "other.npz", **weights, header=np.array("of somebody"))
    assert with_digest(str(bare)) == with_digest(str(other)) == with_digest(str(model))
    TrainConfig(private=False, init=with_digest(str(bare)), evaluate="noisy")
