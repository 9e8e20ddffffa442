"""The dealer: right tuples, no rounds more, no data seen, and no wrong correction ever used."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from crypten_ext.dealer import messages, serve
from crypten_ext.dealer.client import Client
from crypten_ext.dealer.connection import LARGEST, listener
from crypten_ext.dealer.corrections import Corrections
from crypten_ext.dealer.messages import Tag
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.server import Dealt
from crypten_ext.dealer.streams import tuple_stream
from crypten_ext.local_dealer import ADDRESS, local_end_at
from crypten_ext.processes.launch import Parties
from extensions.errors import DealerLostError, PartyLostError, PeaError
from extensions.runs.config import TrainConfig
from extensions.transport.endpoint import HEADER
from extensions.transport.reconnecting import Reconnector
from extensions.transport.reliable_channel import ReliableChannel
from tests.conftest import SHARED
from tests.helpers.claims import claim
from tests.helpers.commands import assert_dies_with, pea
from tests.helpers.federations import meshes
from tests.helpers.openings import uniform_p_value
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.refused import refused
from tests.helpers.strategies import ALARM

pytestmark = pytest.mark.usefixtures("imported")

TASKS = "tests.helpers.party_tasks.dealer:"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(2, marks=pytest.mark.long),
        pytest.param(3, marks=pytest.mark.xdist_group(SHARED["dealer_pool"])),
    ],
    ids=["2 parties", "3 parties"],
)
def pool(request: pytest.FixtureRequest) -> Iterator[Parties]:
    if request.param == 3:
        yield request.getfixturevalue("dealer_pool")
        return
    with Parties(request.param, timeout=PATIENCE, provider="dealer") as parties:
        yield parties


# --- tuples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("host_tuples", {"provider": "DEALER"}),
        ("own_tuples", {"provider": "DEALER"}),
        ("own_tuples", {"provider": "INSECURE_TFP"}),
    ],
)
def test_opened_tuples_fulfil_their_relations(pool, task, arguments):
    for right in pool.run(TASKS + task, **arguments):
        assert len(right) > 5
        assert [kind for kind, holds in right.items() if not holds] == []


def test_shares_of_a_mask_differ_between_parties_and_draws(pool):
    draws = [pool.run(TASKS + "shares_of_a_mask") for _ in range(2)]
    words = {word for shares in draws for share in shares for word in share}
    assert len(words) == 2 * 8 * pool.world_size


@claim("Every opened word is masked.")
def test_every_opened_word_is_masked(pool):
    opened, *_ = pool.run("tests.helpers.party_tasks.openings:opened", provider="DEALER")
    assert uniform_p_value(opened) > ALARM


def test_results_and_rounds_are_those_of_the_first_party(pool):
    (dealt,) = pool.run(TASKS + "compute", provider="DEALER")[0]
    (first,) = pool.run(TASKS + "compute", provider="INSECURE_TFP")[0]
    assert dealt["rounds"] == first["rounds"]
    x = torch.linspace(0.5, 40.0, 12)
    assert torch.all(dealt["root"] <= 1 / x.sqrt() + 2**-15)
    torch.testing.assert_close(dealt["root"], 1 / x.sqrt(), rtol=2e-3, atol=2**-12)
    for key in ("root", "clipped", "product"):
        torch.testing.assert_close(dealt[key], first[key], rtol=0, atol=2**-9)


def test_training_waits_for_no_correction_from_the_second_step_on(pool):
    dealt = pool.run(TASKS + "train", provider="DEALER", steps=3)
    first = pool.run(TASKS + "train", provider="INSECURE_TFP", steps=3)
    assert [d["rounds"] for d in dealt] == [f["rounds"] for f in first]
    torch.testing.assert_close(dealt[0]["weight"], first[0]["weight"], rtol=0, atol=1e-4)
    assert dealt[0]["weight"].abs().max() > 0.05
    one, *later = dealt[-1]["announced"]
    assert one > 0
    assert set(later) == {one}
    assert dealt[0]["corrected_bytes"] == dealt[-1]["corrected_bytes"] > 0


def test_a_step_unlike_the_last_is_dealt_right(pool):
    outcomes = pool.run(TASKS + "irregular")
    assert all(outcome["right"] for outcome in outcomes)
    announced = outcomes[-1]["announced"]
    assert [i for i, count in enumerate(announced) if count] == [0, 3, 6, 7]


def test_no_dealer_is_an_error_that_says_what_to_do():
    with Parties(1) as parties, pytest.raises(PeaError, match="This run needs a dealer. Start"):
        parties.run(TASKS + "shares_of_a_mask")


# --- what the dealer sees -----------------------------------------------------------------------


@contextmanager
def dealer_here(parties: int, outcome: dict[str, Any]) -> Iterator[str]:
    """A dealer in a thread; its address. Afterwards `outcome` has its view and how it ended."""
    outcome["view"] = {rank: [] for rank in range(parties)}

    def work(listener: socket.socket) -> None:
        try:
            outcome["dealt"] = serve(
                listener, parties, view=lambda rank, seen: outcome["view"][rank].append(seen)
            )
        except PartyLostError as lost:
            outcome["lost"] = lost

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=work, args=[listener], daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE)
        assert not thread.is_alive()


def come(address: str, rank: int, parties: int) -> Client:
    """A party's client of a dealer of this user on this machine."""
    return Client.connected(partial(local_end_at, address, rank, parties))


def view_of_run(scale: float) -> dict[int, list[bytes]]:
    outcome: dict[str, Any] = {}
    with dealer_here(2, outcome) as address, Parties(2, env={ADDRESS: address}) as parties:
        parties.run(TASKS + "compute", provider="DEALER", scale=scale, repeat=4)
        parties.run(TASKS + "say_goodbye")
    assert isinstance(outcome["dealt"], Dealt)
    view: dict[int, list[bytes]] = outcome["view"]
    return view


@claim("The view of the dealer is the same whatever the data are.")
def test_the_view_of_the_dealer_does_not_depend_on_data():
    one, other = view_of_run(1.0), view_of_run(7.5)
    for rank in range(2):
        assert one[rank] == other[rank]
        assert one[rank][-1] == messages.BYE
    assert one[0] == one[1]
    parsed = [json.loads(message) for message in one[1]]
    assert {message["say"] for message in parsed} == {"tuple", "plan", "step", "bye"}
    allowed = {"say", "generation", "sequence", "requests"}
    assert {key for message in parsed for key in message} == allowed


# --- corrections that cannot be used ------------------------------------------------------------

SQUARE = Request.of("square", (4,))


class Pair:
    """A party's end, and the dealer's, over TLS."""

    def __init__(self, folder: Path, latest: float = PATIENCE) -> None:
        self.dealer, party = meshes(folder, 2)
        self.corrections = Corrections(partial(ReliableChannel, party, LARGEST), latest)
        self.heard: list[messages.Announcement] = []

    def say(self, message: bytes) -> None:
        self.dealer.wait([self.dealer.send(1, memoryview(message))])

    def take(self, sequence: int, answer: bytes) -> torch.Tensor:
        """What the party takes if the dealer answers thus."""

        def reply() -> None:
            self.heard.append(messages.parse(self.dealer.receive_any(1, LARGEST)))
            self.say(answer)

        with ThreadPoolExecutor(1) as pool:
            replied = pool.submit(reply)
            try:
                return self.corrections.take(sequence, SQUARE, 4)
            finally:
                replied.result(PATIENCE)

    def close(self) -> None:
        self.dealer.close()
        self.corrections.post.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def correction(sequence: int, *, generation: int = 1, request: Request = SQUARE) -> bytes:
    return messages.pack(Tag(generation, sequence, request.digest), bytes(range(32)))


def test_a_correction_is_what_was_sent(pair):
    assert pair.take(7, correction(7)).numpy().tobytes() == bytes(range(32))
    (said,) = pair.heard
    assert (said.sequence, said.requests) == (7, (SQUARE,))


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (correction(8), "^the dealer sent a correction for another tuple than number 7"),
        (correction(7, request=Request.of("square", (2, 2))), "^the dealer .* another tuple"),
        (correction(7, generation=2), "^the dealer sent a correction for another tuple"),
        (correction(7)[:-8], "^the dealer sent a correction of 24 bytes where 32 were due"),
        (correction(7) + bytes(8), "^the dealer sent a correction of 40 bytes where 32 were due"),
        (b"short", "^the dealer sent a message of 5 bytes"),
    ],
    ids=["number", "shape", "generation", "too short", "too long", "no tag"],
)
def test_another_correction_is_refused(pair, sent, message):
    with pytest.raises(DealerLostError, match=message):
        pair.take(7, sent)


def test_corrections_of_an_outdated_plan_are_dropped(pair):
    pair.take(6, correction(6))
    pair.say(correction(7))
    assert len(pair.take(7, correction(7, generation=2))) == 4


def test_the_answer_to_another_party_that_asked_before_is_kept(pair):
    pair.take(6, correction(6))
    pair.say(correction(7))  # of what was expected
    pair.say(correction(7, generation=2))
    wait_until(lambda: len(pair.corrections._queue) == 2, "both messages")
    assert len(pair.corrections.take(7, SQUARE, 4)) == 4


def test_a_message_cut_short_is_refused(pair):
    connection = pair.dealer._ends[1].connection
    connection.send(HEADER.pack(100, 0, 0, 0) + bytes(50))
    connection.close()
    with pytest.raises(DealerLostError, match="^the dealer closed its connection: "):
        pair.corrections.take(7, SQUARE, 4)


def test_a_late_correction_is_given_up(tmp_path):
    pair = Pair(tmp_path, latest=0.3)
    with pytest.raises(DealerLostError, match=r"^the dealer sent no correction for 0\.3 s"):
        pair.corrections.take(7, SQUARE, 4)
    pair.close()


def test_the_loss_of_a_party_is_told_by_its_rank(pair):
    pair.say(messages.farewell(PartyLostError(1, "closed its connection to the dealer")))
    with pytest.raises(PartyLostError, match="^party 1 closed its connection to the dealer$"):
        pair.corrections.take(7, SQUARE, 4)


def test_the_queue_is_bounded_and_a_new_plan_empties_it(pair, monkeypatch):
    monkeypatch.setattr("crypten_ext.dealer.corrections.QUEUE_BYTES", 1 << 20)
    pair.take(0, correction(0))
    sent: list[int] = []

    def flood() -> None:
        for i in range(20):
            pair.say(messages.pack(Tag(1, 1 + i, SQUARE.digest), bytes(8 << 20)))
            sent.append(i)

    thread = threading.Thread(target=flood)
    thread.start()
    wait_until(lambda: sent, "the first message")
    thread.join(1.0)
    assert thread.is_alive()
    assert len(sent) < 10
    pair.corrections.begin_step(1)
    pair.corrections._recorded = [SQUARE]
    pair.corrections.begin_step(1)  # announces a plan, so that what was sent is of no use
    thread.join(PATIENCE)
    assert len(sent) == 20
    pair.say(correction(1, generation=2))
    assert len(pair.corrections.take(1, SQUARE, 4)) == 4


# --- streams ------------------------------------------------------------------------------------


def test_a_tuple_that_was_expected_in_vain_shares_no_words_with_the_one_in_its_place():
    key = os.urandom(32)
    other = Request.of("square", (5,))
    drawn = {
        tuple(tuple_stream(key, sequence, request).words((4,)).tolist())
        for sequence, request in ((0, SQUARE), (0, other), (1, SQUARE))
    }
    assert len(drawn) == 3
    again = tuple_stream(key, 0, SQUARE).words((4,))
    assert tuple(again.tolist()) in drawn


def test_requests_survive_the_wire():
    request = Request.of(
        "additive", "conv1d", torch.Size((2, 3, 4)), [4, 3, 3], (), (("stride", 2),)
    )
    sent = messages.announcement(1, 2, [request], plan=True)
    (received,) = messages.parse(sent).requests
    assert received == request
    assert received.digest == request.digest != SQUARE.digest


@pytest.mark.parametrize(
    ("request_", "name", "value"),
    [(("additive", "save", (1,), (1,), (), ()), "op", "save"), (("secrets",), "kind", "secrets")],
)
def test_nothing_else_can_be_asked_for(request_, name, value):
    with refused(name, "choice", value):
        recipe_of(Request.of(*request_))
    with refused("parameter", "type", value="Tensor"):
        Request.of("square", torch.ones(2))


# --- deaths -------------------------------------------------------------------------------------


def test_a_dealer_that_dies_is_named():
    with Parties(2, timeout=PATIENCE, provider="dealer") as parties:
        dealer_pid = parties.dealer_pid

        def kill(rank: int, event: dict[str, Any]) -> None:
            if rank == 0:
                os.kill(dealer_pid, signal.SIGKILL)

        with pytest.raises(DealerLostError, match=r"^the dealer was killed by signal 9"):
            parties.run(TASKS + "multiply_forever", on_event=kill)


@pytest.mark.long
def test_a_dealer_elsewhere_that_dies_is_named_by_the_party_that_needs_it():
    code = "import sys, socket; from crypten_ext.dealer import serve;"
    code += "l = socket.create_server(('127.0.0.1', 0)); print(l.getsockname()[1], flush=True);"
    elsewhere = subprocess.Popen(
        [sys.executable, "-c", code + "serve(l, 2)"], stdout=subprocess.PIPE, text=True
    )
    with elsewhere:
        assert elsewhere.stdout is not None
        address = f"127.0.0.1:{elsewhere.stdout.readline().strip()}"
        with (
            Parties(2, timeout=PATIENCE, env={ADDRESS: address}) as parties,
            pytest.raises(DealerLostError, match="^the dealer c"),
        ):
            parties.run(TASKS + "multiply_forever", on_event=lambda *_: elsewhere.kill())
        assert elsewhere.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.long
def test_a_dealer_that_stops_is_named():
    with (
        Parties(2, timeout=PATIENCE, provider="dealer") as parties,
        pytest.raises(DealerLostError, match=r"^the dealer (stopped answering for 20|sent no c)"),
    ):
        parties.run(
            TASKS + "multiply_forever",
            on_event=lambda *_: os.kill(parties.dealer_pid, signal.SIGSTOP),
        )


def test_a_dealer_ends_with_a_party_that_dies(monkeypatch):
    monkeypatch.setattr(listener, "Reconnector", partial(Reconnector, seconds=1.0))
    outcome: dict[str, Any] = {}
    with (
        dealer_here(3, outcome) as address,
        Parties(3, timeout=PATIENCE, env={ADDRESS: address}) as parties,
        pytest.raises(PartyLostError, match="^party 0 was killed"),
    ):
        parties.run(
            TASKS + "multiply_forever",
            on_event=lambda rank, _: rank or os.kill(parties.pids[0], signal.SIGKILL),
        )
    assert outcome["lost"].rank == 0


def test_a_dealer_ends_with_its_launcher():
    code = (
        "import time; from crypten_ext.processes.launch import Parties\n"
        "with Parties(1, provider='dealer') as parties:\n"
        f"    parties.run('{TASKS}shares_of_a_mask')\n"
        "    print(parties.dealer_pid, flush=True)\n"
        "    time.sleep(900)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert_dies_with(launcher)


@pytest.mark.long
def test_memory_of_the_dealer_is_flat_over_a_thousand_steps():
    sizes = []

    def weigh(rank: int, event: dict[str, Any]) -> None:
        if rank == 1:
            status = Path(f"/proc/{parties.dealer_pid}/status").read_text()
            sizes.append(int(status.partition("VmRSS:")[2].split()[0]))

    with Parties(2, timeout=PATIENCE, provider="dealer") as parties:
        dealt = parties.run(TASKS + "repeat_step", steps=1000, size=20_000, on_event=weigh)
    assert dealt == [1000 * 2 * 8 * 20_000] * 2
    assert max(sizes[4:]) - sizes[3] < 8 << 10  # KiB; one step's corrections are 312 KiB


# --- the command --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("provider", "title"), [("dealer", "dealer"), ("tfp", "first party trusted")]
)
def test_a_run_reports_its_provider(tmp_path, provider, title):
    report = tmp_path / "run.json"
    arguments = "train --parties 2 --epsilon 2 --delta 1e-5 --steps 2 --provider"
    result = pea(*arguments.split(), provider, "--json", report)
    assert result.returncode == 0, result.stderr
    assert ("must not collude" in " ".join(result.stderr.split())) == (provider == "dealer")
    run = json.loads(report.read_text())
    assert run["provider"] == title
    assert (run["dealt_bytes"][1] > 100_000) == (provider == "dealer")
    assert run["rounds"] == 1 + 2 * 18


def test_the_provider_must_be_one_that_can_run():
    with refused("provider", "choice", "HE"):
        TrainConfig(provider="HE", private=False)  # type: ignore[arg-type]
