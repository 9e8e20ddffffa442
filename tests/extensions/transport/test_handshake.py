"""Who is let in, who is not, and what both ends say of it."""

import gc
import socket
import stat
import struct
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from extensions.runs.processes.credentials import federation_of
from extensions.transport import (
    Federation,
    Identity,
    Listener,
    Local,
    Member,
    RejectedError,
    acceptor,
    connect_to,
    handshake,
    handshake_messages,
    identity,
    listener,
    make,
)
from extensions.transport.handshake_messages import Preamble
from extensions.transport.kernel import hung_up
from extensions.transport.wire import Wire
from tests.helpers.commands import call
from tests.helpers.crowds import MANY
from tests.helpers.federations import RUN, at_once, identities, listeners
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tests.helpers.strangers import visited_by

TERMS = handshake.Terms("run", RUN)
REFUSED_HERE, REFUSED_THERE = "was refused: ", "refused this host and says: "


@pytest.fixture
def two(tmp_path):
    """Two parties, their federation and their places."""
    own = identities(tmp_path, "p0", "p1")
    places = listeners(2)
    yield own, federation_of(own, places), places
    for place in places:
        place.close()


def both(place, answering: Local, dialling: Local, *, to=None, **said):
    """Returns what both ends got, the answering one first."""
    member = to or dialling.federation.members[0]

    def answer():
        place.settimeout(PATIENCE)
        connection, _ = place.accept()
        return handshake.accept(answering, connection, lambda *_: TERMS, 60)

    def call():
        purpose, run = said.get("purpose", "run"), said.get("run", RUN)
        return connect_to(dialling, member, purpose, run, seconds=60)

    return at_once(answer, call)


def refused_at_both(results, *words):
    """Each end raised, and says who refused whom, and why in these words."""
    texts = [str(each) for each in results]
    assert all(isinstance(each, RejectedError) for each in results), results
    for text in texts:
        assert (REFUSED_HERE in text) or (REFUSED_THERE in text), text
        for word in words:
            assert word in text, (word, text)


def test_members_let_each_other_in_by_tls_13(two):
    (own, federation, (place, _)) = two
    there, here = both(place, Local(own[0], federation), Local(own[1], federation))
    assert there.member == federation.members[1]
    assert here.member == federation.members[0]
    for end in (there, here):
        assert end.connection.version() == "TLSv1.3"
        end.connection.setblocking(True)
    here.connection.sendall(b"word")
    assert there.connection.recv(4) == b"word"
    there.connection.close()
    here.connection.close()


def test_a_key_is_private_and_shown_by_nothing(tmp_path, capsys):
    call("keys", "--name", "p0", "--out", tmp_path / "p0.pem")
    found = Identity.read(tmp_path / "p0.pem")
    assert stat.S_IMODE((tmp_path / "p0.pem").stat().st_mode) == 0o600
    assert capsys.readouterr().out == f"p0 {found.fingerprint}\n"
    secret = (tmp_path / "p0.pem").read_text().splitlines()[1]
    assert secret not in repr(found)
    (tmp_path / "p0.pem").chmod(0o640)
    with refused("key", "file", str(tmp_path / "p0.pem")) as raised:
        Identity.read(tmp_path / "p0.pem")
    assert secret not in str(raised.value)
    with refused("out", "file", str(tmp_path / "p0.pem")):
        make("p0", tmp_path / "p0.pem")


def test_the_command_makes_the_federation_of_fingerprints(tmp_path, capsys):
    own = identities(tmp_path, "p0", "dealer")
    file = tmp_path / "federation.toml"
    rows = [("p0", "party", "127.0.0.1:7000"), ("dealer", "dealer", "[::1]:7001")]
    for one, (name, role, address) in zip(own, rows, strict=True):
        typed = ["--add", name, "--role", role, "--address", address]
        marks = [one.fingerprint[at : at + 2].upper() for at in range(0, 64, 2)]
        typed += ["--fingerprint", ":".join(marks), "--key", str(one.path)]
        call("federation", file, *typed)
    found = Federation.read(file)
    assert [(one.name, one.role, one.address) for one in found.members] == rows
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"federation {found.digest.hex()}",
        f"party 0 p0 127.0.0.1:7000 {own[0].fingerprint}",
        f"dealer dealer [::1]:7001 {own[1].fingerprint}",
    ]
    twice = ["--add", "p1", "--address", "127.0.0.1:7002", "--fingerprint", own[0].fingerprint]
    with refused("fingerprint", "value", own[0].fingerprint):
        call("federation", file, *twice)
    assert Federation.read(file) == found


@pytest.mark.parametrize(
    ("text", "argument", "code", "value"),
    [
        ("members = 3", "federation", "file", "own.toml"),
        ("[[members]]\nname = 'p0'", "federation", "file", "own.toml"),
        ("[[members]]\nname = 3\nrole = 'party'\nfingerprint = 'x'", "name", "type", 3),
        ("[[members]]\nname = 'p0'\nrole = 'party'\nfingerprint = 'x'", "address", "value", ""),
        ("?", "federation", "file", "own.toml"),
    ],
)
def test_a_file_that_is_no_federation_is_refused(
    tmp_path, monkeypatch, text, argument, code, value
):
    monkeypatch.chdir(tmp_path)
    file = Path("own.toml")
    file.write_text(text)
    with refused(argument, code, value):
        Federation.read(file)


def test_another_federation_is_refused_at_both_ends(two):
    own, federation, (place, _) = two
    other = Federation([*federation.members[:1], replace(federation.members[1], role="dealer")])
    results = both(place, Local(own[0], federation), Local(own[1], other))
    refused_at_both(results, federation.digest.hex(), other.digest.hex())


def test_another_version_is_refused_at_both_ends(two, monkeypatch):
    own, federation, (place, _) = two
    versions = iter(["1.0.0", "9.9.9"])
    monkeypatch.setattr(
        Preamble,
        "of",
        lambda federation, certificate, wanted="": Preamble(
            next(versions), federation.digest, bytes.fromhex(wanted).ljust(32, b"\0"), certificate
        ),
    )
    results = both(place, Local(own[0], federation), Local(own[1], federation))
    refused_at_both(results, "1.0.0", "9.9.9")


def test_a_wrong_certificate_is_refused_at_both_ends(two, tmp_path):
    own, federation, (place, _) = two
    (tmp_path / "again").mkdir()
    (new,) = identities(tmp_path / "again", "p1")
    renewed = Federation(
        [federation.members[0], replace(federation.members[1], fingerprint=new.fingerprint)]
    )
    with refused("key", "value", str(tmp_path / "again/p1.pem")):
        Local(new, federation)
    liar = Local(new, renewed)
    object.__setattr__(liar, "federation", federation)
    results = both(place, Local(own[0], federation), liar)
    refused_at_both(results, own[1].fingerprint, new.fingerprint)


def test_an_expired_certificate_is_refused_at_both_ends(two, tmp_path, monkeypatch):
    _, _, (place, _) = two
    (tmp_path / "late").mkdir()
    own = [
        *identities(tmp_path / "late", "p0"),
        *identities(tmp_path / "late", "p1", days=1 / 86400),
    ]
    federation = federation_of(own, two[2])
    stated = identity.CertificateFacts.by(own[1].certificate)
    wait_until(stated.untimely, "the certificate's end")
    results = both(place, Local(own[0], federation), Local(own[1], federation))
    refused_at_both(results, own[1].fingerprint, "ended on", f"{stated.ends:%Y-%m-%d}")
    monkeypatch.setattr(identity.CertificateFacts, "untimely", lambda self: "")
    results = both(place, Local(own[0], federation), Local(own[1], federation))
    assert all(isinstance(each, RejectedError) for each in results), results
    assert "EXPIRED" in str(results[1]).upper(), results


def test_swapped_certificates_are_refused_at_both_ends(two):
    own, federation, (place, _) = two
    first, second = federation.members
    swapped = Federation(
        [
            replace(first, fingerprint=second.fingerprint),
            replace(second, fingerprint=first.fingerprint),
        ]
    )
    with refused("key", "value", str(own[0].path)):
        Local(own[0], swapped)
    here, there = Local(own[1], federation), Local(own[0], federation)
    object.__setattr__(here, "federation", swapped)
    object.__setattr__(there, "federation", swapped)
    to = replace(swapped.members[1], address=first.address)
    results = both(place, there, here, to=to)
    refused_at_both(results, "p0", "p1", "expected the name")


def test_a_host_at_anothers_address_is_refused_at_both_ends(tmp_path):
    own = identities(tmp_path, "p0", "p1", "p2")
    places = listeners(3)
    federation = federation_of(own, places)
    calling, answering = Local(own[2], federation), Local(own[1], federation)
    at_p1 = replace(federation.members[0], address=federation.members[1].address)
    results = both(places[1], answering, calling, to=at_p1)
    assert all(isinstance(each, RejectedError) for each in results)
    for result in results:
        assert own[0].fingerprint in str(result)
        assert own[1].fingerprint in str(result)
    for place in places:
        place.close()


def test_a_certificate_without_its_key_gets_nothing(two, tmp_path):
    own, federation, (place, _) = two
    (tmp_path / "thief").mkdir()
    (thief,) = identities(tmp_path / "thief", "p1")
    stolen = Identity(thief.path, own[1].certificate)
    results = both(place, Local(own[0], federation), Local(stolen, federation))
    assert all(isinstance(each, RejectedError) for each in results), results
    assert "expected proof of the key" in str(results[0])
    there = Local(stolen, federation)
    other = replace(federation.members[1], address=federation.members[0].address)
    results = both(place, there, Local(own[0], federation), to=other)
    assert all(isinstance(each, RejectedError) for each in results), results
    assert "expected proof of the key" in str(results[1])


def test_another_run_rank_or_purpose_is_refused_at_both_ends(two, monkeypatch):
    own, federation, (place, _) = two
    there, here = (Local(one, federation) for one in own)
    results = both(place, there, here, run=b"2" * 32)
    refused_at_both(results, RUN.hex(), (b"2" * 32).hex())
    refused_at_both(both(place, there, here, purpose="tuples"), "'tuples'", "'run'")
    monkeypatch.setattr(Local, "rank", property(lambda self: 0))
    refused_at_both(both(place, there, here), "expected rank 1 of p1, came 0")


def test_a_replayed_connection_is_refused(two):
    own, federation, (place, _) = two
    there, here = (Local(one, federation) for one in own)
    recorded = bytearray()

    with socket.create_server(("127.0.0.1", 0)) as middle:
        port = middle.getsockname()[1]

        def relay():
            left, _ = middle.accept()
            right = socket.create_connection(place.getsockname())

            def back():
                while data := right.recv(4096):
                    left.sendall(data)

            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            while data := left.recv(4096):
                recorded.extend(data)
                right.sendall(data)
            right.shutdown(socket.SHUT_RDWR)
            thread.join()
            left.close()
            right.close()

        def answer():
            connection, _ = place.accept()
            return handshake.accept(there, connection, lambda *_: TERMS, 60)

        def call():
            member = replace(federation.members[0], address=f"127.0.0.1:{port}")
            admitted = connect_to(here, member, "run", RUN, seconds=60)
            admitted.connection.close()
            return admitted

        answered, called, _ = at_once(answer, call, relay)
    assert (answered.member.name, called.member.name) == ("p1", "p0")
    answered.connection.close()

    def again():
        with socket.create_connection(place.getsockname()) as connection:
            connection.sendall(recorded)
            while connection.recv(4096):
                pass

    refused, _ = at_once(answer, again)
    assert isinstance(refused, RejectedError), refused


def test_who_was_refused_is_told_to_whoever_waits(two):
    own, federation, (place, _) = two
    other = Federation([*federation.members[:1], replace(federation.members[1], role="dealer")])
    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        with pytest.raises(RejectedError):
            connect_to(Local(own[1], other), other.members[0], "run", RUN, seconds=1)
        wait_until(lambda: here.refused, "the refusal")
        with pytest.raises(TimeoutError, match=f"p1 did not come.*{other.digest.hex()}"):
            here.take(federation.members[1], "run", 0.01)


def test_nobody_at_an_address_is_told_with_name_and_place(two):
    own, federation, places = two
    places[0].close()
    with pytest.raises(
        TimeoutError, match=rf"p0 does not answer at {federation.members[0].address}"
    ):
        connect_to(Local(own[1], federation), federation.members[0], "run", RUN, seconds=0.2)


def test_silent_visitors_leave_and_members_come_in(two, monkeypatch):
    own, federation, (place, _) = two
    monkeypatch.setattr(acceptor, "VISITORS", 8)
    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        silent = [socket.create_connection(place.getsockname()) for _ in range(40)]
        called = connect_to(
            Local(own[1], federation), federation.members[0], "run", RUN, seconds=60
        )
        taken = here.take(federation.members[1], "run", PATIENCE)
        assert taken.member.name == "p1"
        for connection in silent[:30]:
            connection.settimeout(PATIENCE)
            assert not connection.recv(1)
    for one in (*silent, called.connection, taken.connection):
        one.close()


def test_visitors_that_stop_within_tls_leave_and_members_come_in(two, monkeypatch):
    """They say what a member says in the clear, which anybody can have heard."""
    own, federation, (place, _) = two
    monkeypatch.setattr(acceptor, "VISITORS", 8)
    monkeypatch.setattr(listener, "ATTEMPT", 10 * PATIENCE)
    caller = Local(own[1], federation)
    heard = Preamble.of(federation, own[1].certificate, federation.members[0].fingerprint).pack()
    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        before = threading.active_count()
        stopped = [socket.create_connection(place.getsockname()) for _ in range(40)]
        for connection in stopped:
            connection.sendall(heard + bytes(2))
            connection.settimeout(PATIENCE)
        for connection in stopped[:30]:
            with suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass
        wait_until(lambda: threading.active_count() <= before + 8, "the visitors' end")
        called = connect_to(caller, federation.members[0], "run", RUN, seconds=60)
        taken = here.take(federation.members[1], "run", PATIENCE)
    for one in (*stopped, called.connection, taken.connection):
        one.close()


def test_a_door_without_a_thread_or_a_descriptor_to_spare_stays_open(two, monkeypatch):
    own, federation, (place, _) = two
    failures = [RuntimeError("can't start new thread"), OSError(24, "Too many open files")]
    start = threading.Thread.start

    def begin(thread):
        if failures and thread.daemon and thread.name.endswith("(_attend)"):
            raise failures.pop()
        start(thread)

    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        monkeypatch.setattr(threading.Thread, "start", begin)
        for _ in range(2):
            with socket.create_connection(place.getsockname()) as one:
                one.settimeout(PATIENCE)
                assert not one.recv(1)
        called = connect_to(
            Local(own[1], federation), federation.members[0], "run", RUN, seconds=60
        )
        taken = here.take(federation.members[1], "run", PATIENCE)
        assert not failures
        wait_until(lambda: not here._visitors, "the visitors' end")
    called.connection.close()
    taken.connection.close()


def test_a_hosts_own_certificate_is_not_anothers(two):
    own, federation, (place, _) = two
    heard = Preamble.of(federation, own[0].certificate)
    reason = heard.objection(heard, federation)
    assert reason.startswith("expected another host's certificate, came this one's own, ")
    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        with socket.create_connection(place.getsockname()) as echo:
            echo.sendall(heard.pack())
            echo.settimeout(PATIENCE)
            found = b""
            while data := echo.recv(4096):
                found += data
        assert reason.encode() in found


@pytest.mark.parametrize("number", [2500, MANY])
def test_no_bytes_break_a_door(two, number, handshakes):
    own, federation, (place, _) = two
    caller = Local(own[1], federation)
    with Listener(Local(own[0], federation), place, ["run"]) as here:
        here.begin(RUN)
        visited_by(number, place.getsockname(), caller, federation.members[0])
        assert 0 < len(handshakes) < number
        called = connect_to(caller, federation.members[0], "run", RUN, seconds=PATIENCE)
        taken = here.take(federation.members[1], "run", PATIENCE)
        assert len(here.refused) <= 20
        assert not here._arrived
        wait_until(lambda: not here._visitors, "the visitors' end")
    assert taken.member.name == "p1"
    called.connection.close()
    taken.connection.close()


def test_what_hosts_say_fits_their_messages():
    longest = handshake_messages.Preamble(
        "9" * handshake_messages.LARGEST_VERSION,
        b"d" * 32,
        b"w" * 32,
        b"c" * handshake_messages.LARGEST_CERTIFICATE,
    )
    packed = longest.pack()
    fixed, rest = (
        packed[: handshake_messages.PREAMBLE_BYTES],
        packed[handshake_messages.PREAMBLE_BYTES :],
    )
    assert handshake_messages.Preamble.rest(fixed) == len(rest)
    assert handshake_messages.Preamble.unpack(fixed, rest).certificate == longest.certificate
    with pytest.raises(handshake_messages.MalformedError):
        handshake_messages.Preamble.rest(replace(longest, certificate=b"c" * 2049).pack()[:106])
    assert handshake_messages.Preamble.unpack(fixed, rest).version == longest.version
    claim = handshake_messages.Claim(b"t" * 32, "run", None, RUN)
    assert handshake_messages.Claim.unpack(claim.pack()) == claim
    member = Member(name="p", role="client", fingerprint="ab" * 32)
    with refused("fingerprint", "value", "ab" * 32):
        Federation([member, replace(member, name="q")])


def test_a_connection_that_is_reset_before_tls_begins_is_closed(two):
    """Python has taken the socket by then, and leaves it open: the collector would say so."""
    own, _, places = two
    caller = socket.create_connection(places[0].getsockname())
    connection, _ = places[0].accept()
    with Wire(connection, "p1", PATIENCE) as wire:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        caller.close()
        wait_until(lambda: hung_up(connection), "the reset")
        with pytest.raises(ConnectionResetError, match="p1 broke off the handshake"):
            wire.secure(own[0], own[1].certificate, dialled=False)
    gc.collect()


def test_a_connection_that_is_reset_before_it_is_used_is_closed(two, monkeypatch):
    own, federation, (place, _) = two
    dialled, connect = [], socket.create_connection

    def reset_at_once(*arguments: Any) -> socket.socket:
        dialled.append(connect(*arguments))
        answering, _ = place.accept()
        answering.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        answering.close()
        wait_until(lambda: hung_up(dialled[-1]), "the reset")
        return dialled[-1]

    monkeypatch.setattr(socket, "create_connection", reset_at_once)
    with pytest.raises(TimeoutError, match="p0 does not answer"):
        connect_to(Local(own[1], federation), federation.members[0], "run", RUN, seconds=0.1)
    assert dialled
    assert all(one.fileno() == -1 for one in dialled)
