"""Machines on the in-process transport: time, drop-outs, refusals and views."""

from collections.abc import Iterable

import numpy as np
import pytest

import fl
from extensions.errors import ArgumentError, RoundError, UpdateError
from fl.protocols import (
    SERVER,
    Aggregate,
    Machine,
    Message,
    Outcome,
    Output,
    Refusal,
    Round,
    Timer,
    Value,
    Vector,
    aggregate,
)
from fl.simulation import DropOut, InProcessTransport, Link, Network
from tests.helpers.refused import refused

ONE = Round(number=1, size=1, weights={0: 1})


def updates(clients: int, size: int = 5) -> dict[int, Vector]:
    draws = np.random.default_rng(clients).normal(size=(clients, size))
    return {k: row.astype(np.float32).astype(np.float64) for k, row in enumerate(draws)}


def plain(given: dict[int, Vector], **transport: object) -> Outcome:
    carrier = InProcessTransport(**transport)  # type: ignore[arg-type]
    return aggregate(fl.PlainAggregator(timeout=7.0), given, transport=carrier)


def test_bytes_are_those_of_the_encoded_messages():
    header = len("\x01\x01\x00\x01") + len("\x06update") + len("\x01") + len("\x06values")
    array = len("a\x05\x01") + len("\xac\x02") + 4 * 300
    outcome = plain(updates(3, size=300))
    assert outcome.transcript.bytes() == 3 * (header + array)
    assert outcome.transcript.bytes(sender=1, receiver=SERVER) == header + array
    assert outcome.transcript.bytes(sender=SERVER) == 0


@pytest.mark.parametrize(("when", "lost"), [("before", True), ("after", False)])
def test_client_that_vanishes_is_left_out_by_name_once_time_is_up(when, lost):
    outcome = plain(updates(3), drop_outs=[DropOut(1, "update", when)])
    assert outcome.vanished == (1,)
    assert outcome.included == ((0, 2) if lost else (0, 1, 2))
    assert outcome.refusals == ((Refusal(1, "no update within 7 s"),) if lost else ())
    assert outcome.seconds == (7.0 if lost else 0.0)


def test_clock_follows_delay_and_bandwidth():
    slow = Link(delay=2.0, bandwidth=10.0)
    network = Network(server=Link(delay=0.5), links={(1, SERVER): slow})
    outcome = plain(updates(2), network=network)
    by_client = {entry.message.sender: entry for entry in outcome.transcript}
    assert by_client[0].arrived == 0.5
    assert by_client[1].arrived == 2.0 + by_client[1].size / 10.0 == outcome.seconds


class Script(Machine):
    """A party that says what it is told to, and notes what it hears and when."""

    def __init__(self, party: int, *outputs: Output, end: str = "") -> None:
        super().__init__(ONE, party)
        self.outputs, self.end = outputs, end
        self.heard: list[tuple[str, float]] = []

    def start(self, now: float) -> Iterable[Output]:
        return self.outputs

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return self.note(message.kind, now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        return self.note(timer, now)

    def note(self, event: str, now: float) -> Iterable[Output]:
        self.heard.append((event, now))
        if event == self.end:
            yield Aggregate(np.zeros(1), (0,))


def says(kind: str, sender: int = 0, receiver: int = SERVER, size: int = 0) -> Message:
    body: dict[str, Value] = {"x": b"\x00" * size}
    return Message(round=1, sender=sender, receiver=receiver, kind=kind, body=body)


def run(server: Script, *clients: Script, **transport: object) -> Outcome:
    machines = {machine.party: machine for machine in (server, *clients)}
    return InProcessTransport(**transport).run(machines)  # type: ignore[arg-type]


def test_messages_of_one_link_wait_for_each_other_and_keep_their_order():
    server = Script(SERVER, end="second")
    network = Network(server=Link(delay=1.0, bandwidth=100.0))
    client = Script(0, says("first", size=1000), says("second"))
    first, second = list(run(server, client, network=network).transcript)
    assert first.arrived == 1.0 + first.size / 100
    assert second.arrived == pytest.approx(1.0 + (first.size + second.size) / 100, rel=1e-12)
    assert [kind for kind, _ in server.heard] == ["first", "second"]


def test_timer_of_the_same_name_replaces_and_none_takes_back():
    timers = [
        Timer("a", 1.0),
        Timer("b", 2.0),
        Timer("a", 3.0),
        Timer("b", None),
    ]
    server = Script(SERVER, *timers, Timer("end", 9.0), end="end")
    assert run(server, Script(0)).seconds == 9.0
    assert server.heard == [("a", 3.0), ("end", 9.0)]


def test_after_the_result_messages_arrive_and_timers_do_not_expire():
    outputs = [Timer("result", 1.0), Timer("late", 60.0)]
    server = Script(SERVER, *outputs, end="result")
    client = Script(0, says("slow", receiver=1), Timer("never", 5.0))
    other = Script(1)
    outcome = run(server, client, other, network=Network(peers=Link(delay=3.0)))
    assert outcome.seconds == 1.0
    assert other.heard == [("slow", 3.0)]
    assert client.heard == []


@pytest.mark.parametrize(
    ("when", "arrive"), [("before", ["one"]), ("after", ["one", "share", "share"])]
)
def test_vanishing_ends_at_the_stated_kind(when, arrive):
    client = Script(0, says("one"), says("share"), says("share"), says("last"), Timer("t", 2.0))
    server = Script(
        SERVER,
        says("answer", SERVER, 0),
        Timer("end", 4.0),
        end="end",
    )
    network = Network(server=Link(delay=1.0))
    outcome = run(server, client, network=network, drop_outs=[DropOut(0, "share", when)])
    assert [kind for kind, _ in server.heard] == [*arrive, "end"]
    assert outcome.vanished == (0,)
    assert client.heard == []
    (answer,) = [entry for entry in outcome.transcript if entry.message.kind == "answer"]
    assert answer.arrived is None
    assert outcome.transcript.received(0, "answer") == []


def test_client_that_refuses_itself_takes_no_further_part():
    client = Script(0, Refusal(0, "the list of clients is wrong"), says("more"))
    server = Script(SERVER, Timer("end", 1.0), end="end")
    outcome = run(server, client)
    assert outcome.refusals == (Refusal(0, "the list of clients is wrong"),)
    assert [kind for kind, _ in server.heard] == ["withdraw", "end"]


def test_round_in_which_all_wait_fails_instead_of_hanging():
    with pytest.raises(RoundError, match=r"no message or timer is left; client 0 van"):
        run(
            Script(SERVER),
            Script(0, says("x")),
            drop_outs=[DropOut(0, "x")],
        )


def test_message_of_or_to_nobody_and_a_used_transport_are_errors():
    with refused("sender", "value", value=1):
        run(Script(SERVER), Script(0, says("x", sender=1)))
    with refused("receiver", "choice", value=5):
        run(Script(SERVER), Script(0, says("x", receiver=5)))
    transport = InProcessTransport()
    machines = {SERVER: Script(SERVER, Timer("end", 0.0), end="end")}
    transport.run(machines)
    with refused("transport", "value", "a used one"):
        transport.run(machines)


def test_update_that_a_client_would_not_send_is_an_error():
    for value in (np.nan, np.inf, 1e39):
        with pytest.raises(UpdateError):
            aggregate(fl.PlainAggregator(), {0: np.array([value])})
    with pytest.raises(UpdateError, match=r"client 0: .* shape \(1,\), not \(2,\)"):
        aggregate(fl.PlainAggregator(), {0: np.zeros(1), 1: np.zeros(2), 2: np.zeros(2)})


@pytest.mark.parametrize("weights", [{}, {-1: 1}, {0: 0}])
def test_round_of_wrong_clients_is_refused(weights):
    with pytest.raises(ArgumentError):
        Round(number=1, size=1, weights=weights)


# --- what is kept of messages ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "aggregator", [fl.PlainAggregator, fl.MaskedAggregator, fl.ChainAggregator]
)
def test_bytes_and_mean_are_those_of_a_round_of_which_all_is_kept(aggregator):
    """Chains are of random order: their mean and their bytes are the same."""
    given, outcomes = updates(4), {}
    for keep in ("none", "sizes", "all"):
        carrier = InProcessTransport(transcript=keep)
        outcomes[keep] = aggregate(aggregator(), given, transport=carrier)
    whole = outcomes["all"]
    for keep, outcome in outcomes.items():
        np.testing.assert_array_equal(outcome.aggregate.mean, whole.aggregate.mean)
        assert outcome.transcript.keep == keep
        assert outcome.transcript.bytes() == whole.transcript.bytes() > 0
        assert outcome.transcript.bytes(receiver=SERVER) == whole.transcript.bytes(receiver=SERVER)


def test_transcript_of_sizes_holds_no_value_and_one_of_none_no_message():
    given = updates(3)
    sizes, none, whole = (
        plain(given, transcript=keep, drop_outs=[DropOut(1, "update")])
        for keep in ("sizes", "none", "all")
    )
    kept = [(e.message.sender, e.message.kind, e.size, e.sent, e.arrived) for e in sizes.transcript]
    assert kept == [
        (e.message.sender, e.message.kind, e.size, e.sent, e.arrived) for e in whole.transcript
    ]
    assert all(entry.message.body == {} for entry in sizes.transcript)
    assert none.transcript.messages == []
    assert sizes.transcript.receivers("update") == {SERVER}


def test_what_was_not_kept_is_refused_by_name():
    given, everybody = updates(3), fl.Coalition(server=True)
    sizes, none = (plain(given, transcript=keep) for keep in ("sizes", "none"))
    for outcome in (sizes, none):
        keep = outcome.transcript.keep
        with refused("transcript", "choice", keep):
            outcome.transcript.view(everybody)
        with refused("transcript", "choice", keep):
            fl.PlainAggregator().leaks_to(everybody, outcome)
    with refused("transcript", "choice", "none"):
        list(none.transcript)
    with refused("transcript", "choice", value="some"):
        InProcessTransport(transcript="some")  # type: ignore[arg-type]


def test_update_of_few_values_is_sent_with_their_places_and_read_as_it_is():
    size = 10_000
    few = {k: np.zeros(size) for k in range(3)}
    for client, update in few.items():
        update[[client, 77, 9_999]] = (1.5, -2.0, 0.25)
    outcome = aggregate(fl.PlainAggregator(), few)
    np.testing.assert_array_equal(outcome.aggregate.mean, np.mean(list(few.values()), axis=0))
    assert outcome.transcript.bytes(sender=0) == 34 + 8 * 3
    view = outcome.transcript.view(fl.Coalition(server=True))
    (read,) = fl.leakage.vectors_sent(view, 1, size)
    np.testing.assert_array_equal(read, few[1])


@pytest.mark.parametrize(
    ("places", "rule"),
    [
        (np.array([5, 4], dtype=np.uint32), "places that do not ascend below 10"),
        (np.array([4, 4], dtype=np.uint32), "places that do not ascend below 10"),
        (np.array([4, 10], dtype=np.uint32), "places that do not ascend below 10"),
        (np.array([4, 5]), "must hold an array 'places' of uint32"),
        (np.array([4], dtype=np.uint32), "must hold an array 'values'"),
    ],
)
def test_places_that_are_none_cost_their_sender_the_place(places, rule):
    round = Round(number=1, size=10, weights={0: 1, 1: 1})
    server = fl.PlainAggregator().server(round)
    body = {"values": np.ones(2, dtype=np.float32), "places": places}
    message = Message(round=1, sender=0, receiver=SERVER, kind="update", body=body)
    (refusal,) = server.receive(message, 0.0)
    assert (refusal.client, rule in refusal.reason) == (0, True)
