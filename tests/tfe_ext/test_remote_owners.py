"""Owners whose records stay in their own players: what a client gets, and what owners refuse."""

import json
from dataclasses import replace

import numpy as np
import pytest

from extensions.data.datasets import Split, load, split_among
from extensions.ring.fixed_point import decode
from extensions.runs.budget import Cap, path_of, read, update
from extensions.runs.checkpoints import files
from extensions.runs.clear_training import train
from extensions.runs.config import TrainConfig
from extensions.runs.model import read_shares
from tests.conftest import SHARED
from tests.helpers.arrays import arrays_of
from tests.helpers.claims import claim
from tests.helpers.players import SERVERS, write
from tests.helpers.recording import found_in, ports_of, recorded, words_in
from tests.helpers.tfe_process import TFEProcess
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = needs_tensorflow
TASKS = "tests.helpers.tfe_tasks.owners"
SETTINGS = {"classes": 2, "facts": {}, "features": "raw", "max_feature_norm": 1.0, "seed_data": 0}
CONFIG = TrainConfig(
    backend="tfe", steps=2, noise_multiplier=1.0, delta=1e-5, classes=2, lr=1.0
).resolved()


@pytest.fixture(scope="module")
def client():
    """A process without records; those of the players are in no file any more."""
    process = TFEProcess()
    yield process
    process.close()


@pytest.fixture(scope="module")
def way(players, tmp_path_factory):
    """The client's file of players, and recordings of all connections to those."""
    addresses = json.loads(players[0].with_name("servers.json").read_text())
    with recorded(addresses) as recordings:
        file = tmp_path_factory.mktemp("way") / "players.json"
        write(file, {name: one.address for name, one in recordings.items()})
        yield file, recordings.values()


@pytest.fixture(scope="module")
def ledgers(players):
    """Those of the servers."""
    folder = players[0].with_name("records")
    return [path_of(folder / f"party-{rank}.npz") for rank in range(len(SERVERS))]


@claim("Records cross none of the connections, and each owner counts the run.")
@pytest.mark.xdist_group(SHARED["tfe_players"])
def test_no_record_crosses_a_connection_and_each_owner_counts_the_run(
    ledgers, way, client, tmp_path
):
    """Of what travels between client and players, and between players, nothing is of a record.

    Nor is anything that travels between client and players of a share that a player keeps. The
    numbers are those of a run over the same records in one place.
    """
    whole = load("digits", None, 0)
    records = [[*map(float, row)] for row in whole.train_x[::20]]
    file, recordings = way
    report = client.run(f"{TASKS}:of_two_steps", players=str(file), folder=str(tmp_path))
    streams = [stream for one in recordings for stream in one.streams]
    assert sum(map(len, streams)) > 1e6
    assert found_in(streams, records, 20) == 0
    kept = [read_shares(tmp_path / "shares" / f"party-{rank}.npz").parts for rank in range(3)]
    assert np.abs(decode(np.sum([weights for weights, _ in kept], axis=0), 20)).max() < 50
    words = np.concatenate([weights.reshape(-1, 4) for weights, _ in kept])
    assert words_in(of(client.pid, recordings), words) == 0
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        f"party-{rank}{end}" for rank in range(3) for end in (".finished", "-result.json")
    }
    client.run(f"{TASKS}:place_words", file=str(file), words=words.tolist())
    assert words_in(of(client.pid, recordings), words) > 0.9 * len(words) > 100
    client.run(f"{TASKS}:place", file=str(file), records=records)
    streams = [stream for one in recordings for stream in one.streams]
    assert found_in(streams, records, 20) == len(records) > 50
    run = {"init": "local-average", "epsilon_init": 2.0, "init_steps": 2, "insecure_seed": 7}
    run |= {"momentum": 0.5, "average": 1.0}
    config = TrainConfig(backend="clear", steps=2, noise_multiplier=1.0, delta=1e-5, **run)
    clear = train(config.resolved(), split_among(whole, len(SERVERS)), lambda event: None)
    assert abs(report["accuracy"] - clear["accuracy"]) <= 0.01
    assert sum(report["records"]) == len(whole.train_x)
    for rank, path in enumerate(ledgers):
        (entry,) = read(path).entries
        assert entry.spent
        assert entry.name.endswith(f"-{rank}")


@claim(
    "A run beyond an owner's cap ends before it begins, and the client "
    "only hears that it was refused."
)
@pytest.mark.xdist_group(SHARED["tfe_players"])
def test_an_owners_cap_ends_a_run_before_it_begins_and_tells_no_number(
    ledgers, way, client, tmp_path
):
    before = [entries(path) for path in ledgers]
    cap = Cap(epsilon=0.125, delta=1e-5, except_held_out=True)
    update(ledgers[1], lambda account: replace(account, cap=cap))
    own = {"file": str(way[0]), "folder": str(tmp_path)}
    said = client.run(f"{TASKS}:refused", changes={}, **own)
    update(ledgers[1], lambda account: replace(account, cap=None))
    assert said.startswith("budget = 'refused by player server1': ")
    assert "0.125" not in said
    assert [entries(path) for path in ledgers] == before


@pytest.mark.xdist_group(SHARED["tfe_players"])
def test_no_share_that_a_scripts_players_keep_comes_to_the_script(way, client, tmp_path):
    """Not when it is kept or saved, nor when it is restored; what is opened is right."""
    file, recordings = way
    own = {"file": str(file), "folder": str(tmp_path)}
    client.run(f"{TASKS}:kept_by_a_script", **own)
    parties = [files.Files(tmp_path, rank) for rank in range(3)]
    kept = [found for party in parties for found in party.read(files.STEP)]
    assert [each.rank for each in kept] == [0, 1, 2]
    saved = [arrays_of(tmp_path / "saved" / f"party-{rank}.npz")["weight_0"] for rank in range(3)]
    parts = [*(each.shares["weight_0"] for each in kept), *saved]
    words = np.concatenate([part.reshape(-1, 4) for part in parts])
    client.run(f"{TASKS}:released_by_a_script", **own)
    assert words_in(of(client.pid, recordings), words) == 0
    assert (tmp_path / "party-2-opened.npz").exists()
    assert not [*tmp_path.glob("*.checkpoint"), *tmp_path.glob("*.release")]
    client.run(f"{TASKS}:place_words", file=str(file), words=words.tolist())
    assert words_in(of(client.pid, recordings), words) > 0.9 * len(words) > 100


def of(pid, recordings):
    """The streams of the connections that a process made."""
    ports = ports_of(pid)
    streams = [
        stream
        for one in recordings
        for stream, caller in zip(one.streams, one.callers, strict=True)
        if caller in ports
    ]
    assert sum(map(len, streams)) > 1e5
    return streams


def entries(path):
    return [entry.name for entry in read(path).entries]


def owner(**changes):
    from tfe_ext.players.records.owner import Held, Owner

    draws = np.random.default_rng(0)
    fields = {
        "train_x": draws.uniform(-0.2, 0.2, (8, 3)),
        "train_y": np.arange(8) % 2,
        "test_x": draws.uniform(-0.2, 0.2, (4, 3)),
        "test_y": np.arange(4) % 2,
        **changes,
    }
    heard = []
    return Owner(Held(split=Split(**fields), settings=SETTINGS, ledger=None), heard.append), heard


def asked(own, **changes):
    request = {"ask": "prepare", "run": "a", "rank": 0, "config": CONFIG.to_dict(), **changes}
    return json.loads(own.answer(json.dumps(request).encode()))


def test_an_owner_says_what_is_public_and_no_more():
    own, heard = owner()
    sizes = dict.fromkeys(("classes", "targets", "height", "width"), 0)
    outline = {"records": 8, "features": 3, "held_out": 4, "recipe": {}, **sizes}
    assert asked(own, ask="prepare") == {"empty": False}
    assert json.loads(own.answer(b'{"ask":"state"}')) == {"settings": SETTINGS, "outline": outline}
    assert own.array(b"train_features").shape == (8, 3)
    assert own.array(b"test_y").size == 0
    (line,) = heard
    assert line.startswith(
        "run a: logistic, 2 steps, tfe, noise multiplier 1.0, delta 1e-05; opens"
    )


LONG = np.full((8, 3), 0.7231)


@pytest.mark.parametrize(
    ("changes", "name", "rule", "told", "value"),
    [
        (
            {"train_x": LONG},
            "features",
            "of norm at most max_feature_norm = 1",
            "row 0",
            "1.25",
        ),
        (
            {"test_x": LONG[:4]},
            "features",
            "of norm at most max_feature_norm = 1",
            "row",
            "1.25",
        ),
        ({"train_y": np.full(8, 7351)}, "labels", "an integer in 0..1", "row 0", "7351"),
        ({"test_y": np.full(4, 7351)}, "labels", "an integer in 0..1", "row 0", "7351"),
        (
            *({"train_units": np.zeros(8, int)}, "units"),
            *("one with at most {rows_per_unit=1}", "a person", None),
        ),
    ],
)
def test_records_out_of_range_are_refused_where_they_are(changes, name, rule, told, value):
    """The client hears the rule, the owner's operator the record as well, and neither its value."""
    own, heard = owner(**changes)
    said = asked(own)["refused"]
    assert (said["name"], said["rule"], {*said}) == (name, rule, {"name", "rule", "code"})
    assert told in heard[0]
    assert value is None or value not in heard[0]
    assert own.array(b"train_features").size == 0


def test_a_run_of_other_settings_than_the_owners_is_refused():
    own, _ = owner()
    other = {**CONFIG.to_dict(), "max_feature_norm": 2.0}
    said = {"name": "max_feature_norm", "rule": "1.0, as the owner's settings say", "code": "value"}
    assert asked(own, config=other) == {"refused": said}


@pytest.mark.parametrize("what", ["reserve", "spend", "free", "learn", "nothing"])
def test_only_the_run_that_began_last_is_answered(what):
    own, heard = owner()
    for run in ("a", "b"):
        asked(own, run=run)
    said = json.loads(own.answer(json.dumps({"ask": what, "run": "a"}).encode()))
    assert set(said) == {"refused"}
    assert heard[-1].startswith("refused: ")


def test_what_was_refused_leaves_nothing_of_an_earlier_run():
    own, _ = owner()
    assert "refused" not in asked(own)
    assert "refused" in asked(own, run="b", config={**CONFIG.to_dict(), "max_feature_norm": 0.01})
    assert own.array(b"train_features").size == 8 * 3  # the run of before goes on
    own._held = replace(own._held, settings={**SETTINGS, "max_feature_norm": 0.01})
    assert "refused" in asked(own, run="b", config={**CONFIG.to_dict(), "max_feature_norm": 0.01})
    assert own.array(b"train_features").size == 0
    assert set(json.loads(own.answer(b'{"ask":"learn","run":"b"}'))) == {"refused"}


def test_a_player_without_records_keeps_shares_and_says_that_it_has_none(tmp_path):
    from tfe_ext.players.records.request_handler import RequestHandler

    desk = RequestHandler(lambda line: None)
    for what in ("state", "prepare", "spend"):
        assert json.loads(desk.answer(json.dumps({"ask": what}).encode())) == {"none": True}
    assert desk.array(b"train_features").size == 0
    shelves = Shelves(tmp_path, owners=[(desk, None)])
    assert shelves.settled() == [None]
    shelves.all("write", {"shares": SHARES}, step=1, **STATE)
    assert [*tmp_path.glob("*.checkpoint")]


@pytest.mark.parametrize("message", [b"", b"{", b"[]", b'{"ask":"prepare"}', b"\xff" * 100])
def test_a_malformed_request_is_an_answer(message):
    own, heard = owner()
    assert set(json.loads(own.answer(message))) == {"refused"}
    assert len(heard) == 1


SHARES = {"weight_0": np.arange(6).reshape(2, 3), "bias_0": np.array([-5, 1 << 62])}
STATE = {"optimizer": {"ledger": [0.5]}, "source": None}


class Shelves:
    """Three players' shelves as a client asks them, which lie in one folder."""

    def __init__(self, folder, keeper="a", resume=False, manifest="m", owners=None):
        self._owners = owners or [owner() for _ in SERVERS]
        self._keeper = keeper
        run = {"steps": 2, "settings": {"manifest": manifest}, "own": {}}
        run |= {"folder": str(folder), "every": None, "resume": resume}
        ranks = range(len(self._owners))
        said = [self.ask(rank, "keep", **run, rank=rank)["said"] for rank in ranks]
        self.offers = [each["offer"] for each in said]

    def ask(self, server, what, arrays=(), keeper=None, **fields):
        own, _ = self._owners[server]
        names = {kind: [*own] for kind, own in dict(arrays).items()}
        given = [each for own in dict(arrays).values() for each in own.values()]
        text = json.dumps({**fields, "arrays": names})
        request = {"ask": what, "keeper": keeper or self._keeper, "fields": text}
        said = json.loads(own.answer(json.dumps(request).encode(), given))
        return {"said": json.loads(said["said"])} if "said" in said else said

    def all(self, what, arrays=(), **fields):
        return [self.ask(rank, what, arrays, **fields) for rank in range(len(self._owners))]

    def settled(self):
        said = [each["said"]["answer"] for each in self.all("settle", offers=self.offers)]
        self.spent = [each["spent"] for each in said]
        return [each["base"] for each in said]

    def array(self, rank, name):
        return self._owners[rank][0].array(name.encode())


def test_a_player_refuses_a_folder_with_another_runs_share(tmp_path):
    """It says so before the run begins: shares are on its own host, out of the client's sight."""
    shelf = Shelves(tmp_path / "kept")
    asked = {"folder": str(tmp_path / "shares"), "kept": str(tmp_path / "kept"), "resume": False}
    assert shelf.ask(0, "vacant", **asked) == {"said": None}
    (tmp_path / "shares").mkdir()
    (tmp_path / "shares" / "party-1.npz").touch()
    refused = shelf.ask(0, "vacant", **asked)["refused"]
    assert refused["name"] == "save"
    assert refused["rule"] == "a folder without another run's model or shares"


def test_a_shelf_keeps_shares_until_the_run_is_released(tmp_path):
    """Each request goes to an owner's own files, and what is resumed is what was written."""
    first = Shelves(tmp_path)
    assert first.settled() == [None] * 3
    first.all("write", {"shares": SHARES}, step=1, **STATE)
    second = Shelves(tmp_path, resume=True)
    for rank, base in enumerate(second.settled()):
        assert (base["rank"], base["step"], base["optimizer"]) == (rank, 1, {"ledger": [0.5]})
        for name in base["shares"]:
            np.testing.assert_array_equal(second.array(rank, f"shares {name}"), SHARES[name])
    second.all("charge", spent={"ledger": [0.75]})
    second = Shelves(tmp_path, resume=True)
    assert [base["step"] for base in second.settled()] == [1] * 3
    assert second.spent == [{"ledger": [0.75]}] * 3
    release = {"shares": SHARES, "outputs": {"c": np.ones(1)}}
    stored = second.all("store", release, **STATE)
    assert len({each["said"]["answer"] for each in stored}) == 1
    second.all("mark")
    third = Shelves(tmp_path, resume=True)
    assert [base["outputs"] for base in third.settled()] == [["c"]] * 3
    third.all("mark")
    third.all("write_result", {"opened": {"c": np.array([3.0])}}, report="{}")
    third.all("complete")
    assert not list(tmp_path.glob("*.release"))
    with np.load(tmp_path / "party-2-opened.npz") as opened:
        assert opened["c"] == [3.0]
    late = Shelves(tmp_path, resume=True)
    refused = late.ask(0, "settle", offers=late.offers)["refused"]
    assert refused["name"] == "checkpoint"
    assert refused["rule"] == "of a run that is not finished"


def test_a_shelf_refuses_another_client_and_another_run(tmp_path):
    shelves = Shelves(tmp_path)
    shelves.settled()
    refused = shelves.ask(1, "write", {"shares": SHARES}, keeper="b", step=1, **STATE)
    assert refused["refused"]["rule"] == "the one that began last"
    shelves.all("write", {"shares": SHARES}, step=1, **STATE)
    other = Shelves(tmp_path, resume=True, manifest="another")
    rule = "'m', as at the start of the run"
    refused = other.ask(0, "check")["refused"]
    assert (refused["name"], refused["rule"]) == ("manifest", rule)
    again = Shelves(tmp_path).ask(0, "check")
    assert again["refused"]["rule"] == "a folder without an earlier run of party 0"
