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
from functools import partial
from typing import Any

import numpy as np
import pytest

from crypten_ext.dealer import messages, serve, server
from crypten_ext.dealer.connection import LARGEST, DealerListener, connect, listener, party
from crypten_ext.dealer.recipes import MOST_WORDS, recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.server import BACKLOG
from crypten_ext.local_dealer import ADDRESS, local_end_at, serving_locally
from crypten_ext.processes.launch import Parties
from extensions import __version__
from extensions.errors import ArgumentError, DealerLostError, PartyLostError
from extensions.transport import Local, acceptor, connect_to, handshake_messages
from extensions.transport import listener as transport_door
from extensions.transport.endpoint import HEADER
from extensions.transport.handshake_messages import NO_RUN, MalformedError, Preamble
from extensions.transport.reconnecting import Reconnector
from tests.helpers.claims import claim
from tests.helpers.commands import PROGRAM
from tests.helpers.crowds import MANY
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tests.helpers.strangers import malformed
from tests.helpers.talk import Talk

PARTIES = 2


class OpenDoor:
    """A dealer in a thread, and all that connects to it."""

    def __init__(self, parties: int = PARTIES) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.target = listener.getsockname()
        self.address = "{}:{}".format(*self.target)
        self.parties = parties
        self.heard: list[int] = []
        self._connections = ExitStack()
        self._pool = ThreadPoolExecutor(2 * parties + 1)
        self.dealt = self._pool.submit(serve, listener, parties, view=self._view)
        wait_until(lambda: self.local(0), "the parties' keys")

    def _view(self, rank: int, message: bytes) -> None:
        self.heard.append(rank)

    def local(self, rank: int) -> Local | None:
        """A party's end, once its key is there."""
        with suppress(ConnectionRefusedError):
            return local_end_at(self.address, rank, self.parties)
        return None

    def preamble(self, rank: int) -> bytes:
        """What a party says in the clear."""
        local = self.local(rank)
        assert local is not None
        dealer = local.federation.members[-1]
        return Preamble.of(local.federation, local.identity.certificate, dealer.fingerprint).pack()

    def stranger(self, said: bytes = b"") -> socket.socket:
        """A connection that has said this and reads nothing."""
        connection = self._connections.enter_context(socket.create_connection(self.target))
        with suppress(ConnectionError):  # who says too much is cut off
            connection.sendall(said)
        return connection

    def seated(self, rank: int, run: bytes = NO_RUN) -> party.DealerConnection:
        """A party that has its seat, and does nothing."""
        local = self.local(rank)
        assert local is not None
        seat, _ = party._take(local, run, PATIENCE)
        return seat

    def missing(self, seat: party.DealerConnection) -> list[int]:
        """For whom the dealer says next that it waits."""
        return party._missing(seat, None)

    def connect(self, rank: int, run: bytes = NO_RUN, **limits: Any) -> Talk:
        """A party that comes now; it waits for the others."""
        find = partial(local_end_at, self.address, rank, self.parties)
        seat = connect(find, run, **{"patience": PATIENCE} | limits)
        talk = Talk(seat, 0.5)
        self._connections.callback(talk.close)
        return talk

    def party(self, rank: int, **limits: Any) -> "Future[Talk]":
        """The same, in a thread."""
        return self._pool.submit(partial(self.connect, rank, **limits))

    def meet(self, **limits: float) -> list[Talk]:
        """The correspondences of all parties, which come now."""
        coming = [self.party(rank, **limits) for rank in range(self.parties)]
        return [one.result(PATIENCE) for one in coming]

    def close(self) -> None:
        """The dealer ends, because parties are lost."""
        self._connections.close()
        while not self.dealt.done():
            with suppress(DealerLostError, PartyLostError):
                for talk in self.meet(patience=0.1, gathering=1.0):
                    talk.send(messages.BYE)
            self._connections.close()
        self._pool.shutdown()
        self._connections.close()  # of a party that came when another one had failed


@pytest.fixture(autouse=True)
def _soon_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party whose connection broke is not waited for as long as usual."""
    monkeypatch.setattr(listener, "Reconnector", partial(Reconnector, seconds=0.5))


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


def half_a_preamble(dealer: OpenDoor) -> None:
    dealer.stranger(dealer.preamble(0)[:-1])


def preamble_then_reset(dealer: OpenDoor) -> None:
    for _ in range(20):
        reset(dealer.stranger(dealer.preamble(0)))


def no_key(dealer: OpenDoor) -> socket.socket:
    """It has a party's certificate, and no TLS of its own."""
    connection = dealer.stranger(dealer.preamble(0) + bytes(2) + bytes(400))
    while connection.recv(4096):
        pass
    return connection


def wait_for_answer(dealer: OpenDoor) -> socket.socket:
    """All seats are asked for in the clear, and nobody proves anything."""
    for rank in range(PARTIES):
        connection = dealer.stranger(dealer.preamble(rank))
        assert connection.recv(1)
    return connection


@claim(
    "Before all parties are seated, strangers are unable to end the dealer or to keep a party out."
)
@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(said(b""), id="idle"),
        pytest.param(said(b"GET / HTTP/1.1\r\nHost: dealer\r\n\r\n" * 9), id="another protocol"),
        pytest.param(said(bytes(1 << 20)), id="much"),
        half_a_preamble,
        preamble_then_reset,
        no_key,
        wait_for_answer,
    ],
)
def test_a_stranger_neither_ends_the_dealer_nor_keeps_a_party_out(dealer, stranger):
    stranger(dealer)
    for talk in dealer.meet():
        talk.send(messages.BYE)
    assert dealer.dealt.result(PATIENCE).tuples == 0
    assert sorted(dealer.heard) == [0, 1]


def test_a_seat_that_was_left_is_free_again(dealer):
    found: list[party.DealerConnection] = []
    for _ in range(3):
        wait_until(lambda: found.extend(can_be_taken(dealer, 1)) or found, "the end of the seat")
        reset(found.pop().connection)
    assert len(dealer.meet()) == PARTIES


def can_be_taken(dealer: OpenDoor, rank: int) -> list[party.DealerConnection]:
    """The seat, if it is free."""
    with suppress(party.BusyError):
        return [dealer.seated(rank)]
    return []


def test_who_speaks_before_all_have_come_loses_the_seat(dealer):
    seat = dealer.seated(0)
    seat.connection.send(messages.BYE)
    with suppress(ConnectionError):
        while dealer.missing(seat):
            pass
        pytest.fail("it has its seat")
    seat.connection.close()
    assert len(dealer.meet()) == PARTIES


def test_a_party_waits_until_the_holder_of_its_seat_leaves(dealer):
    seat = dealer.seated(0)
    expected = "not now: expected no second host for process-0, whose connection is open"
    with pytest.raises(DealerLostError, match=f"is not at hand: .*{expected}"):
        dealer.connect(0, patience=0.0)
    coming = dealer.party(0)
    seat.connection.close()
    dealer.party(1)
    assert coming.result(PATIENCE)


def test_of_two_that_prove_to_be_one_party_the_first_has_its_seat(tmp_path, monkeypatch):
    """Both have proved it before either is given the seat."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener, serving_locally(listener, 2) as local:
        address = "{}:{}".format(*listener.getsockname())
        one, opened = local_end_at(address, 0, 2), DealerListener(local, listener)

        def come() -> socket.socket:
            dealer = one.federation.dealer
            assert dealer is not None
            return connect_to(one, dealer, party.DEALING, seconds=PATIENCE).connection

        with ThreadPoolExecutor(1) as pool:
            ends = []
            for _ in range(2):
                coming = pool.submit(come)
                guest = opened.receive(listener.accept()[0])
                ends.append((guest, coming.result(PATIENCE)))
        (first, held), (last, shut) = ends
        opened.settle(first)
        opened.settle(last)
        for end in (held, shut):
            end.settimeout(PATIENCE)
        assert len(held.recv(32)) == 32
        with suppress(ConnectionError):
            assert shut.recv(32) == b""
        opened.clear()
        for end in (held, shut):
            end.close()


def test_a_seat_is_not_counted_whose_holder_left_as_the_last_party_came():
    for _ in range(8):
        with closing(OpenDoor()) as dealer:
            dealer.seated(0).connection.close()
            seat, missing = party._take(dealer.local(1), NO_RUN, PATIENCE)
            assert missing == [0]
            seat.connection.close()


def test_a_party_that_never_comes_is_named(dealer):
    with pytest.raises(PartyLostError, match=r"^party 1 had not come to the dealer after 0\.2 s$"):
        dealer.party(0, gathering=0.2).result(PATIENCE)


def test_who_waits_for_a_party_hears_that_the_dealer_is_there(dealer, monkeypatch):
    monkeypatch.setattr(listener, "_SAYING", 0.1)
    with pytest.raises(PartyLostError, match=r"^party 1 had not come to the dealer after 2 s$"):
        dealer.party(0, gathering=2.0, silence=1.0).result(PATIENCE)


def test_a_dealer_that_stops_between_two_seats_is_named_and_not_the_party_that_it_lacks():
    """Its door has given a seat, and the thread that would tell who is missing does nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    find = partial(local_end_at, "{}:{}".format(*listener.getsockname()), 0, PARTIES)
    with (
        serving_locally(listener, PARTIES) as local,
        DealerListener(local, listener),
        pytest.raises(DealerLostError, match=r"dealer said nothing for 0\.5 s\.$"),
    ):
        connect(find, NO_RUN, patience=PATIENCE, gathering=PATIENCE / 10, silence=0.5)


def test_another_number_of_parties_is_refused_at_once(dealer):
    with pytest.raises(DealerLostError, match="It deals for 2 parties, not for 3"):
        connect(partial(local_end_at, dealer.address, 2, 3), NO_RUN, patience=PATIENCE)


def test_where_this_user_has_no_dealer_nobody_deals(dealer, tmp_path, monkeypatch):
    """Another user's dealer listens there."""
    expected = f"nobody deals at {dealer.address}. Start it as"
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path))
        with pytest.raises(DealerLostError, match=expected):
            dealer.connect(0, patience=0.0)


def test_files_of_a_dealer_that_was_killed_lead_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        find = partial(local_end_at, "{}:{}".format(*listener.getsockname()), 0, 2)
        with serving_locally(listener, 2):
            folder = next((tmp_path / "pea" / "dealers").iterdir())
            kept = {path.name: path.read_bytes() for path in folder.iterdir()}
            assert find().federation.dealer is not None
            assert folder.stat().st_mode & 0o077 == 0
        assert [*folder.iterdir()] == []
        for name, content in kept.items():
            (folder / name).write_bytes(content)
        with pytest.raises(ConnectionRefusedError):
            find()
        with serving_locally(listener, 2):
            assert find().identity.path.read_bytes() != kept["0.pem"]


@pytest.mark.parametrize("address", ["0.0.0.0:9400", "here:9400", "192.0.2.1:9400", "[::]:9400"])
def test_between_hosts_the_dealer_is_a_member_of_the_federation(address):
    with refused("dealer", "value", value=address):
        local_end_at(address, 0, 2)


def test_of_two_runs_one_has_the_dealer(dealer):
    seat = dealer.seated(0)
    mine = bytes(range(32))
    expected = f"not now: expected the run {NO_RUN.hex()}, came {mine.hex()}"
    with pytest.raises(DealerLostError, match=f"is not at hand: .*{expected}"):
        dealer.connect(1, mine, patience=0.0)
    seat.connection.close()
    coming = [dealer.party(rank, run=mine) for rank in range(PARTIES)]
    assert all(one.result(PATIENCE) for one in coming)


def test_other_software_is_refused_with_both_versions(dealer, monkeypatch):
    preamble = Preamble.of
    other = "9.9"

    def of(*arguments: Any) -> Preamble:
        found = preamble(*arguments)
        return found if len(arguments) < 3 else Preamble(other, *[*vars(found).values()][1:])

    expected = f"expected pea-mpl {other}, came {__version__}"
    with monkeypatch.context() as patch:
        patch.setattr(Preamble, "of", of)
        with pytest.raises(DealerLostError, match=expected):
            dealer.connect(0)


def test_the_oldest_leaves_where_there_are_too_many(dealer, monkeypatch):
    monkeypatch.setattr(acceptor, "VISITORS", 4)
    with ExitStack() as stack:
        crowd = [stack.enter_context(dealer.stranger()) for _ in range(40)]
        for gone in crowd[:36]:
            assert gone.recv(1) == b""
        crowd[-1].sendall(dealer.preamble(0))
        assert crowd[-1].recv(8) == handshake_messages.MAGIC


def test_a_visitor_may_not_stay(dealer, monkeypatch):
    monkeypatch.setattr(transport_door, "ATTEMPT", 0.05)
    with dealer.stranger(dealer.preamble(0)[:-1]) as slow:
        assert slow.recv(1) == b""


def test_the_seated_are_told_nothing_but_ranks(dealer):
    near, far = socket.socketpair()
    seat = party.DealerConnection(dealer.local(0), NO_RUN, far, b"")
    with near, far:
        for message, missing in ((party.missing_message({1}), [1]), (bytes(8), [])):
            near.sendall(message)
            assert party._missing(seat, None) == missing
        for wrong in (party.missing_message({2}), b"\xff" * 8):
            near.sendall(wrong)
            with pytest.raises(MalformedError, match="out of turn"):
                party._missing(seat, None)


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
    for _ in range(plans):
        first.send(plan)
    wait_until(lambda: len(dealer.heard) == plans, "all plans")
    kept = sum(isinstance(each, Request) for each in gc.get_objects())
    assert kept < 3 * tuples, "at most the one that is dealt and the one that is heard"


def test_a_party_that_is_too_far_ahead_is_named(dealer, monkeypatch):
    monkeypatch.setattr(server, "_LEAD", 3)
    first, last = dealer.meet()
    for link in (first, last) * 3:
        link.send(messages.STEP)
    wait_until(lambda: len(dealer.heard) == 6, "what both have said")
    for _ in range(4):
        first.send(messages.STEP)
    with pytest.raises(
        PartyLostError, match="^party 0 sent the dealer 3 messages that party 1 has"
    ):
        dealer.dealt.result(PATIENCE)


def test_a_party_that_sends_more_than_the_dealer_gets_to_is_named(dealer):
    """It is busy while its answers are not read."""
    first, _ = dealer.meet()
    first.send(but(requests=[["square", [[1 << 22]]]]))
    long = messages.STEP + b" " * (1 << 20)
    with suppress(PartyLostError):  # the dealer may have ended
        for _ in range(2 * LARGEST // len(long) + 2):
            first.send(long)
    with pytest.raises(PartyLostError, match="^party 0 sent the dealer more than it can be owed a"):
        dealer.dealt.result(PATIENCE)


def test_an_announced_gigabyte_is_refused(dealer):
    _, last = dealer.meet()
    last.send_raw(HEADER.pack(LARGEST + 1, 0, 0, 0))
    with pytest.raises(PartyLostError, match="^party 1 sent 33554433 bytes, more than 33554432"):
        dealer.dealt.result(PATIENCE)


def test_an_empty_message_is_none(dealer):
    _, last = dealer.meet()
    last.send(b"")
    with pytest.raises(PartyLostError, match="^party 1 sent the dealer an empty message"):
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


def fuzz(
    address: tuple[str, int], said: list[bytes], seed: int, counts: list[int], over: threading.Event
) -> None:
    """Connections one after the other, from many addresses, until told that it is over."""
    rng, draws = random.Random(seed), np.random.default_rng(seed)
    while not over.is_set():
        with socket.socket() as connection, suppress(OSError):
            connection.settimeout(1.0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.bind((f"127.0.{seed}.{1 + rng.randrange(250)}", 0))
            connection.connect(address)
            counts[seed] += 1
            connection.sendall(malformed(rng.choice(said), draws))
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
        dealer = OpenDoor.__new__(OpenDoor)
        dealer.target, dealer.parties, dealer.address = address, 3, "{}:{}".format(*address)
        wait_until(lambda: dealer.local(0), "the parties' keys")
        said = [dealer.preamble(rank) for rank in range(3)]
        for _ in range(SLOW):
            crowd.enter_context(socket.create_connection(address)).sendall(said[0][:20])
        senders = [
            threading.Thread(target=fuzz, args=(address, said, seed, counts, over))
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
