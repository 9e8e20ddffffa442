"""What a member's key, address and row of the file may be, and where it listens."""

import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from extensions.checks import check_address, waitable
from extensions.errors import ArgumentError
from extensions.transport import Federation, Identity, Listener, Local, Member, connect_to, make
from extensions.transport.listener import listening
from tests.helpers.federations import RUN, at_once, identities
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused

MARKS = [f"{each:064x}" for each in range(2)]


def local_at(folder, address) -> Local:
    """Returns the end of a host whose address that is."""
    (own,) = identities(folder, "p0")
    return Local(own, Federation([member("p0", address, own.fingerprint)]))


def member(name, address, mark) -> Member:
    """Returns a party."""
    return Member(name=name, role="party", address=address, fingerprint=mark)


def free_port(family=socket.AF_INET) -> int:
    """Returns a port that nobody has."""
    with socket.create_server(("", 0), family=family) as one:
        return int(one.getsockname()[1])


def mapped(inner) -> str:
    """Returns the address as a socket of both kinds shows it."""
    return inner if ":" in inner else f"::ffff:{inner}"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.example.org:1", ("a.example.org", 1)),
        ("party_0.:65535", ("party_0.", 65535)),
        ("klinik-süd.example:7000", ("klinik-süd.example", 7000)),
        ("192.0.2.7:07000", ("192.0.2.7", 7000)),
        ("[2001:db8::7]:7000", ("2001:db8::7", 7000)),
    ],
)
def test_an_address_is_a_host_and_a_port(text, found):
    assert check_address("address", text) == found


@pytest.mark.parametrize(
    "text",
    [
        *("a..example.org:7000", f"{'a' * 64}.example:7000", "b c:70", "a\tb:70"),
        *("2001:db8::7000", "[2001:db8::7000]", "[192.0.2.7]:70", "[a]:70", "[]:70", ":70"),
        f"a:{'9' * 5000}",
        *("a:", "a:0", "a:65536", "a:٧٠٠٠", "a:-1", "a:7 0"),
    ],
)
def test_a_text_that_no_host_can_have_is_no_address(text):
    with refused("address", "value", text):
        member("p0", text, MARKS[0])


@pytest.mark.parametrize(
    "host",
    [
        *("0.0.0.0", "0", "0.0", "0x0", "00.0x0.0.0", "０.０。０.０"),
        *("[::]", "[0::0]", "[::0.0.0.0]", "[0:0:0:0:0:0:0:0]", "[::%eth0]"),
        *("[::ffff:0.0.0.0]", "[::FFFF:0:0]"),
    ],
)
def test_no_member_is_at_all_addresses(host):
    with pytest.raises(ArgumentError) as refused:
        member("p0", f"{host}:7", MARKS[0])
    assert (refused.value.argument, refused.value.value) == ("address", f"{host}:7")


@pytest.mark.parametrize("host", ["0.0.0.1", "zero", "x0", "[::1]", "[::ffff:0.0.0.1]", "[::1:0]"])
def test_a_member_is_at_any_other(host):
    assert member("p0", f"{host}:7", MARKS[0]).address == f"{host}:7"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.example:7000", "A.Example:07000"),
        ("192.0.2.7:7000", "192.0.2.7:07000"),
        ("[2001:db8::7]:7000", "[2001:DB8:0::0:7]:7000"),
    ],
)
def test_an_address_is_of_one_member_however_it_is_written(one, other):
    with refused("address", "value", other):
        Federation([member("p0", one, MARKS[0]), member("p1", other, MARKS[1])])


def test_what_is_written_is_read(tmp_path):
    found = Federation([member("p0", "klinik-süd.example:7000", MARKS[0])])
    found.write(tmp_path / "federation.toml")
    assert Federation.read(tmp_path / "federation.toml") == found


def test_a_wrong_row_is_told_with_its_member_and_its_file(tmp_path):
    file = tmp_path / "federation.toml"
    row = f"[[members]]\nname = 'p7'\nrole = 'party'\naddress = 'a:0'\nfingerprint = '{MARKS[0]}'"
    file.write_text(row)
    with refused("address", "value", value="a:0"):
        Federation.read(file)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "LOCALHOST"])
def test_at_an_address_of_loopback_it_listens_there_alone(tmp_path, host):
    with listening(local_at(tmp_path, f"{host}:{free_port()}")) as listener:
        assert listener.getsockname()[0] == ("127.0.0.2" if host == "127.0.0.2" else "127.0.0.1")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_a_host_with_a_name_is_reached_by_ipv4_and_by_ipv6(tmp_path):
    port = free_port(socket.AF_INET6)
    with listening(local_at(tmp_path, f"ward-3.example:{port}")) as listener:
        for inner in ("127.0.0.1", "::1"):
            with socket.create_connection((inner, port)) as calling, listener.accept()[0] as one:
                assert one.getpeername()[:2] == (mapped(inner), calling.getsockname()[1])
    with listening(local_at(tmp_path / "6", f"[0:0:0:0:0:0:0:1]:{port}")) as listener:
        assert listener.getsockname()[0] == "::1"


def test_a_port_that_is_taken_is_told_with_the_next_step(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            refused("address", "value", value=address),
            listening(local_at(tmp_path, address)),
        ):
            pass


def test_a_caller_that_meets_itself_goes_on_calling(tmp_path, monkeypatch):
    """TCP connects a port with itself where nobody listens and the caller is given that port."""
    port, connect, met = free_port(), socket.create_connection, []

    def meet_itself(address, timeout):
        if met:
            return connect(address, timeout)
        met.append(one := socket.socket())
        one.bind(("127.0.0.1", port))
        one.connect(("127.0.0.1", port))
        return one

    own = identities(tmp_path, "p0", "p1")
    marks = [one.fingerprint for one in own]
    places = [f"127.0.0.1:{port}", "127.0.0.1:1"]
    members = [member(f"p{each}", places[each], marks[each]) for each in range(2)]
    ends = [Local(one, Federation(members)) for one in own]
    monkeypatch.setattr(socket, "create_connection", meet_itself)

    def answer():
        while not met or met[0].fileno() >= 0:
            pass
        with listening(ends[0]) as listener, Listener(ends[0], listener, ["run"]) as door:
            door.begin(RUN)
            return door.take(members[1], "run", PATIENCE)

    taken, dialled = at_once(
        answer, lambda: connect_to(ends[1], members[0], "run", RUN, seconds=60)
    )
    for one in (taken, dialled):
        one.connection.close()


@pytest.mark.parametrize("days", [0, -1, float("nan"), float("inf"), 1e300, 36501])
def test_a_certificate_ends_within_a_hundred_years(tmp_path, days):
    with refused("days", "range", days):
        make("p0", tmp_path / "p0.pem", days)
    assert not (tmp_path / "p0.pem").exists()


def test_of_two_keys_at_once_at_one_path_one_is_made(tmp_path):
    gate = threading.Barrier(8)

    def made(path):
        gate.wait(PATIENCE)
        try:
            return make("p0", path).fingerprint
        except ArgumentError as error:
            return "never overwritten" in str(error)

    with ThreadPoolExecutor(8) as threads:
        for number in range(10):
            path = tmp_path / f"{number}.pem"
            told = [*threads.map(made, [path] * 8)]
            assert told.count(True) == 7
            assert Identity.read(path).fingerprint in told


def test_a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked(tmp_path):
    plain, locked = tmp_path / "plain.pem", tmp_path / "locked.pem"
    make("p0", plain)
    typed = ["openssl", "pkey", "-in", str(plain), "-aes256", "-passout", "pass:secret"]
    made = subprocess.run(typed, capture_output=True, check=True)
    certificate = plain.read_text().partition("-----BEGIN CERTIFICATE")
    locked.touch(mode=0o600)
    locked.write_text(made.stdout.decode() + "".join(certificate[1:]))
    with refused("key", "file", str(locked)):
        Identity.read(locked)


def test_nobody_waits_longer_than_a_machine_can(tmp_path):
    assert waitable(3.0) == 3.0
    own = identities(tmp_path, "p0", "p1")
    places = [f"127.0.0.1:{free_port()}", "127.0.0.1:1"]
    marks = [one.fingerprint for one in own]
    members = [member(f"p{each}", places[each], marks[each]) for each in range(2)]
    ends = [Local(one, Federation(members)) for one in own]
    with listening(ends[0]) as listener, Listener(ends[0], listener, ["run"]) as door:
        door.begin(RUN)
        taken, dialled = at_once(
            lambda: door.take(members[1], "run", float("inf")),
            lambda: connect_to(ends[1], members[0], "run", RUN, seconds=float("inf")),
        )
        for one in (taken, dialled):
            one.connection.close()
