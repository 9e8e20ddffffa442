"""Strangers at the dealer's door: none ends it, keeps a party out or holds a seat that it left.

Nor does a party take more of its memory than it is promised.
"""

import gc
import json
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from crypten_ext.dealer import ADDRESS, BACKLOG, messages, serve, server
from crypten_ext.dealer.connection import (
    LARGEST_REQUEST,
    BrokenFrameError,
    Link,
    connect,
    door,
    handshake,
)
from crypten_ext.dealer.connection.frames import frame_bytes
from crypten_ext.dealer.connection.handshake import (
    ANSWER_BYTES,
    MAGIC,
    NO_RUN,
    PROOF,
    Guest,
    RefusedError,
    Visit,
    awaited,
    awaiting,
)
from crypten_ext.dealer.recipes import MOST_WORDS, recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.processes.launch import Parties
from extensions import __version__
from extensions.errors import ArgumentError, DealerLostError, PartyLostError
from extensions.transport import lobby
from tests.helpers.commands import PROGRAM
from tests.helpers.patience import MANY, PATIENCE, wait_until
from tests.helpers.refused import refused

PARTIES = 2
HELLO_BYTES = len(Guest(0, PARTIES).hello())
LOW_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


def hello(rank: int = 0, parties: int = PARTIES, public: bytes | None = None) -> bytes:
    said = Guest(rank, parties).hello()
    return said if public is None else said[: -len(public)] + public


def answer_to(connection: socket.socket) -> bytes:
    """What the dealer answers to a hello."""
    with connection.makefile("rb", buffering=0) as file:
        answer = b""
        while len(answer) < ANSWER_BYTES and (data := file.read(ANSWER_BYTES - len(answer))):
            answer += data
    return answer


class OpenDoor:
    """A dealer in a thread, and all that connects to it."""

    def __init__(self, parties: int = PARTIES) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self._target = listener.getsockname()
        self.address = "{}:{}".format(*self._target)
        self.parties = parties
        self.heard: list[int] = []
        self._connections = ExitStack()
        self._pool = ThreadPoolExecutor(2 * parties + 1)
        self.dealt = self._pool.submit(serve, listener, parties, view=self._view)

    def _view(self, rank: int, message: bytes) -> None:
        self.heard.append(rank)

    def stranger(self, said: bytes = b"") -> socket.socket:
        """A connection that has said this and reads nothing."""
        connection = self._connections.enter_context(socket.create_connection(self._target))
        with suppress(ConnectionError):  # who says too much is cut off
            connection.sendall(said)
        return connection

    def seated(self, rank: int) -> Link:
        """A stranger who went through with it."""
        guest, connection = Guest(rank, self.parties), self.stranger()
        connection.sendall(guest.hello())
        link = Link(connection, guest.seat(answer_to(connection)).frames)
        link.send(PROOF)
        return link

    def party(self, rank: int, **limits: Any) -> "Future[Link]":
        """A party that comes now."""
        return self._pool.submit(self._connect, rank, {"patience": PATIENCE} | limits)

    def _connect(self, rank: int, limits: dict[str, Any]) -> Link:
        link, _ = connect(self.address, rank, self.parties, **limits)
        self._connections.callback(link.close)
        return link

    def meet(self, **limits: float) -> list[Link]:
        """The links of all parties, which come now."""
        coming = [self.party(rank, **limits) for rank in range(self.parties)]
        return [one.result(PATIENCE) for one in coming]

    def close(self) -> None:
        """The dealer ends, because parties are lost."""
        self._connections.close()
        while not self.dealt.done():
            with suppress(DealerLostError, PartyLostError):
                self.meet(patience=0.1, gathering=1.0)
            self._connections.close()
        self._pool.shutdown()
        self._connections.close()  # of a party that came when another one had failed


@pytest.fixture
def dealer() -> Iterator[OpenDoor]:
    dealer = OpenDoor()
    yield dealer
    dealer.close()


# --- before the parties have gathered -----------------------------------------------------------


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def said(message: bytes) -> Callable[[OpenDoor], object]:
    return lambda dealer: dealer.stranger(message)


def hello_then_reset(dealer: OpenDoor) -> None:
    for _ in range(20):
        reset(dealer.stranger(hello()))


def false_proof(dealer: OpenDoor) -> socket.socket:
    connection = dealer.stranger(hello())
    answer_to(connection)
    connection.sendall(bytes(frame_bytes(PROOF)))
    assert connection.recv(1) == b""
    return connection


def wait_for_answer(dealer: OpenDoor) -> socket.socket:
    """All seats have a welcome, and nobody proves anything."""
    for rank in range(PARTIES):
        connection = dealer.stranger(hello(rank))
        answer_to(connection)
    return connection


@pytest.mark.parametrize(
    "stranger",
    [
        *(pytest.param(said(hello(public=point)), id="low order") for point in LOW_ORDER),
        pytest.param(said(b""), id="idle"),
        pytest.param(said(hello()[:-1]), id="slow"),
        pytest.param(said(b"GET / HTTP/1.1\r\nHost: dealer\r\n\r\n" * 9), id="another protocol"),
        pytest.param(said(hello(1, 1)), id="no rank"),
        pytest.param(said(hello(0, 3)), id="another number of parties"),
        pytest.param(said(bytes(1 << 20)), id="much"),
        hello_then_reset,
        false_proof,
        wait_for_answer,
    ],
)
def test_a_stranger_neither_ends_the_dealer_nor_keeps_a_party_out(dealer, stranger):
    stranger(dealer)
    links = dealer.meet()
    for link in links:
        link.send(messages.BYE)
    assert dealer.dealt.result(PATIENCE).tuples == 0
    assert sorted(dealer.heard) == [0, 0, 1, 1]


def test_a_seat_that_was_left_is_free_again(dealer):
    for _ in range(3):
        link = dealer.seated(1)
        assert awaited(link.receive(), PARTIES) == [0]
        reset(link.stream._connection)
        wait_until(lambda: can_be_taken(dealer, 1), "the end of the seat")
    assert len(dealer.meet()) == PARTIES


def can_be_taken(dealer: OpenDoor, rank: int) -> bool:
    with dealer.stranger(hello(rank)) as connection, suppress(BrokenFrameError):
        Guest(rank, PARTIES).seat(answer_to(connection))
        return True
    return False


def test_who_speaks_before_all_have_come_loses_the_seat(dealer):
    link = dealer.seated(0)
    assert awaited(link.receive(), PARTIES) == [1]
    link.send(messages.BYE)
    with suppress(ConnectionError):
        assert link.receive() == b""
    assert len(dealer.meet()) == PARTIES


def test_a_party_waits_until_the_holder_of_its_seat_leaves(dealer):
    link = dealer.seated(0)
    assert awaited(link.receive(), PARTIES) == [1]
    with pytest.raises(DealerLostError, match="party 0 of 2: another connection has that seat"):
        connect(dealer.address, 0, PARTIES, patience=0.0)
    coming = dealer.party(0)
    link.close()
    dealer.party(1)
    assert coming.result(PATIENCE)


def test_a_seat_is_not_counted_whose_holder_left_as_the_last_party_came():
    for _ in range(8):
        with closing(OpenDoor()) as dealer:
            dealer.seated(0).close()
            assert awaited(dealer.seated(1).receive(PATIENCE), PARTIES) == [0]


def test_a_party_that_never_comes_is_named(dealer):
    with pytest.raises(PartyLostError, match=r"^party 1 had not come to the dealer after 0\.2 s$"):
        dealer.party(0, gathering=0.2).result(PATIENCE)


def test_who_waits_for_a_party_hears_that_the_dealer_is_there(dealer, monkeypatch):
    monkeypatch.setattr(door, "_SAYING", 0.1)
    with pytest.raises(PartyLostError, match=r"^party 1 had not come to the dealer after 2 s$"):
        dealer.party(0, gathering=2.0, silence=1.0).result(PATIENCE)


def test_a_dealer_that_stops_between_two_seats_is_named_and_not_the_party_that_it_lacks():
    """Its door has given a seat, and the thread that would tell who is missing does nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    address = "{}:{}".format(*listener.getsockname())
    with (
        door.Door(listener, PARTIES, lambda rank, public: None),
        pytest.raises(DealerLostError, match=r"dealer said nothing for 0\.5 s\.$"),
    ):
        connect(address, 0, PARTIES, patience=PATIENCE, gathering=PATIENCE / 10, silence=0.5)


def test_another_run_is_refused_at_once(dealer):
    with pytest.raises(
        DealerLostError,
        match=f"^the dealer at {dealer.address}: refused party 2 "
        "of 3: it deals for another number of parties",
    ):
        connect(dealer.address, 2, 3, patience=PATIENCE)


def test_of_two_runs_one_has_the_dealer(dealer):
    link = dealer.seated(0)
    assert link.receive(PATIENCE), "who is missing: it has its seat"
    mine = bytes(range(32))
    expected = f"it deals for the run {NO_RUN.hex()}, this party's is {mine.hex()}"
    with pytest.raises(DealerLostError, match=f"refused party 1 of 2: {expected}"):
        connect(dealer.address, 1, PARTIES, patience=0.0, run=mine)
    link.close()
    coming = [dealer.party(rank, run=mine) for rank in range(PARTIES)]
    assert all(one.result(PATIENCE) for one in coming)


def test_other_software_is_refused_with_both_versions(dealer, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(handshake, "__version__", "9.9")
        said = hello()
    connection = dealer.stranger(said)
    answer = answer_to(connection)
    with pytest.raises(RefusedError, match=f"it has pea-mpl {__version__}, this party"):
        Guest(0, PARTIES).seat(answer)


def test_the_oldest_leaves_where_there_are_too_many(dealer, monkeypatch):
    monkeypatch.setattr(lobby, "VISITORS", 4)
    with ExitStack() as stack:
        crowd = [stack.enter_context(dealer.stranger()) for _ in range(40)]
        for gone in crowd[:36]:
            assert gone.recv(1) == b""
        crowd[-1].sendall(hello())
        assert answer_to(crowd[-1]).startswith(MAGIC)


def test_a_visitor_may_not_stay(dealer, monkeypatch):
    monkeypatch.setattr(door, "STAY", 0.05)
    with dealer.stranger(hello()[:-1]) as slow:
        assert slow.recv(1) == b""


# --- the messages of a visit, without a socket --------------------------------------------------


def mutated(said: bytes, rng: random.Random) -> bytes:
    """A message with another byte, cut short, made longer, or of bytes of no meaning."""
    how = rng.randrange(4)
    if how == 0:
        place = rng.randrange(len(said))
        return said[:place] + bytes([said[place] ^ (1 + rng.randrange(255))]) + said[place + 1 :]
    if how == 1:
        return said[: rng.randrange(len(said))]
    return said + rng.randbytes(rng.randrange(9)) if how == 2 else rng.randbytes(len(said))


def listen(visit: Visit, said: bytes) -> bytes:
    """What the door answers to these bytes; it never reads more than is due."""
    answer = b""
    while said and not visit.refused and visit.seat is None:
        assert 0 < visit.due <= max(HELLO_BYTES, frame_bytes(PROOF))
        chunk, said = said[: visit.due], said[visit.due :]
        answer += visit.hear(chunk)
    return answer


def attack(rng: random.Random) -> None:
    rank = rng.randrange(PARTIES)
    visit, guest = Visit(PARTIES, {1 - rank: NO_RUN}), Guest(rank, PARTIES)
    if rng.random() < 0.5:
        listen(visit, mutated(guest.hello(), rng))
    else:
        answer = listen(visit, guest.hello())
        if rng.random() < 0.3:
            with suppress(RefusedError):
                guest.seat(mutated(answer, rng)[:ANSWER_BYTES].ljust(ANSWER_BYTES, b"\0"))
        proof = guest.seat(answer).frames.seal(PROOF)
        sent = mutated(proof, rng)
        listen(visit, sent)
        assert visit.seat is None or sent.startswith(proof)


def test_no_bytes_break_a_visit_or_give_it_a_seat():
    rng = random.Random(20)
    for _ in range(1500):
        with suppress(BrokenFrameError):
            attack(rng)


def test_of_two_visits_to_a_seat_the_first_proof_has_it():
    seats: dict[int, bytes] = {}
    guests, visits = [Guest(0, 2), Guest(0, 2)], [Visit(2, seats), Visit(2, seats)]
    offers = [
        guest.seat(visit.hear(guest.hello())) for guest, visit in zip(guests, visits, strict=True)
    ]
    assert visits[1].hear(offers[1].frames.seal(PROOF)) == b""
    seats[0] = NO_RUN
    with pytest.raises(BrokenFrameError, match="came too late"):
        visits[0].hear(offers[0].frames.seal(PROOF))
    assert (visits[0].seat, visits[1].seat is None) == (None, False)


def test_the_seated_are_told_nothing_but_ranks():
    assert awaited(awaiting({1, 3}), 4) == [1, 3]
    for wrong in (b"", b"waits for\x04", b"waits", bytes(40)):
        with pytest.raises(BrokenFrameError, match="out of turn"):
            awaited(wrong, 4)


# --- after the parties have gathered ------------------------------------------------------------

TUPLE = {"say": "tuple", "generation": 1, "sequence": 0, "requests": [["square", [[4]]]]}
UNUSABLE = "^party 1 sent the dealer an unusable message: "


def but(**changes: Any) -> bytes:
    return json.dumps(TUPLE | changes).encode()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"\xff", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"7" * 5000, "it is not JSON"),
        (b"[]", "it says none of"),
        (b"{}", "it says none of"),
        (but(say=["tuple"]), "it says none of"),
        (but(say="open"), "it says none of"),
        (json.dumps({"say": "tuple"}).encode(), "a 'tuple' has"),
        (but(more=1), "a 'tuple' has"),
        (but(say="bye"), "a 'bye' has"),
        (but(sequence=-1), "generation and sequence must be in"),
        (but(sequence=1 << 64), "generation and sequence must be in"),
        (but(generation=1.5), "generation and sequence must be in"),
        (but(generation=None), "generation and sequence must be in"),
        (but(requests=[]), "a 'tuple' has a list of 1..1 requests"),
        (but(requests=[["bits", [[1]]]] * 2), "a 'tuple' has a list of 1..1 requests"),
        (but(say="plan", requests={}), "a 'plan' has a list of 1..100000 requests"),
        (but(requests=["square"]), "a request is a kind and a list"),
        (but(requests=[[1, []]]), "a request is a kind and a list"),
        (but(requests=[["square", [{"4": 4}]]]), "parameter must be .*, not dict"),
        (but(requests=[["square", [[4.5]]]]), "parameter must be .*, not float"),
        (but(requests=[["bits", [[1] * 5000]]]), "a request has at most 8192 characters, not 150"),
    ],
)
def test_an_unusable_message_ends_the_run_and_names_its_party(dealer, message, reason):
    _, last = dealer.meet()
    last.send(message)
    with pytest.raises(PartyLostError, match=UNUSABLE + reason) as lost:
        dealer.dealt.result(PATIENCE)
    assert lost.value.rank == 1
    assert len(str(lost.value)) < 400
    tag, payload = messages.unpack(last.receive())
    assert str(messages.party_lost(tag, payload)) == str(lost.value)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("secrets" * 1000, []),
        ("square", []),
        ("square", [[1], [2]]),
        ("square", [[-1]]),
        ("square", ["4"]),
        ("square", [[1 << 40]]),
        ("square", [[1 << 200, 1 << 200]]),
        ("square", [7]),
        ("additive", ["save", [1], [1], [], []]),
        ("additive", ["matmul", [2, 3], [4, 5], [], []]),
        ("additive", ["conv2d", [1, 1, 2, 2], [1, 1, 9, 9], [], []]),
        ("additive", ["mul", [2], [2], [], [["no such option", 1]]]),
        ("binary", [[2], [3]]),
        ("truncation pairs", [[[1]], []]),
        ("bit words", [[2], [[70]]]),
        ("word masks", [[2], 1, 1]),
    ],
)
def test_what_cannot_be_dealt_ends_the_run_and_names_its_party(dealer, kind, parameters):
    _, last = dealer.meet()
    last.send(but(requests=[[kind, parameters]]))
    with pytest.raises(PartyLostError, match="^party 1 asked the dealer for what cannot be dealt"):
        dealer.dealt.result(PATIENCE)


def test_all_parties_must_ask_for_the_same(dealer):
    first, last = dealer.meet()
    first.send(but())
    first.receive()
    last.send(but(requests=[["square", [[5]]]]))
    with pytest.raises(PartyLostError, match="^party 1 asked the dealer for other tuples than"):
        dealer.dealt.result(PATIENCE)


def test_only_the_latest_plan_is_kept_of_a_party_that_is_ahead(dealer):
    first, _ = dealer.meet()
    tuples, plans = 1000, 10
    plan = but(say="plan", requests=[["square", [[0]]]] * tuples)
    public = len(dealer.heard)
    for _ in range(plans):
        first.send(plan)
    wait_until(lambda: len(dealer.heard) == public + plans, "all plans")
    kept = sum(isinstance(each, Request) for each in gc.get_objects())
    assert kept < 3 * tuples, "at most the one that is dealt and the one that is heard"


def test_a_party_that_is_too_far_ahead_is_named(dealer, monkeypatch):
    monkeypatch.setattr(server, "_LEAD", 3)
    first, last = dealer.meet()
    public = len(dealer.heard)
    for link in (first, last) * 3:
        link.send(messages.STEP)
    wait_until(lambda: len(dealer.heard) == public + 6, "what both have said")
    for _ in range(4):
        first.send(messages.STEP)
    with pytest.raises(
        PartyLostError, match="^party 0 sent the dealer 3 messages that party 1 has"
    ):
        dealer.dealt.result(PATIENCE)


def test_a_party_that_sends_more_than_the_dealer_gets_to_is_named(dealer):
    """It is busy while its answers are not read."""
    first, last = dealer.meet()
    first.send(but(requests=[["square", [[1 << 22]]]]))
    long = messages.STEP + b" " * (1 << 20)
    for _ in range(2 * LARGEST_REQUEST // len(long) + 2):
        first.send(long)
    for link in (first, last):
        link.send(messages.BYE)
    with ThreadPoolExecutor(2) as pool:
        pool.map(drain, (first, last))
        with pytest.raises(PartyLostError, match="^party 0 .* sent more than it can be owed answ"):
            dealer.dealt.result(PATIENCE)


def drain(link: Link) -> None:
    with suppress(BrokenFrameError, OSError):
        while link.receive():
            pass


def test_an_announced_gigabyte_is_refused(dealer):
    _, last = dealer.meet()
    last.stream._connection.sendall(struct.pack(">Q", (32 << 20) + 1))
    with pytest.raises(PartyLostError, match="^party 1 broke .* announced a message of 33554433 b"):
        dealer.dealt.result(PATIENCE)


def test_an_empty_message_is_none(dealer):
    _, last = dealer.meet()
    last.send(b"")
    with pytest.raises(PartyLostError, match="^party 1 broke .* sent an empty message"):
        dealer.dealt.result(PATIENCE)


def test_a_message_that_is_never_completed_ends_the_run(dealer, monkeypatch):
    monkeypatch.setattr(door, "_REQUEST_TIME", 0.1)
    first, _ = dealer.meet()
    first.stream._connection.sendall(bytes(1))
    with pytest.raises(PartyLostError, match="^party 0 broke .* did not complete a message in tim"):
        dealer.dealt.result(PATIENCE)


KINDS = (
    *("additive", "square", "binary", "wraps", "bits"),
    *("random words", "random planes", "word masks"),
)


def test_no_request_breaks_a_recipe():
    rng = random.Random(21)
    for _ in range(300):
        shapes = [[rng.randrange(-1, 4) for _ in range(rng.randrange(4))] for _ in range(2)]
        kind = rng.choice(KINDS)
        more = rng.choice([[], [1], [[1]], ["mul"], [[], []], [[["stride", 0]]]])
        with suppress(ArgumentError):
            recipe_of(Request.of(kind, *rng.sample([*shapes, *more], rng.randrange(1, 3))))
    with refused("words", "value", value=2147483648):
        recipe_of(Request.of("square", (MOST_WORDS,)))


# --- a crowd ------------------------------------------------------------------------------------

SLOW, SENDERS = 1000, 8


def fuzz(address: tuple[str, int], seed: int, counts: list[int], over: threading.Event) -> None:
    """Connections one after the other, from many addresses, until told that it is over."""
    rng = random.Random(seed)
    while not over.is_set():
        with socket.socket() as connection, suppress(OSError):
            connection.settimeout(1.0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.bind((f"127.0.{seed}.{1 + rng.randrange(250)}", 0))
            connection.connect(address)
            counts[seed] += 1
            guest = Guest(rng.randrange(3), 3)
            if rng.random() < 0.8:
                connection.sendall(mutated(guest.hello(), rng))
            else:
                connection.sendall(guest.hello())
                answer = answer_to(connection)
                connection.sendall(bytes(8) + guest.seat(answer).frames.seal(PROOF)[8:])
            if rng.random() < 0.1:
                connection.recv(1)


@pytest.mark.parametrize("number", [MANY])
@pytest.mark.skipif(sys.platform != "linux", reason="connects from many loopback addresses")
def test_a_run_starts_and_finishes_in_a_crowd(number):
    """The dealer may have 64 descriptors, of which strangers want a thousand and more."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    command = [sys.executable, "-c", PROGRAM, "dealer", "--parties", "3"]
    command += ["--bind", "{}:{}".format(*address)]
    over, counts = threading.Event(), [0] * SENDERS
    with (
        subprocess.Popen(command, preexec_fn=few, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as crowd,
    ):
        crowd.callback(process.kill)
        wait_until(lambda: answers(address), "the dealer")
        for _ in range(SLOW):
            crowd.enter_context(socket.create_connection(address)).sendall(hello(0, 3)[:20])
        senders = [
            threading.Thread(target=fuzz, args=(address, seed, counts, over))
            for seed in range(SENDERS)
        ]
        crowd.callback(lambda: [sender.join() for sender in senders])
        crowd.callback(over.set)
        for sender in senders:
            sender.start()
        for least in range(0, number, 1000):
            wait_until(lambda least=least: sum(counts) > least, "another thousand connections")
        assert process.poll() is None
        with Parties(3, timeout=PATIENCE, env={ADDRESS: "{}:{}".format(*address)}) as parties:
            task = "tests.helpers.party_tasks.dealer:"
            right = parties.run(task + "own_tuples", provider="DEALER")
            parties.run(task + "say_goodbye")
        assert all(all(kinds.values()) for kinds in right)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert output.startswith("dealt ")
    print(f"{sum(counts)} connections")


def answers(address: tuple[str, int]) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(address):
        return True
    return False
