"""Files that earlier versions wrote hold today what they held then.

None of them is ever written anew: a format that changes gets a file of its own beside these.
"""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from extensions.data.datasets import read_party_file
from extensions.data.schema.columns import Category, Number
from extensions.data.schema.schema import read_schema
from extensions.privacy.accounting import Ledger
from extensions.protocols.agreement import Statement
from extensions.runs.budget import Cap
from extensions.runs.budget import read as read_account
from extensions.runs.checkpoints import files, folder, marks
from extensions.runs.model import read_opened
from extensions.runs.model.shares import read_shares
from extensions.transport.federation import Federation
from extensions.transport.identity import Identity
from fl.training.course import Checkpoint
from fl.training.history import History
from tests.golden.clear import digest
from tests.helpers.commands import pea, report_of

FORMATS = Path(__file__).with_name("formats")
RUN = "920ed3c8e9c05bd544790830f482da82a7afa4ecb3f675e9034f841d8da06da7"
ALICE = "46e84ba25d652b18ee23e9ceebe81fc2526f6a8127021554f7c81f80056aae9e"
SUM = "the sum of x x^T over the features x of training records, with noise"
MAP = "6848aed9bad80272a1681e7338a503476188d622ee4b3cf26d3885a1a6493d9b"


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch):
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def owned(name: str, tmp_path: Path) -> Path:
    """A copy that only its owner may read: git keeps no modes."""
    path = Path(shutil.copy(FORMATS / name, tmp_path))
    path.chmod(0o600)
    return path


def test_a_checkpoint_of_a_step():
    found = files.read(FORMATS / "checkpoints" / "party-0-step-3.checkpoint", 0)
    assert (found.run, found.attempt, found.step, found.entry) == (RUN, RUN, 3, "13f1d4d799")
    assert (found.resumed, found.recipients, found.opening, found.source) == ((), (), "", None)
    assert {name: digest(share) for name, share in found.shares.items()} == {
        **{"weight_0": "8d5e015ad50831b0", "bias_0": "509e66f001738eb5"},
        **{"weight_1": "9782d6360af9e2e8", "bias_1": "f07185a7e68b3166"},
        **{"weight_2": "9cee60fe90f2eeee", "bias_2": "6854ef3c1170722e"},
    }
    assert found.optimizer["opened"] == ["whitening"]
    ledger = Ledger.from_json(found.optimizer["ledger"])
    assert ledger.get_epsilon(0.001) == pytest.approx(8.93640488055, rel=1e-10)
    assert len(found.settings) == 66
    assert found.settings["training records of party 0"] == 40
    assert (found.settings["momentum"], found.settings["average"]) == (0.5, 0.75)


def test_a_folder_of_checkpoints_with_a_release():
    place = FORMATS / "checkpoints"
    words = files.read(place / "party-0.release", 0)
    assert (words.recipients, words.step) == ((0, 1), 3)
    assert digest(words.outputs["counts"]) == "18ad0619c3a8b299"
    assert words.release == "6000967a97a6c616eec5bf9e5db8b7eda4233af60c78b4f1f96075689a48d9f4"
    held = folder.look(files.Files(place, 0), words.settings)
    assert (held.run, [each.step for each in held.checkpoints]) == (RUN, [2, 3])
    assert (held.marked, held.result, held.done) == (None, None, False)
    (opening,) = held.openings
    assert opening.opening == "whitening"
    digests = {name: digest(part) for name, part in opening.outputs.items()}
    assert digests == {"0": "a12cdaa446ed3fc7", "1": "06190eb9d14c6937"}


def test_a_folder_of_a_finished_run():
    report = json.loads((FORMATS / "finished" / "party-0-result.json").read_text())
    assert (report["accuracy"], report["steps"]) == (0.5, 3)
    run = "af808c851cc8fe299d0bd552fe2b87f4946a55073a35c669aadf4189c2fa12cd"
    assert [*marks.noted(files.Files(FORMATS / "finished", 0))] == [run]


def test_shares_of_a_model():
    own, other = (read_shares(FORMATS / "shares" / f"party-{rank}.npz") for rank in range(2))
    assert own.name == other.name == "28abadebd4b7af87-576e776871ddd35e"
    assert (own.rank, own.entry, other.entry) == (0, "073f21b57b-0", "3020bb0e3a-1")
    assert own.run == "af808c851cc8fe299d0bd552fe2b87f4946a55073a35c669aadf4189c2fa12cd"
    assert own.release == "96cf7710dda08aec8e217039db406abdf4aaabd29dcf55349e585c8c44476d21"
    assert own.digest == "98e222f30e813440a3feb8663213788fbdaf46a1b20e8b3fcce9a761da838042"
    model = [one + two for one, two in zip(own.parts, other.parts, strict=True)]
    assert [digest(part) for part in model] == ["fe8d77eec6dcbea1", "c43ab04d88eda3b9"]
    assert own.header == other.header
    assert (own.header.spec.widths, own.header.frac_bits) == ((6, 3), 20)
    assert own.header.run["noise_multiplier_whiten"] == 0.5
    assert own.whitening.ridge == 2.9121173522726655


def test_an_opened_model():
    model = read_opened(FORMATS / "model.npz")
    ((weight, bias),) = model.parameters
    assert np.ldexp(bias, 20).tolist() == [62153, -62153]
    assert digest(np.ldexp(weight, 20)) == "6614c27a8d8990b1"
    header = model.header
    assert (header.spec.widths, header.spec.loss, header.software) == ((5, 2), "sigmoid", "0.1.0")
    assert header.facts["schema column pressure"]["range"] == [50.0, 250.0]
    assert header.privacy["epsilon"] == 5.999852393753569
    assert header.run["chosen"][:2] == ["sample_rate", "max_grad_norm"]
    assert header.manifest["digest"].startswith("972b3ccfaa7439359606039e0dd3cd67")
    assert header.chosen_by_counts is False
    assert (model.whitening.digest, model.whitening.ridge) == (MAP, 9.80756180146489)


AGAIN = ("--again", "report.json")
BY_FILE = ("--config", "run.toml", "--evaluate", "opened", "--insecure-fixed-randomness", 7)


@pytest.mark.parametrize("options", [AGAIN, BY_FILE], ids=["report", "file of options"])
def test_a_run_is_made_again(tmp_path, monkeypatch, options):
    """With the same seed it is the same run, of the same tables under the same schema."""
    shutil.copytree(FORMATS, tmp_path / "again")
    monkeypatch.chdir(tmp_path / "again")
    Path("budget").mkdir()
    own = ("--budget", "budget", "--json", "new.json", "--save", "saved")
    done = pea("train", *options, *own)
    assert done.returncode == 0, done.stderr
    then, now = report_of(Path("report.json")), report_of(Path("new.json"))
    assert now.keys() - {"phases"} == then.keys()  # what later versions tell as well
    for name in ("accuracy", "auc", "recall", "options", "training_rows", "opened"):
        assert now[name] == then[name], name
    assert now["chosen"] == {**then["chosen"], "loss": "sigmoid"}, "which had to be given then"
    assert now["epsilon"] == pytest.approx(then["epsilon"], rel=1e-10)
    parts = [read_opened(Path(name)).parameters[0] for name in ("saved/model.npz", "model.npz")]
    for found, old in zip(*parts, strict=True):
        np.testing.assert_allclose(found, old, rtol=0, atol=2.0**-17)


def test_prepared_material(tmp_path):
    material = pytest.importorskip("crypten_ext.dealer.material")
    found = material.Material(owned("material/party-0.material", tmp_path))
    assert (found.header.rank, found.header.parties, found.header.tuples) == (0, 2, 21)
    assert found.header.run == "64f47850628ef5cbc152049ffce896c2"
    assert found.header.settings["training records of party 1"] == 4
    assert found.header.settings["made by"] == "dealer"
    frames = [*found.unfinished()]
    assert len(frames) == 21
    assert hashlib.sha256(b"".join(frames)).hexdigest()[:16] == "0512f020cc506cba"
    assert hashlib.sha256(found.begin()).hexdigest()[:16] == "9f3459fec9b6d4bf"
    found.finish()


def test_a_ledger_of_records():
    account = read_account(FORMATS / "ledger.budget.json")
    assert account.cap == Cap(epsilon=40.0, delta=0.001, except_held_out=False)
    (entry,) = account.entries
    assert (entry.name, entry.began) == ("073f21b57b-0", "2026-11-29T01:19:32+00:00")
    assert (entry.title, entry.unit) == ("logistic, 3 steps, clear", "record")
    assert (entry.exact, entry.spent, entry.delta) == (True, True, 0.001)
    assert entry.opens == (SUM, "the number of correct predictions on held-out records")
    assert account.epsilon(0.001) == pytest.approx(8.93640488055, rel=1e-10)


def test_phases_of_a_ledger():
    text = (FORMATS / "phases.json").read_text()
    ledger = Ledger.from_json(text)
    assert [phase.name for phase in ledger.phases] == ["training", "whitening"]
    assert (ledger.phases[0].noise_multiplier, ledger.phases[0].steps) == (1.5, 40)
    assert ledger.phases[0].overflow_probability == 1e-9
    assert json.loads(ledger.to_json()) == json.loads(text)


def test_a_manifest():
    content = (FORMATS / "manifest").read_bytes()
    found = Statement.from_bytes(content, rank=1)
    assert found.to_bytes() == content
    assert found.digest == "c993518512fe87ba767a1736890d4954754e439c04fd8a46c186085813b6e3c2"
    assert (found.run["class_weights 3"], found.run["class 0"]) == (0.25, "low")
    assert found.start == {"checkpoints": False, "material": False}


def test_a_federation_and_the_key_of_a_member(tmp_path):
    federation = Federation.read(FORMATS / "federation.toml")
    assert [(one.name, one.role, one.address) for one in federation.members] == [
        ("alice", "party", "10.0.0.1:7000"),
        ("bob", "party", "10.0.0.2:7000"),
        ("carol", "party", "10.0.0.3:7000"),
        ("dan", "dealer", "10.0.0.9:7001"),
    ]
    assert (
        federation.digest.hex()
        == "8aa9b99c3cd9507ce79b213482c6b895a81e6372db5583e6fef218054c4c3e56"
    )
    identity = Identity.read(owned("identity.pem", tmp_path))
    assert (identity.name, identity.fingerprint) == ("alice", ALICE)
    assert federation.rank_of(federation.own(identity)) == 0


def test_a_schema():
    schema = read_schema(FORMATS / "schema.toml")
    age, ward, pressure = schema.columns
    assert age == Number(name="age", low=0.0, high=100.0, outside="clip")
    assert ward == Category(name="ward", categories=("north", "south"), outside="clip")
    assert (pressure.scale, pressure.missing) == ("log", "indicator")
    assert (schema.target.column, schema.target.classes) == ("ill", ("no", "yes"))
    assert (schema.unit.column, schema.unit.rows, schema.basis) == ("patient", 2, "public")


def test_records_of_a_party():
    part = read_party_file(FORMATS / "records" / "party-0.npz")
    assert (part.train_x.shape, part.test_x.shape) == ((18, 5), (4, 5))
    assert part.train_y.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 0]
    assert part.train_units.tolist()[:5] == [2, 12, 0, 10, 14]
    expected = [0.02405822, 0.60145553, -0.60145553, 0.06791268, 0.0]
    np.testing.assert_allclose(part.train_x[0], expected, rtol=0, atol=1e-8)
    assert part.recipe["schema order of columns"] == ["age", "ward", "pressure"]


def test_a_federated_run_between_rounds():
    found = Checkpoint.read(FORMATS / "fl-checkpoint.npz")
    assert hashlib.sha256(found.weights.tobytes()).hexdigest()[:16] == "af0993685d117373"
    shapes = {name: part.shape for name, part in found.optimizer.items()}
    assert shapes == {"direction": (650,), "squares": (650,)}
    settings = json.loads(found.settings)
    assert settings["aggregator"] == "MaskedAggregator"
    assert settings["server_optimizer"]["tau"] == 0.001
    mechanism = json.loads(found.mechanism)
    (phase,) = Ledger.from_json(mechanism["ledger"]).phases
    assert (phase.name, phase.steps, phase.sample_rate) == ("noisy sum", 2, 0.5)
    assert History.from_json(found.history).rounds == rounds().rounds


def rounds() -> History:
    return History.from_json((FORMATS / "history.json").read_text())


def test_a_history_of_rounds():
    first, second = rounds()
    assert (first.number, first.selected, second.included) == (1, (0, 1, 2), (0, 1, 3))
    assert (first.bytes_up, second.bytes_down) == (17937, 11817)
    assert second.accuracy == 0.11420612813370473
    assert rounds().to_json() == (FORMATS / "history.json").read_text()
