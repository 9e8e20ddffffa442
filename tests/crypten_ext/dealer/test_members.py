"""The dealer of a federation and its parties: each proves who it is, or neither deals."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import pytest
import torch

from crypten_ext.dealer import begin_run, serve_runs, server
from crypten_ext.dealer import client as dealt
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.connection import DealerConnection, DealerListener, connect
from crypten_ext.dealer.connection.party import AGAIN, DEALING
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.server import Dealt
from crypten_ext.processes.launch import Parties
from crypten_ext.transport import Session
from extensions.errors import DealerLostError, PartyLostError
from extensions.runs.options import Meeting
from extensions.runs.processes.credentials import federation_of
from extensions.transport import Federation, Local, Member, RejectedError, connect_to
from tests.helpers.cable import Cable, cuts_of
from tests.helpers.claims import claim
from tests.helpers.commands import PROGRAM
from tests.helpers.crowds import MANY
from tests.helpers.federations import RUN, at_once, identities, listeners
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tests.helpers.strangers import visited_by

pytestmark = pytest.mark.usefixtures("imported")

OTHER_RUN = b"another run of the same parties!"
SQUARE = Request.of("square", (200,))
LONG = [pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 30)]


class Place:
    """Two parties, their dealer, and where it listens; `dealt` has how its runs ended."""

    def __init__(self, folder: Path) -> None:
        self.own = identities(folder, "p0", "p1", "dealer")
        self.places = listeners(3)
        self.federation = federation_of(self.own, self.places, dealer=True)
        self.federation.write(folder / "federation.toml")
        self.parties = [Local(one, self.federation) for one in self.own[:2]]
        self.dealer = Local(self.own[2], self.federation)
        self.dealt: list[Any] = []

    def serve(self, runs: int) -> threading.Thread:
        """A dealer at its place, in a thread."""

        def work() -> None:
            served = serve_runs(self.places[2], self.dealer)
            for _ in range(runs):
                self.dealt.append(next(served))
            served.close()  # type: ignore[attr-defined]

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def coming(self, run: bytes) -> list[Callable[[], Client]]:
        """How each party comes to the dealer for a run."""

        def come(rank: int) -> Client:
            return Client.connected(lambda: self.parties[rank], run)

        return [lambda: come(0), lambda: come(1)]

    def deal(self, run: bytes) -> list[Any]:
        """The shares of a square that the dealer dealt to each party in a run, and its keys."""

        def use(come: Callable[[], Client]) -> Any:
            client = come()
            found = client.deal(Request.of("square", (4,)))
            client.close()
            return found, client._key

        first, last = self.coming(run)
        return at_once(lambda: use(first), lambda: use(last))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    for one in found.places:
        one.close()


def test_runs_are_dealt_one_after_another_each_with_keys_of_its_own(place):
    thread = place.serve(3)
    keys = set()
    for run in (RUN, OTHER_RUN, RUN):
        (first, one), (last, other) = place.deal(run)
        (a, a2), (b, b2) = first, last
        assert bool(((a + b) ** 2 == a2 + b2).all())
        keys |= {one, other}
    thread.join(PATIENCE)
    assert [ended for ended, _ in place.dealt] == [Dealt(1, 32)] * 3
    assert len(keys) == 6


def test_another_run_waits_and_is_told_at_both_ends_what_is_dealt_for(place):
    thread = place.serve(1)
    come, last = place.coming(RUN)
    late = place.parties[1]
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(come)

        def is_seated() -> bool:
            try:
                visit(late, OTHER_RUN)
            except RejectedError as error:
                return "expected the run" in str(error)  # and not its own seat of before
            return False

        wait_until(is_seated, "the first party's seat")
        with pytest.raises(DealerLostError, match="is not at hand: .*not now: expected the run"):
            connect(lambda: late, OTHER_RUN, patience=0.0)
        clients = [last(), first.result(PATIENCE)]
        at_once(*(client.close for client in clients))
    thread.join(PATIENCE)
    ((ended, refused),) = place.dealt
    assert ended == Dealt(0, 0)
    assert any(OTHER_RUN.hex() in each and "p1 at" in each for each in refused)


def test_a_run_is_that_of_party_0_and_of_the_manifest(place, monkeypatch):
    said: list[bytes] = []

    def connect(find: Callable[[], Local], run: bytes) -> None:
        said.append(run)
        raise DealerLostError("is left alone")

    monkeypatch.setattr(dealt, "connect", connect)
    monkeypatch.setattr(dealt, "_run", bytes(32))
    for run, manifest in ((RUN, bytes(32)), (OTHER_RUN, bytes(32)), (RUN, OTHER_RUN)):
        begin_run(manifest.hex())
        for local in place.parties:
            monkeypatch.setattr(dealt, "session", partial(Session, local, run))
            with pytest.raises(DealerLostError):
                dealt.current()
    assert said[::2] == said[1::2]
    assert len({*said}) == 3


def test_a_run_whose_party_begins_another_one_ends_and_the_dealer_deals_for_that(place):
    thread = place.serve(2)
    clients = at_once(*place.coming(RUN))
    clients[1].source.post.close()  # as its process does when it is killed
    ask(clients[0])
    assert len(place.deal(OTHER_RUN)) == 2
    thread.join(PATIENCE)
    (lost, _), (dealt, _) = place.dealt
    assert str(lost).startswith("party 1 closed its connection: ")
    assert str(lost).endswith("; and p1 has begun another run.")
    assert dealt == Dealt(1, 32)
    with pytest.raises(PartyLostError, match="^party 1 closed its connection"):
        clients[0].deal(SQUARE)
    clients[0].close()


# --- connections that break ---------------------------------------------------------------------


def ask(client: Client) -> list[torch.Tensor]:
    """A party's shares of its next tuple."""
    return client.deal(SQUARE)


class Apart(Place):
    """Two parties, the first of which reaches its dealer through a cable."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder)
        self.cable = stack.enter_context(Cable(self.places[2].getsockname()))
        members = list(self.federation.members)
        at_cable = "{}:{}".format(*self.cable.listener.getsockname())
        members[2] = replace(members[2], address=at_cable)
        self.federation = Federation(members)
        self.parties = [Local(one, self.federation) for one in self.own[:2]]
        self.dealer = Local(self.own[2], self.federation)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    with ExitStack() as stack:
        found = Apart(tmp_path, stack)
        yield found
        for one in found.places:
            one.close()


def squares(clients: list[Client], number: int) -> None:
    """So many squares are dealt, one by one and planned, and are right."""
    for client in clients:
        client.begin_step()
    for _ in range(number):
        (a, a2), (b, b2) = at_once(*(partial(ask, client) for client in clients))
        assert bool(((a + b) ** 2 == a2 + b2).all())


@pytest.mark.parametrize("seed", [0, *LONG])
def test_connections_to_the_dealer_that_break_anywhere_go_on_and_nothing_is_dealt_twice(
    apart, seed, monkeypatch
):
    seen: list[tuple[int, bytes]] = []
    monkeypatch.setattr(server, "_see_nothing", lambda rank, said: seen.append((rank, said)))
    apart.cable.limit = cuts_of(seed, 12, 3000, 6000)
    thread = apart.serve(1)
    clients = at_once(*apart.coming(RUN))
    for _ in range(5):
        squares(clients, 4)
    at_once(*(client.close for client in clients))
    thread.join(PATIENCE)
    ((dealt, _),) = apart.dealt
    assert dealt.tuples >= 20
    assert len(apart.cable.carried) >= 8
    said = [[text for rank, text in seen if rank == one] for one in range(2)]
    assert said[0] == said[1], "each message once, in its place"


def test_a_dealer_that_is_not_back_in_time_is_named(apart, monkeypatch):
    monkeypatch.setattr(
        DealerConnection, "correspond", partialmethod(DealerConnection.correspond, seconds=0.5)
    )
    thread = apart.serve(2)
    clients = at_once(*apart.coming(RUN))
    apart.cable.is_out = True
    apart.cable.reset()
    for client in clients:
        with pytest.raises(
            DealerLostError, match=r"^the dealer closed its .*not back within 0\.5 s"
        ):
            ask(client)
    apart.cable.is_out = False
    assert len(apart.deal(OTHER_RUN)) == 2
    thread.join(PATIENCE)
    for client in clients:
        client.close()


def test_nobody_else_takes_the_place_of_a_connection(place):
    thread = place.serve(1)
    clients = at_once(*place.coming(RUN))
    expected = "expected a party of a run that is dealt for, came p0 of "
    with pytest.raises(RejectedError, match=expected + OTHER_RUN.hex()):
        come_back(place, OTHER_RUN)
    squares(clients, 1)
    at_once(*(client.close for client in clients))
    thread.join(PATIENCE)


def come_back(place: Place, run: bytes) -> None:
    """Says that it is party 0 of a run whose connection broke."""
    dealer = place.federation.dealer
    connect_to(place.parties[0], dealer, AGAIN, run, seconds=PATIENCE).connection.close()


def test_a_party_of_another_run_keeps_no_seat(place):
    """The seat that a party leaves is free for its own run."""
    thread = place.serve(1)
    visit(place.parties[1], OTHER_RUN)
    assert len(place.deal(RUN)) == 2
    thread.join(PATIENCE)
    assert place.dealt[0][0] == Dealt(1, 32)


def visit(local: Local, run: bytes) -> None:
    """A member comes for a seat, and leaves it."""
    dealer = local.federation.dealer
    connect_to(local, dealer, DEALING, run, seconds=PATIENCE).connection.close()


def answered(place: Place, dealer: Local, visitor: Callable[[], Any]) -> list[Any]:
    """What an end at the dealer's place says of one visitor, and that visitor of it."""

    def answer() -> Any:
        place.places[2].settimeout(PATIENCE)
        connection, _ = place.places[2].accept()
        return DealerListener(dealer, place.places[2]).receive(connection)

    return at_once(answer, visitor)


@claim("PEA rejects a substituted dealer at both ends.")
def test_a_substituted_dealer_is_refused_at_both_ends(place, tmp_path):
    (tmp_path / "thief").mkdir()
    (thief,) = identities(tmp_path / "thief", "dealer")
    own = place.federation.members
    theirs = Federation([*own[:2], replace(own[2], fingerprint=thief.fingerprint)])
    substitute = Local(thief, theirs)
    object.__setattr__(substitute, "federation", place.federation)  # it says what the party expects

    def come() -> Any:
        connect(lambda: place.parties[0], RUN, patience=0.0)

    there, here = answered(place, substitute, come)
    assert isinstance(there, RejectedError), there
    assert isinstance(here, DealerLostError), here
    assert "the dealer is not the one of this federation" in str(here)
    for text in (str(there), str(here)):
        assert place.own[2].fingerprint in text
        assert thief.fingerprint in text


def test_a_dealer_with_anothers_certificate_cannot_prove_its_key(place, tmp_path):
    (tmp_path / "thief").mkdir()
    (thief,) = identities(tmp_path / "thief", "dealer")
    stolen = replace(place.own[2], path=thief.path)
    results = answered(
        place,
        Local(stolen, place.federation),
        lambda: connect(lambda: place.parties[0], RUN, patience=0.0),
    )
    assert isinstance(results[1], DealerLostError), results
    assert "expected proof of the key" in str(results[1])


def test_a_party_of_another_federation_is_refused_at_both_ends(place, tmp_path):
    (tmp_path / "other").mkdir()
    other = identities(tmp_path / "other", "p0", "p1")
    own = place.federation.members
    foreign = Federation(
        [
            *(
                replace(member, fingerprint=one.fingerprint)
                for member, one in zip(own, other, strict=False)
            ),
            own[2],
        ]
    )
    there, here = answered(
        place, place.dealer, lambda: connect(lambda: Local(other[0], foreign), RUN, 0.0)
    )
    assert isinstance(there, RejectedError), there
    for text in (str(there), str(here)):
        assert place.federation.digest.hex() in text
        assert foreign.digest.hex() in text


def test_who_is_no_party_gets_no_seat(tmp_path):
    own = identities(tmp_path, "p0", "lab", "dealer")
    places = listeners(3)
    found = list(federation_of(own, places, dealer=True).members)
    found[1] = Member(name="lab", role="client", fingerprint=own[1].fingerprint)
    federation = Federation(found)

    def answer() -> Any:
        connection, _ = places[2].accept()
        return DealerListener(Local(own[2], federation), places[2]).receive(connection)

    lab = Local(own[1], federation)
    results = at_once(answer, lambda: visit(lab, RUN))
    for each in results:
        assert isinstance(each, RejectedError)
        assert "expected a party, came lab, a client" in str(each)
    for one in places:
        one.close()


def test_a_connection_for_another_purpose_is_refused_at_both_ends(place):
    there, here = answered(
        place,
        place.dealer,
        lambda: connect_to(
            place.parties[0], place.federation.dealer, "data", RUN, seconds=PATIENCE
        ),
    )
    for each in (there, here):
        assert isinstance(each, RejectedError)
        assert "'tuples'" in str(each)
        assert "'data'" in str(each)


@claim("A replayed connection gets nothing.")
def test_a_replayed_connection_gets_nothing(apart):
    """All that a party sent is sent again while its next run gathers: the dealer refuses it."""
    thread = apart.serve(2)
    assert len(apart.deal(RUN)) == 2
    wait_until(lambda: apart.dealt, "the end of the run")
    recorded = apart.cable.carried[0]
    assert len(recorded) > 500
    with socket.create_connection(apart.places[2].getsockname()) as again:
        again.sendall(recorded)
        again.shutdown(socket.SHUT_WR)
        while again.recv(4096):
            pass
    assert len(apart.deal(RUN)) == 2
    thread.join(PATIENCE)
    ended, refused = apart.dealt[1]
    assert ended == Dealt(1, 32)
    late = "expected a party of a run that is dealt for"  # one that saw the end of the first run
    assert len([each for each in refused if late not in each]) == 1, refused


def test_a_pool_over_tls_has_a_dealer_of_its_own_identities():
    with Parties(2, timeout=PATIENCE, provider="dealer", transport="tls") as parties:
        for right in parties.run("tests.helpers.party_tasks.dealer:own_tuples", provider="DEALER"):
            assert [kind for kind, holds in right.items() if not holds] == []


def test_the_command_deals_for_so_many_runs_of_its_federation(place, tmp_path):
    place.places[2].close()
    command = [sys.executable, "-c", PROGRAM, "dealer", "--runs", "2"]
    command += ["--federation", str(tmp_path / "federation.toml"), "--key"]
    with subprocess.Popen(
        [*command, str(tmp_path / "dealer.pem")], stdout=subprocess.PIPE, text=True
    ) as process:
        for run in (RUN, OTHER_RUN):
            assert len(place.deal(run)) == 2
        output, _ = process.communicate(timeout=PATIENCE)
    assert output.splitlines() == ["dealt 1 tuples, 32 bytes of corrections"] * 2
    assert process.returncode == 0


def test_a_party_has_the_dealer_of_its_federation_and_no_other(place, tmp_path):
    at = {"rendezvous": f"tls://{tmp_path}/federation.toml", "key": tmp_path / "p0.pem"}
    assert Meeting(rank=0, **at).has_dealer
    with refused("dealer", "conflict", "127.0.0.1:29400"):
        Meeting(rank=0, dealer="127.0.0.1:29400", **at)
    other = replace(place.federation.members[1], role="dealer")
    with refused("role", "value", value="dealer"):
        Federation([other, place.federation.dealer])


@pytest.mark.parametrize("number", [500, MANY])
def test_no_bytes_break_the_dealers_door(place, number, handshakes):
    thread = place.serve(1)
    party, dealer = place.parties[0], place.federation.dealer
    visited_by(number, place.places[2].getsockname(), party, dealer)
    assert 0 < len(handshakes) < number
    (first, _), (last, _) = place.deal(RUN)
    assert bool(((first[0] + last[0]) ** 2 == first[1] + last[1]).all())
    thread.join(PATIENCE)
