"""Clients on other hosts: the same models as a simulation, whatever stops, lies or comes back."""

import pickle
import secrets
import tracemalloc
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from torch.nn.functional import nll_loss

import fl
from extensions.errors import MessageError, RoundError
from extensions.privacy.randomness import InsecureSeededSource
from fl.privacy import (
    central_dp,
    dimension_selection,
    distributed_dp,
    dp_sgd,
    local_dp,
    signds,
)
from fl.protocols import SERVER, Message, Round
from fl.remote.client import made
from fl.remote.envelope import HELLO, WORK, envelope, packed
from fl.remote.links import Link
from fl.remote.post import Answer, Post
from fl.remote.run import RemoteRun
from fl.remote.transport import RemoteTransport
from fl.round.identities import FreshIdentities
from fl.simulation import DropOut
from fl.training.history import RoundReport
from fl.training.session import SessionServer
from tests.helpers.federated import remote as helpers
from tests.helpers.federated.masked_rounds import sparse
from tests.helpers.federated.remote import (
    CLIENTS,
    FIRST_NODE,
    RECORDS,
    TEST,
    Local,
    Settings,
    kinds,
    mlp,
    remote,
    simulated,
    weights,
)
from tests.helpers.refused import refused

FIXED = fl.FixedPoint(frac_bits=16)
EVERYBODY = tuple(range(CLIENTS))
AGGREGATORS = {
    "plain": lambda: fl.PlainAggregator(timeout=9.0),
    "chain": lambda: fl.ChainAggregator(FIXED, timeout=9.0),
    "chains": lambda: fl.ChainAggregator(FIXED, chains=2, timeout=9.0),
    "masked": lambda: fl.MaskedAggregator(threshold=0.5, fixed_point=FIXED, timeout=9.0),
    "sparse": lambda: sparse(neighbours=4, shares=2),
    "paillier": lambda: fl.PaillierAggregator(key_bits=512, insecure_small_key=True, timeout=9.0),
}


def of(name: str, **more: object):
    return lambda: {"aggregator": AGGREGATORS[name](), "timeout": 9.0, **more}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_models_are_those_of_the_simulation_bit_for_bit(name):
    run, post = remote(of(name))
    history = run.fit(post, TEST)
    expected = simulated(of(name))
    np.testing.assert_array_equal(weights(run), weights(expected))
    assert [report.included for report in history] == [tuple(range(CLIENTS))] * 2
    assert history.accuracy == expected.history.accuracy
    assert set(run.keys.values()) == {"files"}


def without_2(number: int) -> list[DropOut]:
    return [DropOut(2, "ready")]


def lost_at(settings: Settings, turn: int) -> tuple[RemoteRun, Local]:
    """Returns a round in which client 2 answers so many requests, and then no more."""
    turns: list[int] = []

    def asks(client: int, asked: list[str]) -> bool:
        turns.extend([client] if asked else [])
        return client != 2 or turns.count(2) <= turn

    run, post = remote(settings, rounds=1, asks=asks)
    run.fit(post)
    return run, post


@pytest.mark.parametrize("name", AGGREGATORS)
def test_models_without_a_client_are_those_of_the_simulation_wherever_it_is_lost(name):
    """Client 2 answers no more from its nth request on, for every n that a round has."""
    alike = of("chain" if name == "chains" else name)
    models: dict[tuple[int, ...], np.ndarray] = {}
    for turn in range(99):
        run, post = lost_at(of(name), turn)
        included = run.history[0].included
        if included not in models:
            missing = [DropOut(k, "ready") for k in EVERYBODY if k not in included]
            drops = lambda number, missing=missing: missing  # noqa: E731
            models[included] = weights(simulated(alike, rounds=1, drop_outs=drops))
        np.testing.assert_array_equal(weights(run), models[included])
        if FIRST_NODE + 2 not in post.dead:
            break
        assert 2 in included or 2 in run.history[0].refused
    assert turn >= 2
    assert not np.array_equal(models[EVERYBODY], models[0, 1, 3, 4])


class Fixed:
    """Stands for `secrets`, and draws the same for everybody."""

    @staticmethod
    def choice(options):
        return options[0]

    @staticmethod
    def randbelow(bound):
        return bound // 2

    @staticmethod
    def randbits(bits):
        return 7

    class SystemRandom:
        def sample(self, population, count):
            return list(population)[:count]


@pytest.fixture
def injected(monkeypatch):
    """Makes what mechanisms draw a function of its size alone, so that two runs draw the same."""

    def known(scale, shape):
        return np.round(np.sin(np.arange(np.prod(shape))) * scale).astype(np.int64).reshape(shape)

    for module in (central_dp, distributed_dp, local_dp):
        monkeypatch.setattr(module, "discrete_gaussian", known)
    for module in (central_dp, dp_sgd):
        monkeypatch.setattr(module, "SystemSource", lambda: InsecureSeededSource(3))
    for module in (central_dp, dp_sgd, dimension_selection, signds):
        monkeypatch.setattr(module, "secrets", Fixed)


WIDE = fl.FixedPoint(bits=64, frac_bits=30, clip=64.0)
MECHANISMS = {
    "local": lambda: {
        "mechanism": fl.LocalDP(epsilon=4.0, delta=1e-5, clip=1.0),
        "aggregator": fl.PlainAggregator(timeout=9.0),
    },
    "distributed": lambda: {
        "mechanism": fl.DistributedDP(noise_multiplier=0.5, clip=0.5),
        "aggregator": fl.MaskedAggregator(fixed_point=WIDE, timeout=9.0),
        "weighting": "equal",
    },
    "central": lambda: {
        "mechanism": fl.CentralDP(
            noise_multiplier=1.0,
            clip=1.0,
            adaptive=fl.AdaptiveClipping(count_noise=10.0),
            frac_bits=16,
        ),
        "weighting": "equal",
        "client_fraction": 0.5,
    },
    "signds": lambda: {"mechanism": fl.SignDS(sign_k=0.1, sign_eps=10.0), "weighting": "equal"},
    "record": lambda: {
        "mechanism": fl.RecordDP(
            noise_multiplier=1.0, max_grad_norm=1.0, steps=1, sample_rate=0.5, lr=0.1
        ),
        "local_epochs": 5,
        "batch_size": 10,
    },
}


def noisy(name: str) -> Settings:
    return lambda: of("masked")() | MECHANISMS[name]()


@pytest.mark.parametrize("name", MECHANISMS)
def test_models_with_injected_noise_are_those_of_the_simulation(name, injected):
    run, post = remote(noisy(name))
    run.fit(post)
    expected = simulated(noisy(name))
    np.testing.assert_array_equal(weights(run), weights(expected))
    assert run.get_epsilon(1e-5) == expected.get_epsilon(1e-5)


@pytest.mark.parametrize("name", MECHANISMS)
def test_models_with_injected_noise_and_a_lost_client_are_those_of_the_simulation(name, injected):
    run, _ = lost_at(noisy(name), 1)
    expected = simulated(noisy(name), rounds=1, drop_outs=without_2)
    assert run.history[0].included == expected.history[0].included
    np.testing.assert_array_equal(weights(run), weights(expected))
    assert run.get_epsilon(1e-5) == expected.get_epsilon(1e-5)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_runs_and_is_charged(name):
    run, post = remote(noisy(name), rounds=2)
    history = run.fit(post)
    assert [report.failure for report in history] == ["", ""]
    assert 0.0 < run.get_epsilon(1e-5) < np.inf
    if name == "central":
        assert run.mechanism.clip != 1.0, "clients follow the norm"


@pytest.mark.parametrize("name", ["chain", "masked", "paillier"])
def test_the_coalition_calculator_answers(name):
    run, post = remote(of(name, transcript="all"), rounds=1)
    run.fit(post)
    expected = simulated(of(name, transcript="all"), rounds=1)
    everybody = frozenset(range(CLIENTS))
    for server in (False, True):
        alone = fl.Coalition([0], server=server)
        found = run.aggregator.leaks_to(alone, run.outcome)
        assert found
        if name == "masked":
            assert found == expected.aggregator.leaks_to(alone, expected.outcome)
            assert found == frozenset({everybody - {0}})
    if name == "paillier":
        both = fl.Coalition([0], server=True)
        assert run.aggregator.leaks_to(both, run.outcome) == {frozenset({k}) for k in range(1, 5)}
    if name == "chain":
        path = [m.message for m in run.outcome.transcript if m.message.kind == "passed"]
        order = max((m.clients("users") for m in path), key=len)
        second = fl.Coalition([order[1]], server=True)
        assert frozenset({order[0]}) in run.aggregator.leaks_to(second, run.outcome)


def test_the_server_carries_tokens_that_it_cannot_read():
    run, post = remote(of("chain", transcript="all"), rounds=1)
    run.fit(post)
    tokens = [
        entry.message
        for entry in run.outcome.transcript
        if entry.message.kind == "token" and entry.message.sender >= 0
    ]
    assert len(tokens) == CLIENTS - 1
    for token in tokens:
        assert set(token.body) == {"chain", "mask", "attempt", "users", "sealed"}


# --- state, restarts, the server's end ------------------------------------------------------------


STAGES = ["begin", "keys", "sealed", "survivors", "consents"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_node_that_loses_its_state_between_stages_leaves_the_round_at_once(stage):
    """The round goes on without it, no timer expires, and it is back in the next round."""

    def asks(client: int, asked: list[str]) -> bool:
        if client == 2 and stage in asked and not post.kept.get("lost"):  # type: ignore[call-overload]
            post.kept["lost"] = b"once"  # type: ignore[index]
            post.kept[1002] = b""
        return True

    run, post = remote(of("masked"), asks=asks)
    history = run.fit(post)
    assert "anew" in history[0].refused[2] or stage in ("survivors", "consents")
    late = stage in ("survivors", "consents")
    assert history[0].included == (tuple(range(CLIENTS)) if late else (0, 1, 3, 4))
    assert history[1].included == tuple(range(CLIENTS))
    assert history[0].virtual_seconds < 1.0


@pytest.mark.parametrize("stage", ["model", *STAGES])
def test_a_client_that_is_gone_at_any_stage_is_left_out_after_the_timeout(stage):
    run, post = remote(
        of("masked"), rounds=1, asks=lambda client, asked: not (client == 2 and stage in asked)
    )
    history = run.fit(post)
    late = stage in ("survivors", "consents")
    assert history[0].included == (tuple(range(CLIENTS)) if late else (0, 1, 3, 4))
    assert history[0].vanished == (2,) or not late


class Killed(BaseException):
    """Stands for the end of the server's process."""


@pytest.mark.parametrize("stage", ["model", "masked", "unmask"])
def test_a_server_that_ends_in_a_round_goes_on_with_the_next_number(stage, tmp_path):
    """No client is asked for a second update of a round, and the round is charged."""
    settings = noisy("distributed")
    kind = {"model": "model", "masked": "sealed", "unmask": "consents"}[stage]
    saved = tmp_path / "run.npz"

    def asks(client: int, asked: list[str]) -> bool:
        if client == 3 and kind in asked and Message.decode(post.requests[-1][1]).round == 2:
            raise Killed
        return True

    run, post = remote(settings, rounds=4, checkpoint=saved, folder=tmp_path / "notes", asks=asks)
    with pytest.raises(Killed):
        run.fit(post)
    again, other = remote(settings, rounds=4, checkpoint=saved, folder=tmp_path / "notes")
    history = again.fit(other)
    assert [bool(report.failure) for report in history] == [False, True, False, False]
    assert history[1].failure == "the server's process ended in it"
    numbers = {Message.decode(data).round for _, data in other.requests} - {0}
    assert numbers == {3, 4}
    whole, last = remote(settings, rounds=4)
    whole.fit(last)
    assert again.get_epsilon(1e-5) == whole.get_epsilon(1e-5)


def test_a_server_that_forgets_a_round_is_not_sent_it_again(tmp_path):
    first, post = remote(of("masked"), rounds=1, folder=tmp_path)
    first.fit(post)
    again, other = remote(of("masked"), rounds=1, folder=tmp_path)
    with pytest.raises(RoundError, match=r"client 0: it took part in round 1 of this run before"):
        again.fit(other)
    assert not any("begin" in kinds(data) for _, data in other.requests)


def test_notes_tell_a_client_how_many_rounds_it_answered_at_most(tmp_path):
    """A server that says of two rounds what it likes: the client's own host has their number."""
    run, post = remote(of("plain"), rounds=3, folder=tmp_path)
    run.fit(post)
    (notes,) = tmp_path.glob("client-0-*")
    assert notes.read_text() == "3"


def test_a_request_of_a_round_that_no_run_has_takes_no_client_out_of_later_ones():
    run, post = remote(of("plain"), rounds=1)
    empty = {"now": 0.0, "told": "{}", "messages": packed([])}
    request = envelope(2**62, SERVER, 0, WORK, **empty)
    answer, post.kept[FIRST_NODE] = post.client(0).answer(request, b"", FIRST_NODE)
    assert "beyond 2147483647" in Message.decode(answer).text("left", "")
    assert run.fit(post)[0].included == EVERYBODY


def test_another_model_has_rounds_of_its_own(tmp_path, monkeypatch):
    """An app's rounds are not taken for those of one with another model and the same settings."""
    first, post = remote(of("masked"), rounds=1, folder=tmp_path)
    first.fit(post)
    monkeypatch.setattr(helpers, "mlp", lambda: fl.models.mlp(64, 9, 10))
    other, post = remote(of("masked"), rounds=1, folder=tmp_path)
    assert other.fit(post)[0].failure == ""


def test_a_client_whose_settings_differ_has_no_part_in_a_sum():
    def settings():
        return of("masked")()

    run, post = remote(settings, rounds=1)
    usual = post.client

    def client(number):
        if number != 4:
            return usual(number)
        other = usual(number)
        other.settings.lr = 0.2
        return other

    post.client = client
    history = run.fit(post)
    assert history[0].included == (0, 1, 2, 3)
    assert "other settings of the run" in history[0].refused[4]


def test_words_of_records_that_cannot_be_read_stay_with_the_client(caplog):
    """Where an engine sends the server what is raised: it may have a value of a record."""

    def unread():
        raise KeyError("ward 7 of patient 4711")

    _, post = remote(of("plain"))
    known = post.client(1)
    far = (helpers.X[:4], np.array([0, 1, 2, 4711]))

    def make(records):
        return lambda: replace(known, records=records())

    for records, words in ((unread, "patient 4711"), (lambda: far, "4711")):
        with refused("client", "value", value=1) as found:
            made(1, make(records))
        assert "4711" not in str(found.value)
        assert found.value.__cause__ is None
        assert found.value.__suppress_context__
        assert words in caplog.text
        caplog.clear()
    assert made(1, make(lambda: RECORDS[1])).client == 1


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_node_that_answers_nonsense_at_any_time_is_named_and_left_out(name):
    """The round goes on without it, whichever of its answers is none."""

    def nonsense_at(turn: int) -> tuple[RoundReport, bool]:
        turns = 0

        def tamper(client, request, answer):
            nonlocal turns
            turns += client == 1 and bool(kinds(request))
            return secrets.token_bytes(40) if client == 1 and turns == turn + 1 else answer

        run, post = remote(of(name), rounds=1, tamper=tamper)
        (report,) = run.fit(post)
        return report, turns > turn

    for turn in range(99):
        report, answered = nonsense_at(turn)
        if not answered:
            break
        assert "bytes that are no message" in report.refused[1], turn
        if name == "chains":
            assert len(report.included) >= 2, "whoever is left alone on its chain is in no sum"
        else:
            assert set(report.refused) == {1}
            assert set(report.included) >= set(EVERYBODY) - {1}


def test_a_node_that_speaks_for_another_client_is_left_out():
    def tamper(client, request, answer):
        outer = Message.decode(answer)
        if client != 1 or outer.kind == "hello":
            return answer
        forged = [Message(round=1, sender=0, receiver=SERVER, kind="ready", body={}).encode()]
        body = {**outer.body, "messages": forged}
        return Message(
            round=outer.round, sender=1, receiver=SERVER, kind="work", body=body
        ).encode()

    run, post = remote(of("masked"), rounds=1, tamper=tamper)
    history = run.fit(post)
    assert history[0].refused == {1: "a message of client 0 to the server, which it may not send"}


def test_a_node_without_the_key_of_its_number_is_no_client():
    run, post = remote(of("masked"), rounds=1)
    usual = post.client

    def client(number):
        found = usual(number)
        if number == 4:
            found.client = 0
            found.identities = type(found.identities)()
        return found

    post.client = client
    history = run.fit(post)
    assert history[0].included == (0, 1, 2, 3)
    assert history[0].refused == {4: "it is not connected"}
    assert set(run.keys) == {0, 1, 2, 3}
    assert run._nodes[0] == FIRST_NODE


def test_a_greeting_that_another_node_repeats_makes_it_no_client():
    """It hands the server's challenge on, and says what client 0 answers on its own node."""

    def tamper(client, request, answer):
        if client != 4 or Message.decode(request).kind != HELLO:
            return answer
        return post.client(0).answer(request, b"", FIRST_NODE)[0]

    run, post = remote(of("masked"), rounds=1, tamper=tamper)
    (report,) = run.fit(post)
    assert report.included == (0, 1, 2, 3)
    assert report.refused == {4: "it is not connected"}
    assert run._nodes[0] == FIRST_NODE


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*AGGREGATORS, *MECHANISMS])
def test_settings_go_to_another_process_after_a_run_and_have_no_partys_keys(name):
    """A simulation of the engine has all parties' settings in one process, and sends them on."""
    given = of(name)() if name in AGGREGATORS else noisy(name)()
    before = pickle.dumps(given["aggregator"])
    run, post = remote(lambda: given)
    run.fit(post)
    assert pickle.dumps(given["aggregator"]) == before
    assert pickle.loads(pickle.dumps(given)).keys() == given.keys()


def test_links_open_what_was_sealed_for_them_alone():
    one, two, three = Link.fresh(), Link.fresh(), Link.fresh()
    one.peers = {1: two.public, 2: three.public}
    two.peers, three.peers = {0: one.public}, {0: one.public}
    token = Message(
        round=4, sender=0, receiver=1, kind="token", body={"chain": 0, "values": np.arange(3)}
    )
    sealed = one.seal(token)
    assert two.open(sealed).body["values"].tolist() == [0, 1, 2]
    for wrong in (
        {"sender": 2},
        {"round": 5},
        {"kind": "sum"},
        {"body": {**sealed.body, "chain": 1}},
        {"body": {"chain": 0}},
        {"body": {**sealed.body, "sealed": sealed.body["sealed"][:-1] + b"\0\0"}},
    ):
        with pytest.raises(MessageError):
            two.open(replace(sealed, **wrong))
    with pytest.raises(MessageError):
        three.open(replace(sealed, receiver=2))


def test_arguments_are_refused_by_name():
    given = {"model": mlp(), "rounds": 1, "clients": CLIENTS}
    with refused("keys", "missing", None):
        RemoteRun(aggregator=fl.MaskedAggregator(), **given)
    with refused("edges", "conflict", value="some"):
        RemoteRun(aggregator=fl.ChainAggregator(chains=2, edges=1), client_fraction=1.0, **given)
    with refused("led_by", "choice", value="client"):
        RemoteRun(aggregator=fl.ChainAggregator(led_by="client"), **given)
    with refused("hide_model", "conflict", value=True):
        RemoteRun(aggregator=fl.PaillierAggregator(hide_model=True), client_fraction=1.0, **given)
    with refused("clients", "range", value=0):
        RemoteRun(aggregator=fl.PlainAggregator(), **{**given, "clients": 0})
    assert len(RECORDS) == CLIENTS


@pytest.mark.parametrize("name", ["masked", "chain", "paillier"])
def test_a_client_that_boasts_of_records_ends_no_round(name):
    """No sum has room for so many: it is left out by name, and the others' models are equal."""

    def boasting(client, request, answer):
        told = Message.decode(answer)
        if client != 2 or told.kind != HELLO:
            return answer
        return replace(told, body={**told.body, "records": 2**62}).encode()

    run, post = remote(of(name), rounds=1, tamper=boasting)
    (report,) = run.fit(post)
    assert report.included == (0, 1, 3, 4)
    assert report.refused == {2: f"its weight of {2**62} is more than sums have room for"}


OTHERS = {
    "lr": {"lr": 0.3},
    "exchange": {"exchange": "weights"},
    "loss": {"loss": nll_loss},
    "mechanism": {"mechanism": fl.CentralDP(noise_multiplier=1.0, clip=0.5, frac_bits=16)},
}


@pytest.mark.parametrize("name", AGGREGATORS)
@pytest.mark.parametrize("other", OTHERS)
def test_client_that_was_given_other_settings_takes_no_part(name, other):
    """Its update would be another one than a sum is of, or clipped to another norm."""
    known = FreshIdentities()
    usual = {"weighting": "equal"}
    run, post = remote(of(name, **usual), rounds=1, identities=known)
    _, others = remote(of(name, **usual, **OTHERS[other]), identities=known)
    right = post.client
    post.client = lambda client: others.client(client) if client == 2 else right(client)
    run.fit(post)
    assert run.history[0].included == (0, 1, 3, 4)
    assert "other settings of the run" in run.history[0].refused[2]


@pytest.mark.parametrize("clip", [1, 1.0])
def test_norm_that_is_a_whole_number_is_adapted_on_other_hosts(clip):
    adaptive = fl.AdaptiveClipping(count_noise=1.0)
    mechanism = lambda: fl.CentralDP(noise_multiplier=0.1, clip=clip, adaptive=adaptive)  # noqa: E731
    settings = lambda: of("plain", weighting="equal", mechanism=mechanism())()  # noqa: E731
    run, post = remote(settings, rounds=2)
    history = run.fit(post)
    assert [report.included for report in history] == [EVERYBODY] * 2


@pytest.mark.parametrize("kind", [ValueError, IndexError, KeyError, OSError])
@pytest.mark.parametrize(
    "settings",
    [("loss",), ("train", ("local_epochs", 5), ("batch_size", 10))],
    ids=["loss", "train"],
)
def test_words_of_a_training_that_fails_stay_with_its_client(settings, kind, caplog):
    """They may hold values of records: the server hears that there is no update, and no more."""

    def fails(*given):
        if len(given[1]) > 2:
            raise kind(f"label {RECORDS[2][0][1]} is wrong")
        return given[0].sum()  # of the two made-up records on which a loss is tried before

    name, *others = settings
    run, post = remote(lambda: of("plain")() | {name: fails} | dict(others), rounds=1)
    with pytest.raises(RoundError) as caught:
        run.fit(post)
    assert set(caught.value.refused) == set(range(CLIENTS))
    assert set(caught.value.refused.values()) == {"it cannot train its model: see its own log"}
    assert "client 2 cannot train: " in caplog.text
    assert "is wrong" in caplog.text


class Nobody(Post):
    """Nodes of which none answers."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def nodes(self) -> Iterable[int]:
        return ()

    def send(self, requests: Iterable[tuple[int, bytes]]) -> None:
        for node, request in requests:
            self.sizes[node] = len(request)

    def collect(self, wait: float) -> Iterable[Answer]:
        return [Answer(node, None, "gone") for node in self.sizes]


def test_a_model_that_waits_for_many_clients_is_in_memory_once():
    """The server's memory does not grow by a model for each client of a round."""
    clients, size = range(50), 50_000
    round = Round(number=1, size=size, weights=dict.fromkeys(clients, 1))
    machine = SessionServer(
        round, np.zeros(size, np.float32), fl.PlainAggregator(), others=(), timeout=9.0
    )
    post = Nobody()
    transport = RemoteTransport(post, {k: k for k in clients}, lambda client: "{}")
    tracemalloc.start()
    with pytest.raises(RoundError, match="0 clients are ready"):
        transport.run(machine)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert min(post.sizes.values()) > 4 * size
    assert len(post.sizes) == len(clients)
    assert peak < 8 * 4 * size


def test_checkpoint_of_a_run_of_other_clients_is_refused(tmp_path):
    run, _ = remote(of("plain"), checkpoint=tmp_path / "run.npz")
    run.save(tmp_path / "run.npz")
    with refused("clients", "value", value=4):
        replace(run, clients=4).load(tmp_path / "run.npz")
