"""What parties do with shares of a model: predict for one of them, count, and open it once."""

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import load_raw, write_private
from extensions.data.schema import Number, Schema, Target
from extensions.errors import ArgumentError
from extensions.layers.passes import forward
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.ring.fixed_point import encode
from extensions.runs.budget import Account, Cap, Entry, path_of, read, update
from extensions.runs.model import (
    SharedModel,
    joint_use,
    logits_of,
    parties,
    paths_in,
    read_shares,
    write_opened,
    write_shares,
)
from extensions.runs.model.backends import Computing
from extensions.runs.model.joint_use import PartyInput, Request, perform
from extensions.runs.model.parties import LocalRows, Party
from extensions.runs.options import Meeting
from tests.conftest import SHARED
from tests.extensions.runs.test_model import model_of, records, whitened_model
from tests.helpers.commands import pea, started
from tests.helpers.refused import refused
from tests.helpers.toy_ext.host import ToyHost

pytestmark = pytest.mark.xdist_group(SHARED["pools"])
PARTIES = 3
ULP = 2.0**-20


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def shared(model, save=(1, 2, 3), **names) -> list[SharedModel]:
    """Shares of a model, one a party, which sum to it."""
    draws = np.random.default_rng()
    parts = [encode(part, 20) for pair in model.parameters for part in pair]
    masks = [
        [draws.integers(0, 2**64, part.shape, dtype=np.uint64).view(np.int64) for part in parts]
        for _ in range(PARTIES - 1)
    ]
    rest = [part - sum(column) for part, *column in zip(parts, *masks, strict=True)]
    return [
        SharedModel(
            header=model.header,
            save=save,
            rank=rank,
            parts=own,
            whitening=model.whitening,
            **names,
        )
        for rank, own in enumerate((*masks, rest))
    ]


def small(text="mlp:5", classes=3, **settings):
    model = model_of(text, 12, classes, **settings)
    parameters = [(weight / 4, bias) for weight, bias in model.parameters]
    return replace(model, parameters=parameters)


class Watched(ToyHost):
    """A host that keeps what is opened to all."""

    def open(self, summands):
        opened = super().open(summands)
        self.seen = opened
        return opened


def host() -> Watched:
    return Watched(20, PARTIES, SystemSource())


@pytest.mark.parametrize("text", ["logistic", "mlp:5"])
def test_predictions_are_those_of_the_opened_model_and_their_owners_alone(text):
    model, x = small(text), records()
    own = [PartyInput(shared=each) for each in shared(model)]
    own[1] = replace(own[1], x=x[:25])
    own[2] = replace(own[2], x=x[25:])
    ours = host()
    found = perform(ours, Request(task="predict"), own)
    expected = logits_of(model, x)
    assert [len(each["logits"]) for each in found] == [0, 25, 15]
    np.testing.assert_allclose(found[1]["logits"], expected[:25], rtol=0, atol=1e-3)
    np.testing.assert_allclose(found[2]["logits"], expected[25:], rtol=0, atol=1e-3)
    (seen,) = ours.seen
    assert np.abs(seen).min(axis=0).max() > 2**40, "what is opened is masked"
    assert np.median(np.abs(seen.astype(np.float64))) > 2**60


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere they are files of a folder")
def test_features_are_handed_to_parties_in_memory(tmp_path, monkeypatch):
    """No temporary folder can be written."""

    class Engine:
        def use(self, request, files, computing):
            assert [file.records is None for file in files] == [True, False, False]
            return [vars(file.read()) for file in files]

    monkeypatch.setattr(parties, "find_model_backend", lambda name: Engine())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for one in shared(small()):
        write_shares(tmp_path / f"party-{one.rank}.npz", one)
    x, y = records(), np.arange(40) % 3
    given = {1: LocalRows(x=x), 2: LocalRows(x=x[:3], y=y[:3])}
    found = Party(tmp_path, None, Computing()).ask(Request(task="predict"), given)
    assert (found[0]["x"], found[1]["y"]) == (None, None)
    np.testing.assert_array_equal(found[1]["x"], x)
    np.testing.assert_array_equal(found[2]["y"], y[:3])


def test_predictions_in_blocks_are_those_of_their_owners(monkeypatch):
    """Of 40 rows with 10 comparisons each, 100 at a time are 4 blocks, one owner without rows."""
    model, x = small("mlp:5"), records()
    own = [PartyInput(shared=each) for each in shared(model)]
    own[1] = replace(own[1], x=x[:25])
    own[2] = replace(own[2], x=x[25:])
    seen = []
    monkeypatch.setattr("extensions.protocols.records.COMPARED", 100)
    monkeypatch.setattr(joint_use, "forward", lambda *given: seen.append(given) or forward(*given))
    found = perform(host(), Request(task="predict"), own)
    assert [x.shape[0] for *_, x in seen] == [9, 10, 10, 11]
    assert [len(each["logits"]) for each in found] == [0, 25, 15]
    expected = logits_of(model, x)
    logits = np.concatenate([each["logits"] for each in found])
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-3)


def test_new_records_are_whitened_by_their_owner(tmp_path):
    model = whitened_model("logistic")
    model = replace(model, parameters=[(w / 4, b) for w, b in model.parameters])
    x = records()
    kept = [
        read_shares(write_shares(tmp_path / f"party-{each.rank}.npz", each))
        for each in shared(model)
    ]
    own = [PartyInput(shared=each) for each in kept]
    own[1] = replace(own[1], x=x)
    found = perform(host(), Request(task="predict"), own)
    np.testing.assert_allclose(found[1]["logits"], logits_of(model, x), rtol=0, atol=1e-3)
    own[1] = replace(own[1], y=logits_of(model, x).argmax(axis=1))
    counted = perform(host(), Request(task="evaluate"), own)[0]
    assert counted["accuracy"] == 1.0
    assert counted["opened"] == ["the number of correct predictions on held-out records"]


def test_a_regression_is_measured_in_its_unit_from_shares():
    schema = Schema(
        target=Target(column="dose", range=(0.0, 40.0)),
        columns=tuple(Number(name=f"n{i}", low=-1, high=1) for i in range(12)),
        basis="public",
    )
    model = small("logistic", classes=1, loss="squared", facts=schema.facts())
    x = records()
    places = np.clip(logits_of(model, x)[:, 0] + 0.5, 0.0, 1.0)
    own = [PartyInput(shared=each) for each in shared(model)]
    own[1] = replace(own[1], x=x, y=np.clip(places + 0.1, 0.0, 1.0))
    found = perform(host(), Request(task="evaluate"), own)[0]
    off = np.clip(places + 0.1, 0.0, 1.0) - places
    assert found["rmse"] == pytest.approx(40.0 * np.sqrt(np.mean(off**2)), rel=0.01)


def test_shares_of_two_saves_or_models_are_refused_everywhere():
    one, other = shared(small()), shared(small(), save=(4, 5, 6))
    mixed = [one[0], other[1], one[2]]
    with refused("save", "value"):
        perform(host(), Request(task="open"), [PartyInput(shared=each) for each in mixed])


def test_a_share_of_another_party_is_refused():
    one = shared(small())
    with refused("shares", "file", "party 0's, at party 1"):
        perform(
            host(),
            Request(task="open"),
            [PartyInput(shared=each) for each in (one[0], one[0], one[2])],
        )


def saved(folder: Path, save: tuple[int, ...] = (1, 2, 3)) -> Path:
    for one in shared(small(), save=save):
        write_shares(folder / f"party-{one.rank}.npz", one)
    return folder


OTHERS = {
    "swapped": {0: "party-1.npz", 1: "party-0.npz"},
    "twice": {2: "party-1.npz"},
    "in a circle": {0: "party-1.npz", 1: "party-2.npz", 2: "party-0.npz"},
    "of another run": {1: "other/party-1.npz"},
    "all but one of another run": {0: "other/party-0.npz", 2: "other/party-2.npz"},
    "records": {1: "records.npz"},
    "an opened model": {2: "model.npz"},
}


@pytest.mark.parametrize("how", OTHERS)
def test_a_folder_with_a_share_in_the_place_of_another_is_named(tmp_path, how):
    """By whichever command: all find a folder's shares by one function, before anybody starts."""
    folder = saved(tmp_path / "model")
    saved(folder / "other", (4, 5, 6))
    x = np.zeros((3, 12))
    write_private(folder / "records.npz", train_x=x, train_y=x[:, 0], test_x=x, test_y=x[:, 0])
    write_opened(folder / "model.npz", small())
    contents = {rank: (folder / name).read_bytes() for rank, name in OTHERS[how].items()}
    for rank, content in contents.items():
        (folder / f"party-{rank}.npz").write_bytes(content)
    with pytest.raises(ArgumentError) as refused:
        paths_in(folder)
    assert refused.value.argument == "shares"
    assert str(folder / "party-") in str(refused.value.value)
    np.savez(tmp_path / "own.npz", x=x)
    for command, *options in (
        ("predict", "--records", tmp_path / "own.npz", "--out", tmp_path / "out.csv"),
        ("open", "--out", tmp_path / "opened"),
        ("evaluate", "--data-for-party", f"0={folder / 'records.npz'}"),
    ):
        done = pea(command, "--shares", folder, *options)
        assert done.returncode == 1
        assert done.stderr.startswith("pea: --shares ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("rank", "own"), [(0, 1), (1, 0), (2, 1)])
def test_a_share_of_another_party_is_named_before_its_holder_meets_anybody(tmp_path, rank, own):
    meeting = Meeting(rank=rank, rendezvous=f"file://{tmp_path}/meeting")
    share = saved(tmp_path) / f"party-{own}.npz"
    with pytest.raises(ArgumentError) as refused:
        Party(share, meeting, Computing())
    assert refused.value.argument == "shares"
    assert str(share) in str(refused.value.value)
    assert not (tmp_path / "meeting").exists()


@pytest.mark.parametrize("name", ["rank", "save"])
@pytest.mark.parametrize("value", [[[0]], [0.0], [], -1, 3, "0"], ids=str)
def test_a_share_of_no_party_is_named(tmp_path, name, value):
    path = saved(tmp_path) / "party-0.npz"
    with np.load(path) as arrays:
        held = dict(arrays)
    write_private(path, **{**held, name: np.array(value)})
    with pytest.raises(ArgumentError) as refused:
        paths_in(tmp_path)
    assert refused.value.argument == "shares"


def test_a_count_is_charged_before_it_is_opened(tmp_path):
    model = small(private=True, noise_multiplier=1.0, delta=1e-5)
    x = records()
    y = logits_of(model, x).argmax(1)
    y[:4] = (y[:4] + 1) % 3
    path = tmp_path / "own.budget.json"
    own = [PartyInput(shared=each) for each in shared(model)]
    own[0] = replace(own[0], x=x, y=y, ledger=path)
    found = perform(host(), Request(task="evaluate"), own)
    assert [each["accuracy"] for each in found] == [0.9] * PARTIES
    (entry,) = read(path).entries
    assert (entry.exact, entry.spent) == (True, True)
    noisy = perform(host(), Request(task="evaluate", noisy=True, count_noise=5.0), own)[0]
    assert noisy["held_out_epsilon"] > 0
    *_, entry = read(path).entries
    assert (entry.exact, entry.spent) == (False, True)
    assert entry.epsilon(1e-5) == pytest.approx(noisy["held_out_epsilon"], rel=0.01)


def test_a_cap_refuses_an_exact_count_before_anything_is_opened(tmp_path):
    path = tmp_path / "own.budget.json"
    update(path, lambda account: replace(account, cap=Cap(epsilon=1.0, delta=1e-5)))
    model, x = small(), records()
    own = [PartyInput(shared=each) for each in shared(model)]
    own[0] = replace(own[0], x=x, y=np.zeros(40, dtype=np.int64), ledger=path)
    ours = host()
    with refused("evaluate", "value", "an exact use of held-out records"):
        perform(ours, Request(task="evaluate"), own)
    assert not hasattr(ours, "seen")
    assert read(path).entries == ()


def entered(path, name: str) -> float:
    """A ledger with a run that is spent; returns its epsilon."""
    ledger = Ledger()
    ledger.record("training", noise_multiplier=2.0, sample_rate=0.1, steps=10)
    entry = Entry(
        name=name, began="2026", title="a run", ledger=ledger, exact=False, opens=(), spent=True
    )
    return update(path, lambda account: Account(entries=(entry,))).epsilon(1e-5)


def test_an_opening_is_noted_and_costs_nothing_where_the_ledger_has_the_run(tmp_path):
    path, model = tmp_path / "own.budget.json", small()
    spent = entered(path, "run-0")
    own = [PartyInput(shared=each) for each in shared(model, entry="run-0")]
    own[0] = replace(own[0], ledger=path)
    found = perform(host(), Request(task="open"), own)
    for ours, theirs in zip(found[2]["parameters"], model.parameters, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=ULP)
    assert read(path).epsilon(1e-5) == spent
    assert read(path).entries[0].opens == ("the model, after the run",)
    perform(host(), Request(task="open"), own)
    assert len(read(path).entries) == 1


def test_an_opening_costs_what_the_run_did_where_the_ledger_lacks_it(tmp_path):
    path = tmp_path / "own.budget.json"
    own = [PartyInput(shared=each) for each in shared(small())]
    own[1] = replace(own[1], ledger=path)
    perform(host(), Request(task="open"), own)
    (entry,) = read(path).entries
    assert entry.spent
    assert entry.epsilon(1e-5) == np.inf, "the model was trained without privacy"


def told(folder, *names) -> list[str]:
    """What a party says of its ledgers of these names."""
    party = Party(folder, None, Computing())
    return [*party.strangers({rank: folder / name for rank, name in enumerate(names)})]


def test_whoever_opens_hears_which_ledger_lacks_the_run(tmp_path):
    entered(tmp_path / "a.budget.json", "run-0")
    for one in shared(small(), entry="run-0"):
        write_shares(tmp_path / f"party-{one.rank}.npz", one)
    (line,) = told(tmp_path, "a.budget.json", "b.budget.json")
    assert "b.budget.json lacks the run of" in line
    assert "party-1.npz" in line


@pytest.mark.parametrize("name", ["fp", ".", "nowhere.csv"])
def test_an_opening_is_noted_beside_records_alone(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fp").touch()
    for one in shared(small()):
        write_shares(tmp_path / "shares" / f"party-{one.rank}.npz", one)
    done = pea("open", "--shares", "shares", "--data-for-party", f"0={name}", "--out", "model")
    assert done.returncode == 1
    assert "pea: --data-for-party must be an existing .npz, .csv or .parquet" in done.stderr
    assert f"not {name!r}" in done.stderr
    assert not [*tmp_path.glob("**/*.budget.json")]
    assert not path_of(tmp_path).exists()


def test_a_second_model_of_a_save_is_not_opened():
    perform(host(), Request(task="open"), [PartyInput(shared=each) for each in shared(small())])
    ours = host()
    with refused("shares", "value", "of a save of which another model was opened before"):
        perform(
            ours,
            Request(task="open"),
            [PartyInput(shared=each) for each in shared(small("logistic"))],
        )
    assert not hasattr(ours, "seen")


def test_a_share_comes_back_as_it_was(tmp_path):
    one = replace(shared(small())[0], entry="a-0", run="b", release="c")
    path = write_shares(tmp_path / "party-0.npz", one)
    assert path.stat().st_mode & 0o777 == 0o600
    back = read_shares(path)
    assert (back.save, back.entry, back.run, back.release) == ((1, 2, 3), "a-0", "b", "c")
    assert (back.digest, back.header.to_json()) == (one.digest, one.header.to_json())


def test_a_release_otherwise_is_refused(tmp_path):
    from extensions import durable

    for rank in range(PARTIES):
        durable.claim("finished-runs", f"run {rank}", "this")
    fine = [PartyInput(shared=each) for each in shared(small(), run="run", release="this")]
    perform(host(), Request(task="open"), fine)
    other = [
        PartyInput(shared=each) for each in shared(small(), (7, 8, 9), run="run", release="other")
    ]
    with refused("shares", "value", "of a continuation of the run that was not released"):
        perform(host(), Request(task="open"), other)


def test_processes_predict_count_and_open_what_was_trained(tmp_path):
    """Two parties of CrypTen train, and use their shares in processes of their own."""
    if importlib.util.find_spec("crypten") is None:
        pytest.skip("CrypTen is not installed: type pip install -e '.[crypten]'")
    digits = load_raw("digits", None, 0)
    other, raw = (tmp_path / f"own-{rank}.npz" for rank in range(2))
    names = ("train_x", "train_y", "test_x", "test_y")
    for path in (other, raw):
        np.savez(path, **{name: getattr(digits, name)[:90] for name in names}, classes=10)
    folder = tmp_path / "model"
    done = pea(
        *("train", "--parties", 2, "--steps", 3, "--no-dp", "--save", folder),
        *("--data-for-party", f"0={other}", "--data-for-party", f"1={raw}"),
    )
    assert done.returncode == 0, done.stderr
    tables = {}
    out = tmp_path / "shared.csv"
    done = pea("predict", "--shares", folder, "--records", raw, "--owner", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    tables["shared"] = np.loadtxt(out, delimiter=",", skiprows=1)
    opened = pea(
        *("open", "--shares", folder, "--out", tmp_path / "opened"),
        *("--data-for-party", f"0={other}"),
    )
    assert opened.returncode == 0, opened.stderr
    out = tmp_path / "clear.csv"
    model = tmp_path / "opened" / "model.npz"
    assert pea("predict", "--model", model, "--records", raw, "--out", out).returncode == 0
    tables["clear"] = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_allclose(tables["shared"], tables["clear"], rtol=0, atol=1e-3)
    path = tmp_path / "report.json"
    done = pea("evaluate", "--shares", folder, "--data-for-party", f"1={raw}", "--json", path)
    assert done.returncode == 0, done.stderr
    right = tables["clear"][:, 1] == digits.test_y[:90]
    assert json.loads(path.read_text())["accuracy"] == pytest.approx(right.mean(), abs=0.03)
    assert "lacks the run" not in opened.stderr
    counted = [entry.opens for entry in read(path_of(raw)).entries[1:]]
    assert counted == [("the number of correct predictions on held-out records",)]
    assert read(path_of(other)).entries[0].opens[-1] == "the model, after the run"


@pytest.mark.long
def test_parties_by_hand_answer_the_one_who_asks(tmp_path):
    """Each has its own share; that of another model is refused by both before they share."""
    folder, raw = tmp_path / "model", tmp_path / "own.npz"
    digits = load_raw("digits", None, 0)
    done = pea("train", "--parties", 2, "--steps", 2, "--no-dp", "--save", folder)
    assert done.returncode == 0, done.stderr
    np.savez(raw, x=digits.test_x[:20])
    opened = pea("open", "--shares", folder, "--out", tmp_path, "--provider", "tfp")
    assert opened.returncode == 0, opened.stderr

    def asked(place: str, *shares) -> list[subprocess.CompletedProcess[str]]:
        common = ("--rendezvous", f"file://{tmp_path}/{place}", "--provider", "tfp")
        mine = ("--records", raw, "--out", tmp_path / "shared.csv")
        with (
            started("predict", "--rank", 0, "--shares", shares[0], *common) as other,
            started("predict", "--rank", 1, "--shares", shares[1], *common, *mine) as one,
        ):
            return [one.finish(), other.finish()]

    for each in asked("met", folder / "party-0.npz", folder / "party-1.npz"):
        assert each.returncode == 0, each.stderr
    model = ("--model", tmp_path / "model.npz")
    done = pea("predict", *model, "--records", raw, "--out", tmp_path / "clear.csv")
    assert done.returncode == 0, done.stderr
    tables = [
        np.loadtxt(tmp_path / f"{name}.csv", delimiter=",", skiprows=1)
        for name in ("shared", "clear")
    ]
    np.testing.assert_allclose(*tables, rtol=0, atol=1e-3)
    again = ("train", "--parties", 2, "--steps", 1, "--no-dp", "--save", tmp_path / "other")
    assert pea(*again).returncode == 0
    for each in asked("again", folder / "party-0.npz", tmp_path / "other" / "party-1.npz"):
        assert each.returncode == 1
        assert "save must be equal at every party" in each.stderr


@pytest.mark.long
def test_shares_of_aby3_are_of_use_to_others(tmp_path):
    """A model of three servers predicts among three parties of CrypTen, and is opened by them."""
    for package in ("crypten", "tf_encrypted"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folder, raw = tmp_path / "model", tmp_path / "own.npz"
    train = ("train", "--backend", "tfe", "--steps", 2, "--no-dp", "--save", folder)
    done = pea(*train)
    assert done.returncode == 0, done.stderr
    np.savez(raw, x=load_raw("digits", None, 0).test_x[:20])
    tables = []
    assert pea("open", "--shares", folder, "--out", tmp_path).returncode == 0
    for name, where in (("shares", folder), ("model", tmp_path / "model.npz")):
        out = tmp_path / f"{name}.csv"
        done = pea("predict", f"--{name}", where, "--records", raw, "--out", out)
        assert done.returncode == 0, done.stderr
        tables.append(np.loadtxt(out, delimiter=",", skiprows=1))
    np.testing.assert_allclose(*tables, rtol=0, atol=1e-3)
