"""Parties are processes: they answer, their failures name the first, and none is left behind."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from crypten_ext.local_dealer import ADDRESS
from crypten_ext.processes import launch, liveness
from crypten_ext.processes.failures import PartyFailedError, is_connection_loss, root_cause
from crypten_ext.processes.interruption import SIGNAL
from crypten_ext.processes.launch import Parties, template_of
from crypten_ext.processes.liveness import Watch, watch_parties
from crypten_ext.processes.peers import Peers, farewell_of
from extensions.errors import ArgumentError, DealerLostError, PartyLostError, PeaError
from extensions.runs.budget.file import update
from extensions.runs.processes import LOST_STATUS, Failure, Process
from extensions.runs.processes.credentials import federation_of
from extensions.runs.processes.meeting import meeting_place
from extensions.transport import Local
from extensions.transport.key_value_store import KeyValueStore, StoreLostError
from tests.helpers.commands import assert_all_end, is_alive, parent_of
from tests.helpers.federations import at_once, identities, listeners
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tests.helpers.steps_memory import FEW

pytestmark = pytest.mark.usefixtures("imported")

TASKS = "tests.helpers.party_tasks.launch"


@pytest.fixture(scope="module")
def two() -> Iterator[Parties]:
    with Parties(2, timeout=PATIENCE, silence=10) as parties:
        yield parties


@pytest.fixture(scope="module")
def three() -> Iterator[Parties]:
    with Parties(3, timeout=PATIENCE) as parties:
        yield parties


@pytest.fixture(params=[2, 3])
def pool(request: pytest.FixtureRequest) -> Parties:
    parties: Parties = request.getfixturevalue({2: "two", 3: "three"}[request.param])
    return parties


# --- tasks and answers -------------------------------------------------------------------------


def test_answers_come_by_rank_and_the_parties_reach_each_other(pool: Parties) -> None:
    world_size = pool.world_size
    own = [{"own": 10 ** (rank + 1)} for rank in range(world_size)]
    answers = pool.run(f"{TASKS}:add", per_party=own, common=5)
    assert [answer["rank"] for answer in answers] == list(range(world_size))
    for rank, answer in enumerate(answers):
        assert answer["own"].tolist() == [10 ** (rank + 1) + 5] * 3
        assert answer["sum"] == sum(10 ** (rank + 1) for rank in range(world_size))
        assert 1 <= answer["threads"] <= max(1, (os.cpu_count() or 1) // world_size)


def test_the_pool_keeps_its_processes_and_their_state(two: Parties) -> None:
    first = two.run(f"{TASKS}:remember", per_party=[{"seen": 0}, {"seen": 1}])
    second = two.run(f"{TASKS}:remember", also="later")
    assert [answer["pid"] for answer in second] == [answer["pid"] for answer in first] == two.pids
    assert [answer["seen"] for answer in second] == [0, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each party imports CrypTen itself")
@pytest.mark.skipif(sys.platform != "linux", reason="what is freed is kept by glibc")
def test_a_party_takes_for_a_step_what_the_step_before_has_freed(two: Parties) -> None:
    assert max(two.run("tests.helpers.steps_memory:pages_of_steps")) < FEW


def test_crypten_is_imported_once_for_all_parties(three: Parties) -> None:
    (parent,) = {answer["parent"] for answer in three.run(f"{TASKS}:remember")}
    assert parent != os.getpid()
    assert Path(f"/proc/{parent}/status").read_text().count(f"PPid:\t{os.getpid()}\n") == 1


def test_events_arrive_in_order_from_every_party(three: Parties) -> None:
    events: list[tuple[int, int]] = []
    three.run(
        f"{TASKS}:count",
        upto=50,
        on_event=lambda rank, event: events.append((rank, event["number"])),
    )
    for rank in range(3):
        assert [number for party, number in events if party == rank] == list(range(50))


def test_what_a_task_prints_neither_shows_nor_disturbs(
    two: Parties, capfd: pytest.CaptureFixture[str]
) -> None:
    assert two.run(f"{TASKS}:chatter", size=100_000) == [0, 1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's socket tables")
def test_the_parties_use_the_loopback_interface_alone(three: Parties) -> None:
    for addresses in three.run(f"{TASKS}:local_addresses"):
        assert addresses
        assert set(addresses) <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_wrong_call_is_refused_before_anything_is_sent(two: Parties) -> None:
    with refused("task", "value", value="nowhere"):
        two.run("nowhere")
    with refused("per_party", "shape", "3 entries"):
        two.run(f"{TASKS}:count", per_party=[{}] * 3, upto=1)
    with refused("timeout", "value", value=0):
        two.run(f"{TASKS}:count", upto=1, timeout=0)
    with refused("world_size", "range", value=0):
        Parties(0)
    with pytest.raises(PeaError, match="never opened"):
        Parties(2).run(f"{TASKS}:count", upto=1)
    assert two.run(f"{TASKS}:count", upto=1) == [None, None]


# --- failures ----------------------------------------------------------------------------------


def test_the_party_that_raised_is_named_and_the_pool_closes() -> None:
    with Parties(2, timeout=PATIENCE) as parties:
        with pytest.raises(PartyFailedError) as caught:
            parties.run(f"{TASKS}:raise_in", culprit=1)
        assert str(caught.value) == "party 1 raised ValueError: the step is too long"
        assert (caught.value.rank, caught.value.exception_type) == (1, "ValueError")
        assert "raise_in" in "".join(caught.value.__notes__)
        assert not any(map(is_alive, parties.pids))
        with pytest.raises(PeaError, match=r"closed: party 1 raised ValueError.*new Parties"):
            parties.run(f"{TASKS}:count", upto=1)


def test_a_wrong_argument_in_all_parties_keeps_its_type() -> None:
    with Parties(2, timeout=PATIENCE) as parties, refused("noise_multiplier", "value", -1.0):
        parties.run(f"{TASKS}:refuse", value=-1.0)


def test_an_early_exit_is_told_with_the_last_words() -> None:
    with Parties(1, timeout=PATIENCE) as parties, pytest.raises(PartyLostError) as caught:
        parties.run(f"{TASKS}:end", status=3)
    assert str(caught.value) == "party 0 exited with status 3 before it was done"
    assert "last words" in "".join(caught.value.__notes__)


def test_a_result_that_cannot_travel_is_a_failure_of_its_party() -> None:
    with (
        Parties(1, timeout=PATIENCE) as parties,
        pytest.raises(PartyFailedError, match="party 0 raised"),
    ):
        parties.run(f"{TASKS}:unpicklable")


def test_a_killed_party_is_named_and_leaves_no_orphan() -> None:
    def kill(rank: int, event: dict[str, Any]) -> None:
        if rank == 0:
            os.kill(parties.pids[2], signal.SIGKILL)

    with Parties(3, timeout=PATIENCE) as parties:
        with pytest.raises(PartyLostError) as caught:
            parties.run(f"{TASKS}:work_forever", on_event=kill)
        assert str(caught.value) == "party 2 was killed by signal 9 (SIGKILL)"
        assert not any(map(is_alive, parties.pids))


def test_a_stopped_party_is_named(two: Parties) -> None:
    """The last test of this pool. The other party's signs of life count, no seconds."""

    def stop(rank: int, event: dict[str, Any]) -> None:
        os.kill(two.pids[1], signal.SIGSTOP)

    with pytest.raises(PartyLostError, match=r"^party 1 stopped answering for 10 s(\n|$)"):
        two.run(f"{TASKS}:work_forever", on_event=stop)
    assert not any(map(is_alive, two.pids))


def test_a_party_that_was_stopped_before_it_began_is_named(monkeypatch) -> None:
    started = []

    def start_stopped(program: str, *arguments: Any, **options: Any) -> Process:
        is_second = len(started) == 1  # a copy might give a sign before it can be stopped
        silent = "tests.helpers.silent" if is_second else program
        started.append(Process(silent, *arguments, **options))
        if is_second:
            os.kill(started[1].pid, signal.SIGSTOP)
        return started[-1]

    monkeypatch.setattr(launch, "Process", start_stopped)
    never = "^party 1 gave no sign of life within 2 s of its start$"
    with pytest.raises(PartyLostError, match=never), Parties(2, timeout=PATIENCE, starting=2.0):
        pass
    assert len(started) == 2
    assert not any(is_alive(process.pid) for process in started)


def test_a_task_that_takes_too_long_names_who_had_not_finished(three: Parties) -> None:
    """The last test of this pool."""
    with pytest.raises(PartyLostError, match=r"^party 1 .* after 10 s, nor had party 2$"):
        three.run(f"{TASKS}:sleep_in", sleepers=[1, 2], timeout=10)
    assert not any(map(is_alive, three.pids))


@pytest.mark.parametrize(
    ("number", "course"),
    [
        pytest.param(signal.SIGKILL, "launch", marks=pytest.mark.long),
        pytest.param(signal.SIGKILL, "launch in thread", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, "launch", marks=pytest.mark.long),
        pytest.param(signal.SIGINT, "launch", marks=pytest.mark.long),
    ],
)
def test_no_party_outlives_its_launcher(
    number: signal.Signals, course: str, tmp_path: Path
) -> None:
    with start_script(course, TMPDIR=str(tmp_path)) as launcher:
        assert launcher.stdout is not None
        pids = [int(word) for word in launcher.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        launcher.send_signal(number)
        launcher.wait(PATIENCE)
        assert_all_end(pids)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death")
def test_not_even_a_stopped_party_outlives_its_killed_launcher(tmp_path: Path) -> None:
    with start_script("launch", TMPDIR=str(tmp_path)) as launcher:
        assert launcher.stdout is not None
        pids = [int(word) for word in launcher.stdout.readline().split()]
        os.kill(pids[1], signal.SIGSTOP)
        launcher.kill()
        launcher.wait(PATIENCE)
        assert_all_end(pids)


def start_script(*arguments: str, **env: str) -> subprocess.Popen[str]:
    """A process that runs the script at the end of `tests.helpers.party_tasks.launch`."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", TASKS, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path),
            **env,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


# --- the cause among its consequences ----------------------------------------------------------

ECHO = Failure.of(RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer"))
OWN = Failure.of(ValueError("wrong"))
REFUSED = Failure.of(ArgumentError("sigma", -1, "positive"))
NO_DEALER = Failure.of(DealerLostError("closed its connection."))
NAMED = Failure.of(PartyLostError(2, "closed its connection"))


@pytest.mark.parametrize(
    ("failures", "ended", "kind", "text"),
    [
        ({0: ECHO, 1: OWN}, {}, PartyFailedError, "party 1 raised ValueError: wrong"),
        ({0: ECHO, 1: OWN}, {2: -9}, PartyLostError, "party 2 was killed by signal 9 (SIGKILL)"),
        ({0: ECHO}, {1: 1, 2: -11}, PartyLostError, "party 2 was killed by signal 11 (SIGSEGV)"),
        ({0: ECHO, 1: NAMED}, {}, PartyLostError, "party 2 closed its connection"),
        ({0: ECHO}, {}, PartyFailedError, f"party 0 raised RuntimeError: {ECHO.text}"),
        ({0: REFUSED, 1: REFUSED, 2: REFUSED}, {}, ArgumentError, REFUSED.text),
        ({0: ECHO, 1: NO_DEALER}, {}, DealerLostError, "the dealer closed its connection."),
        ({1: NO_DEALER}, {0: -9}, PartyLostError, "party 0 was killed by signal 9 (SIGKILL)"),
        ({1: REFUSED}, {}, PartyFailedError, f"party 1 raised ArgumentError: {REFUSED.text}"),
    ],
)
def test_the_root_cause_comes_before_its_echoes(
    failures: dict[int, Failure], ended: dict[int, int], kind: type[PeaError], text: str
) -> None:
    error = root_cause(failures, ended, world_size=3)
    assert type(error) is kind
    assert str(error) == text


# --- what parties are copies of ----------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="copies are Linux only")
def test_a_pool_is_made_of_what_a_block_around_it_began_to_import() -> None:
    env = {"NAME": "of this test"}
    with template_of(2, env=env, modules=["wave"]) as begun:
        assert begun is not None
        with Parties(2, env={**env, ADDRESS: "nobody:1"}, modules=["wave"]) as pool:
            of_parties = {parent_of(pid) for pid in pool.pids}
            elsewhere = [Parties(2, env=env), Parties(2, env={"NAME": "x"}, modules=["wave"])]
            for other in elsewhere:
                with template_of(2, env=other._env, modules=other._modules) as another:
                    assert another is not begun
        assert of_parties == {begun._process.pid}
        assert not begun.has_ended
    assert begun.has_ended


# --- parties started by hand -------------------------------------------------------------------

ENDINGS = (1, LOST_STATUS)
"""By the error, or by the watch that may not cut the connection in which the process is blocked."""


@contextmanager
def by_hand(
    world_size: int,
    course: str,
    interval: float,
    silence: float,
    rendezvous: str = "",
    first: str = "ready",
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that no launcher looks after, by default with a TCP rendezvous at rank 0."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "OMP_NUM_THREADS": "1",
        "RENDEZVOUS": rendezvous or f"tcp://127.0.0.1:{port}",
        "WORLD_SIZE": str(world_size),
    }
    processes = [
        start_script(course, str(interval), str(silence), **common, RANK=str(rank))
        for rank in range(world_size)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{first}\n"
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def last_line(process: subprocess.Popen[str]) -> str:
    return process.communicate(timeout=PATIENCE)[1].splitlines()[-1]


@pytest.mark.parametrize(
    ("world_size", "victim", "course", "interval", "silence"),
    [
        pytest.param(2, 1, "work", 0.5, 15.0, marks=pytest.mark.long),
        pytest.param(2, 0, "work", 0.5, 15.0, marks=pytest.mark.long),
        (2, 0, "join and work", 1.5, 15.0),
        pytest.param(2, 1, "work", 2.0, 20.0, marks=pytest.mark.long),
        pytest.param(3, 0, "work", 2.0, 20.0, marks=pytest.mark.long),
        pytest.param(3, 2, "work", 2.0, 20.0, marks=pytest.mark.long),
    ],
)
def test_a_party_killed_on_its_host_is_named_by_the_others(
    world_size: int, victim: int, course: str, interval: float, silence: float
) -> None:
    with by_hand(world_size, course, interval, silence) as processes:
        processes[victim].kill()
        for process in processes[:victim] + processes[victim + 1 :]:
            assert last_line(process).startswith(f"party {victim} ")
            assert process.returncode in (ENDINGS if course == "work" else (1,))


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_a_party_stopped_on_its_host_ends_the_blocked_one(victim: int) -> None:
    with by_hand(2, "work", 0.5, 10) as processes:
        processes[victim].send_signal(signal.SIGSTOP)
        line = last_line(processes[1 - victim])
    assert line == f"party {victim} stopped answering for 10 s"
    assert processes[1 - victim].returncode == LOST_STATUS


@pytest.mark.long
@pytest.mark.parametrize(("world_size", "victim"), [(2, 1), (2, 0), (3, 1)])
def test_parties_that_were_joined_end_in_order_when_one_is_stopped(
    world_size: int, victim: int
) -> None:
    """What the others' blocks have to tidy up is tidied up."""
    with by_hand(world_size, "join and work", 1.0, 10) as processes:
        processes[victim].send_signal(signal.SIGSTOP)
        for process in processes[:victim] + processes[victim + 1 :]:
            out, complaints = process.communicate(timeout=PATIENCE)
            assert out == "tidied up\n"
            assert complaints.splitlines()[-1] == f"party {victim} stopped answering for 10 s"
            assert process.returncode == 1


@pytest.mark.long
def test_a_party_that_computes_by_itself_ends_in_order_when_another_is_stopped() -> None:
    with by_hand(2, "join and compute", 1.0, 10) as processes:
        processes[1].send_signal(signal.SIGSTOP)
        out, complaints = processes[0].communicate(timeout=PATIENCE)
    assert out == "tidied up\n"
    assert complaints.splitlines()[-1] == "party 1 stopped answering for 10 s"
    assert processes[0].returncode == 1


@pytest.mark.long
def test_a_party_that_is_stopped_while_crypten_begins_is_named() -> None:
    with by_hand(2, "join and stop", 1.0, 10, first="present") as processes:
        line = last_line(processes[0])
    assert line == "party 1 stopped answering for 10 s"
    assert processes[0].returncode in ENDINGS


@pytest.mark.long
def test_every_party_names_the_one_that_raised_first(tmp_path: Path) -> None:
    with by_hand(3, "raise", 0.5, 30, rendezvous=f"file://{tmp_path}/meeting") as processes:
        for process in processes[:2]:
            assert last_line(process) == "party 2 raised ValueError"
            assert process.returncode in ENDINGS
        assert last_line(processes[2]).endswith("ValueError: of no interest to others")


@pytest.mark.long
def test_the_host_of_the_store_may_finish_before_the_others() -> None:
    with by_hand(3, "leave early", 0.5, 8) as processes:
        for process in processes:
            _, complaints = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, complaints


def test_watching_needs_an_initialised_crypten() -> None:
    with pytest.raises(PeaError, match=r"call crypten\.init\(\) first"):
        watch_parties()
    with refused("silence", "value", value=5):
        watch_parties(interval=2, silence=5)


def test_a_farewell_comes_before_a_silence_and_names_the_first() -> None:
    peers = Peers([0, 2, 3])
    peers.hear({0: "alive 1", 2: "alive 1", 3: "alive 1"}, 1.0)
    assert peers.lost(2.0) is None
    peers.hear({0: "alive 2", 2: "alive 1", 3: "bye"}, 2.0)
    assert str(peers.lost(2.0)) == "party 2 stopped answering for 2 s"
    peers.hear({0: "lost 3 raised ValueError", 2: "alive 1", 3: "bye"}, 2.0)
    assert str(peers.lost(2.0)) == "party 3 raised ValueError"
    assert peers.nobody_left(4.0)
    assert not peers.nobody_left(5.0)


@pytest.mark.parametrize(
    ("error", "farewell", "told"),
    [
        (DealerLostError("closed its connection."), "no dealer closed its connection.", None),
        (PartyLostError(2, "is gone"), "lost 2 is gone", None),
        (ValueError("a secret"), "raised ValueError", PartyLostError(1, "raised ValueError")),
    ],
)
def test_a_loss_is_told_as_what_it_is(
    error: Exception, farewell: str, told: Exception | None
) -> None:
    assert farewell_of(error) == farewell
    peers = Peers([1])
    peers.hear({1: farewell}, 1.0)
    lost = peers.lost(20.0)
    assert (type(lost), str(lost)) == (type(told or error), str(told or error))
    assert peers.nobody_left(20.0)


def test_a_killed_party_is_named_by_two_exchanges_of_statuses_without_any_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Party 1 is dead, which party 2 has found, and party 0 must hear of from it.

    By the clock nothing would happen for an hour.
    """
    monkeypatch.setattr(liveness.atexit, "register", lambda _: None)
    board, watches = KeyValueStore(), {}
    for rank in (0, 2):
        watches[rank] = Watch(
            board, has_host=True, rank=rank, world_size=3, interval=3600.0, silence=36000.0
        )
        watches[rank]._key = watches[0]._key  # as in processes of their own

    def party_2() -> None:
        with watches[2]:
            wait_until(lambda: watches[2]._exchanges)
            raise PartyLostError(1, "closed its connection; nobody listens any more")

    def party_0() -> None:
        with watches[0] as own:
            wait_until(lambda: own._exchanges and watches[2]._verdict)
            before = own._exchanges
            wait_until(lambda: board.get(f"{watches[2]._key}2").startswith(b"lost"))
            own.look()  # its connection with party 2 broke
            wait_until(lambda: own._verdict)
            assert own._exchanges <= before + 2
            raise PartyLostError(2, "closed its connection")

    for lost in at_once(party_0, party_2):
        assert isinstance(lost, PartyLostError)
        assert str(lost) == "party 1 closed its connection; nobody listens any more"
    assert max(watch._exchanges for watch in watches.values()) <= 8


def test_a_party_that_waits_for_a_lock_of_a_lost_one_is_interrupted_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Party 0 never says anything, and holds the folder of both ledgers.

    SIGINT is ignored, as by what a shell starts in the background.
    """
    monkeypatch.setattr(liveness.atexit, "register", lambda _: None)
    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr(liveness.os, "_exit", lambda _: os.close(held))  # it would be the end
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.getsignal(SIGNAL)
    watch = Watch(
        KeyValueStore(), has_host=True, rank=1, world_size=2, interval=0.05, silence=0.5, cuts=True
    )
    try:
        with pytest.raises(PartyLostError, match="^party 0 stopped answering for 0.5 s$"), watch:
            update(tmp_path / "ledger.json", lambda account: account)
        assert signal.getsignal(SIGNAL) == before[1]
    finally:
        signal.signal(signal.SIGINT, before[0])
    os.close(held)


def test_the_board_of_a_party_that_has_ended_is_given_up_at_once(tmp_path: Path) -> None:
    """While its port refuses connections it is not dialled again."""
    own, places = identities(tmp_path, "p0", "p1"), listeners(2)
    first, second = (Local(one, federation_of(own, places)) for one in own)
    for place in places:
        place.close()
    with ExitStack() as until_over:
        with meeting_place(first, PATIENCE):
            board = until_over.enter_context(meeting_place(second, PATIENCE, PATIENCE)).board
            assert board.get("name") == b""
        with pytest.raises(StoreLostError, match="nobody listens at .* any more"):
            board.get("name")


def test_words_of_a_peer_cannot_control_the_terminal() -> None:
    peers = Peers([1])
    peers.hear({1: "raised \x1b[2JError\n" + "x" * 1000}, 1.0)
    lost = str(peers.lost(2.0))
    assert lost.startswith("party 1 raised [2JErrorx")
    assert lost.isprintable()
    assert len(lost) < 250


def test_a_party_that_left_in_peace_is_not_silent_but_may_be_missed() -> None:
    peers = Peers([0, 1])
    peers.hear({0: "bye", 1: "alive 1"}, 100.0)
    peers.hear({0: "bye", 1: "alive 2"}, 100.0)
    assert peers.lost(2.0) is None
    assert str(peers.likely_lost(out_of_touch=False)).startswith("party 0 finished while")
    assert str(peers.likely_lost(out_of_touch=True)) == "party 1 closed its connection"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("peer"), True),
        (PartyLostError(1, "is gone"), True),
        (RuntimeError("[third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error"), True),
        (RuntimeError("shape mismatch"), False),
        (ValueError("gloo"), False),
    ],
)
def test_broken_connections_are_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_connection_loss(Failure.of(error)) is expected
