"""Parties that were started one by one meet over TLS, compute, and name whoever is lost."""

import signal

import pytest

from extensions.runs.options import Meeting
from extensions.runs.processes.credentials import federation_of
from extensions.transport import make
from tests.crypten_ext.test_launch import by_hand, last_line
from tests.helpers.federations import identities, listeners
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused


@pytest.fixture
def place(tmp_path):
    """The rendezvous of three parties whose keys lie beside it."""
    own, places = identities(tmp_path, "p0", "p1", "p2"), listeners(3)
    federation_of(own, places).write(tmp_path / "federation.toml")
    for one in places:
        one.close()
    return f"tls://{tmp_path}/federation.toml"


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_a_party_that_is_killed_is_named_by_the_others(place, victim):
    with by_hand(3, "join and work", 1.5, 15.0, rendezvous=place) as processes:
        processes[victim].kill()
        for process in processes[:victim] + processes[victim + 1 :]:
            assert last_line(process).startswith(f"party {victim} ")
            assert process.returncode == 1


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_party_that_is_stopped_is_named_within_the_silence(place, victim):
    with by_hand(3, "join and work", 1.0, 10, rendezvous=place) as processes:
        processes[victim].send_signal(signal.SIGSTOP)
        for process in processes[:victim] + processes[victim + 1 :]:
            out, complaints = process.communicate(timeout=PATIENCE)
            assert out == "tidied up\n"
            assert complaints.splitlines()[-1] == f"party {victim} stopped answering for 10 s"
            assert process.returncode == 1


def test_a_party_s_rank_and_number_are_those_of_the_federation(place, tmp_path):
    meeting = Meeting(rank=1, rendezvous=place, key=tmp_path / "p1.pem")
    assert meeting.local(3).member.name == "p1"
    with refused("world_size", "value", value=2):
        meeting.local(2)
    with refused("rank", "value", value=2):
        Meeting(rank=2, rendezvous=place, key=tmp_path / "p1.pem").local(3)
    with refused("key", "missing", None):
        Meeting(rank=1, rendezvous=place)
    with refused("key", "conflict", str(tmp_path / "p1.pem")):
        Meeting(rank=1, rendezvous="tcp://127.0.0.1:7000", key=tmp_path / "p1.pem")
    make("stranger", tmp_path / "stranger.pem")
    with refused("key", "value", str(tmp_path / "stranger.pem")):
        Meeting(rank=1, rendezvous=place, key=tmp_path / "stranger.pem").local(3)
