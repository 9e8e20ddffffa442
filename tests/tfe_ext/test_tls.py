"""Links of players and a client by TLS: who is reached, and who is turned away."""

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest

from extensions.checks import check_address
from extensions.transport import Federation, Local, Member, make
from extensions.transport.acceptor import VISITORS
from extensions.transport.handshake import RejectedError, connect_to
from tests.helpers.commands import PROGRAM, ROOT, pea
from tests.helpers.crowds import MANY
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.players import SERVERS, digits, write
from tests.helpers.refused import refused
from tests.helpers.strangers import visited_by
from tests.tfe_ext.test_closed_ports import REACH, on
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = needs_tensorflow
NAMES = ("server0", "server1", "client")
NAMED_WITHIN = 120.0
"""Seconds; a minute where the machine is not busy, as without links."""
HERE = dict(zip(NAMES, ("127.0.0.2", "127.0.0.3", "127.0.0.4"), strict=True))
"""One loopback address for each host, as if it had one of its own."""


def free_port():
    with socket.create_server(("", 0)) as one:
        return one.getsockname()[1]


@contextmanager
def service(host, port, name):
    """Says its name to whoever comes, and then what it is told."""

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=attend, args=(connection,), daemon=True).start()

    def attend(connection):
        with connection, suppress(ConnectionError):
            connection.sendall(name.encode().ljust(8))
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    with socket.create_server((host, port)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def federation(folder):
    """Identities of all, and of a party of CrypTen, and their federation."""
    own = {name: make(name, folder / f"{name}.pem") for name in (*NAMES, "party")}
    members = []
    for name in own:
        role = name if name in ("client", "party") else "server"
        address = "" if name == "client" else f"127.0.0.1:{free_port()}"
        fingerprint = own[name].fingerprint
        members.append(Member(name=name, role=role, address=address, fingerprint=fingerprint))
    return own, Federation(members)


@pytest.fixture
def hosts(tmp_path):
    """Links of two servers and a client, each with a service behind it."""
    from tfe_ext.players.tls import Links

    own, found = federation(tmp_path)
    ports = {name: free_port() for name in NAMES}
    players = {name: f"127.0.0.1:{ports[name]}" for name in NAMES[:2]}
    said = deque(maxlen=100)
    with ExitStack() as stack:
        for name in NAMES:
            stack.enter_context(service(HERE[name], ports[name], name))
        for name in NAMES:
            local = Local(own[name], found)
            link = Links(local, players, ports[name], said.append, HERE[name])
            stack.enter_context(link)
        yield own, found, ports, said


def reached(host, port, data=b""):
    """Who answers there, and what of the data comes back."""
    with socket.create_connection((host, port), 10) as connection:
        name = b""
        while len(name) < 8:
            name += connection.recv(8 - len(name)) or pytest.fail("closed")
        sending = threading.Thread(target=connection.sendall, args=(data,))
        sending.start()
        back = bytearray()
        while len(back) < len(data):
            back += connection.recv(1 << 16) or pytest.fail("closed")
        sending.join()
    return name.decode().strip(), bytes(back)


def test_every_host_reaches_each_other_at_its_own_loopback_port(hosts):
    """Also a server the client, who listens nowhere; data of many records of TLS come back."""
    _, _, ports, _ = hosts
    data = bytes(range(256)) * 4096
    for who in NAMES:
        for whom in NAMES:
            if who == "client" and whom == "client":
                continue
            if whom == "client":
                wait_until(
                    lambda who=who: listens(HERE[who], ports["client"]), "the client's links"
                )
            for _ in range(6 if whom == "client" else 1):
                assert reached(HERE[who], ports[whom], data) == (whom, data)


def listens(host, port):
    try:
        socket.create_connection((host, port), 5).close()
    except OSError:
        return False
    return True


def test_nobody_else_is_let_in(hosts, tmp_path):
    """Another key, another purpose, a party, a server that wants a client's, and no TLS."""
    own, found, ports, said = hosts
    address = found.members[0].address.rpartition(":")
    stranger = make("server1", tmp_path / "stranger.pem")
    theirs = Federation(
        [
            *(one for one in found.members if one.name != "server1"),
            Member(
                name="server1",
                role="server",
                address=found.members[1].address,
                fingerprint=stranger.fingerprint,
            ),
        ]
    )
    with pytest.raises(RejectedError, match="expected the federation"):
        connect_to(Local(stranger, theirs), theirs.members[0], "player", seconds=10)
    with pytest.raises(RejectedError, match="for 'shell', came one for 'player or back'"):
        connect_to(Local(own["client"], found), found.members[0], "shell", seconds=10)
    with pytest.raises(RejectedError, match="party is a party"):
        connect_to(Local(own["party"], found), found.members[0], "player", seconds=10)
    with pytest.raises(RejectedError, match="for 'back', came one for 'player'"):
        connect_to(Local(own["server1"], found), found.members[0], "back", seconds=10)
    plain = socket.create_connection((address[0], int(address[2])), 10)
    with plain, suppress(ConnectionError):
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(200))
        assert plain.recv(8) == b""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection((address[0], int(address[2])), 10)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain).recv(1)
    assert len(said) >= 5
    assert reached(HERE["client"], ports["server0"])[0] == "server0"


@pytest.mark.parametrize("number", [500, MANY])
def test_no_bytes_break_a_players_open_port(hosts, number, handshakes):
    own, found, ports, _ = hosts
    player = found.members[0]
    place = check_address("address", player.address)
    begun = len(handshakes)
    visited_by(number, place, Local(own["client"], found), player)
    assert 0 < len(handshakes) - begun < number
    assert reached(HERE["client"], ports["server0"])[0] == "server0"


def test_silent_strangers_keep_no_member_out(hosts):
    _, found, ports, _ = hosts
    place = check_address("address", found.members[0].address)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection(place)) for _ in range(2 * VISITORS)]
        assert reached(HERE["client"], ports["server0"])[0] == "server0"
        for gone in crowd[: VISITORS // 2]:
            assert gone.recv(1) == b""


def test_a_client_names_a_port_that_one_which_was_stopped_still_has(tmp_path, monkeypatch):
    """The kernel lets it connect to whoever listens there, and nobody says anything."""
    from tfe_ext.players import tls

    monkeypatch.setattr(tls, "ATTEMPT", 0.2)
    own, found = federation(tmp_path)
    with socket.create_server((HERE["client"], 0)) as stopped:
        port = stopped.getsockname()[1]
        players = {"server0": f"127.0.0.1:{port}"}
        client = tls.Links(Local(own["client"], found), players, 1, print, HERE["client"])
        with refused("players", "value", value=f"{HERE['client']}:{port}"), client:
            pass


def test_a_party_of_crypten_and_a_player_without_a_member_are_refused(tmp_path):
    from tfe_ext.players.tls import Links

    own, found = federation(tmp_path)
    with refused("players", "value", ["server2"]):
        Links(Local(own["server0"], found), {"server2": "127.0.0.1:1"}, 1, print)
    party = Member(
        name="server0", role="party", address="127.0.0.1:1", fingerprint=own["server0"].fingerprint
    )
    with refused("key", "value", value="server0"):
        Links(Local(own["server0"], Federation([party])), {}, 1, print)


class Owners:
    """Three players and a client, each on a host of its own, whose links alone cross the switch."""

    def __init__(self, folder, hosts, stack):
        self.folder, self.hosts, self._stack = folder, hosts, stack
        names = [*SERVERS, "client"]
        self.own = {name: make(name, folder / f"{name}.pem") for name in names}
        members = [
            Member(
                name=name,
                role="client" if name == "client" else "server",
                address="" if name == "client" else f"{hosts.addresses[name]}:4550",
                fingerprint=self.own[name].fingerprint,
            )
            for name in names
        ]
        Federation(members).write(folder / "federation.toml")
        ports = {name: f"127.0.0.1:{4440 + i}" for i, name in enumerate(SERVERS)}
        self._file = write(folder / "players.json", ports)
        parts = digits(folder / "records")
        self.records = {name: parts / f"party-{i}.npz" for i, name in enumerate(SERVERS)}
        self.players = {}
        self.start(*SERVERS)

    def start(self, *servers):
        """Starts players, in place of those that these owners had; returns once all listen."""
        for name in servers:
            if name in self.players:
                self.players[name].kill()
                self.players[name].communicate()
            own = ("--player", name, "--records", self.records[name])
            self.players[name] = self._type(name, name, "players", *own)
        for name in servers:
            self.wait_for(name, " listens on port ")

    def train(self, host, steps, *options, privacy=("--noise-multiplier", 10)):
        """Starts a training of so many steps at a host."""
        own = ("--backend", "tfe", "--steps", steps, "--delta", 1e-5)
        return self._type(host, "client", "train", *own, *privacy, *options)

    def spent(self):
        """Returns the epsilon of all runs on each owner's records, by its ledger."""
        told = [pea("budget", each, "--delta", 1e-5).stdout for each in self.records.values()]
        return [float(re.search(r"epsilon ([0-9.]+)", one)[1]) for one in told]

    def wait_for(self, name, words, training=None):
        """Returns once a player has said the words."""

        def said():
            assert self.players[name].poll() is None
            assert training is None or training.poll() is None, training.communicate()
            return words in (self.folder / f"{name}.txt").read_text()

        wait_until(said)

    def _type(self, host, name, *arguments):
        known = ("--federation", self.folder / "federation.toml", "--key", self.own[name].path)
        typed = ("-c", PROGRAM, *arguments, "--players", self._file, *known)
        with (self.folder / f"{name}.txt").open("w") as said:
            process = subprocess.Popen(
                on(self.hosts, host, *map(str, typed)),
                env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdout=said,
                stderr=subprocess.PIPE if name == "client" else subprocess.STDOUT,
                text=True,
            )
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill if name == "client" else process.terminate)
        return process


@pytest.fixture
def owners(tmp_path):
    with Hosts([*SERVERS, "client"]) as hosts, ExitStack() as stack:
        yield Owners(tmp_path, hosts, stack)


@pytest.mark.long
@needs_root
@pytest.mark.parametrize("where", ["client", "server0"])
def test_three_owners_train_over_links_on_hosts_of_their_own(owners, where, tmp_path):
    """TensorFlow's port is closed to other hosts, and a peer without the right key is refused."""
    report, hosts = tmp_path / "report.json", owners.hosts
    training = owners.train(where, 2, "--json", report)
    _, err = training.communicate(timeout=PATIENCE)
    assert training.returncode == 0, err
    assert json.loads(report.read_text())["records"] == [480, 479, 479]
    there = hosts.addresses["server0"]
    for port, status in ((4440, 1), (4441, 1), (4550, 0)):
        asked = on(hosts, "client", "-c", REACH, there, str(port))
        assert subprocess.run(asked, check=False).returncode == status, port
    stranger = make("client", tmp_path / "stranger.pem")
    refused = subprocess.run(
        on(hosts, "client", "-c", DIAL, str(tmp_path / "federation.toml"), str(stranger.path)),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"came {stranger.fingerprint}" in refused.stderr


@pytest.mark.long
@needs_root
@pytest.mark.parametrize("how", ["killed", "stopped", "cut off"])
def test_a_step_fails_with_the_name_of_a_player_whose_links_break(owners, how):
    """The other players stay, for the next run."""
    training = owners.train("client", 500)
    owners.wait_for("server0", "noise multiplier", training)  # what the client states of its run
    time.sleep(np.random.default_rng(len(how)).uniform(0, 20))  # while it traces, or trains
    assert training.poll() is None, training.communicate()
    victim, begin = owners.players["server1"], time.monotonic()
    if how == "cut off":
        owners.hosts.pull("server1")
    else:
        os.kill(victim.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    _, err = training.communicate(timeout=PATIENCE)
    assert training.returncode == 1
    assert "player server1 " in err, err
    assert time.monotonic() - begin < NAMED_WITHIN
    assert all(owners.players[name].poll() is None for name in ("server0", "server2"))
    victim.kill()
    print(f"{how}: named after {time.monotonic() - begin:.0f} s")


@pytest.mark.long
@needs_root
@pytest.mark.parametrize("how", ["killed", "stopped", "cut off"])
def test_players_outlive_a_client_that_is_lost_and_train_for_the_next(owners, how, tmp_path):
    """What was spent for the lost one stays in every owner's ledger."""
    training = owners.train("client", 500)
    owners.wait_for("server0", "noise multiplier", training)
    time.sleep(np.random.default_rng(len(how)).uniform(0, 20))
    assert training.poll() is None, training.communicate()
    if how == "cut off":
        owners.hosts.pull("client")
    else:
        os.kill(training.pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    before, begin, report = owners.spent(), time.monotonic(), tmp_path / "report.json"
    if how == "stopped":  # it still has its host's ports
        _, err = owners.train("client", 2).communicate(timeout=PATIENCE)
        assert "must be a port that is free on this host" in err, err
        training.kill()
    following = owners.train("server0" if how == "cut off" else "client", 2, "--json", report)
    _, err = following.communicate(timeout=PATIENCE)
    print(f"{how}: the next ended after {time.monotonic() - begin:.0f} s; {before} spent before")
    training.kill()
    assert following.returncode == 0, err
    assert all(process.poll() is None for process in owners.players.values())
    assert all(now >= then > 0 for now, then in zip(owners.spent(), before, strict=True))


DIAL = """
import sys
from dataclasses import replace
from pathlib import Path
from extensions.transport import Federation, Identity, Local
from extensions.transport.handshake import connect_to

own, found = Identity.read(Path(sys.argv[2])), Federation.read(Path(sys.argv[1]))
Local.__post_init__ = lambda self: None  # a program that does not look whether it is a member
Local.rank = None
connect_to(Local(own, found), found.members[0], "player", seconds=10)
"""
