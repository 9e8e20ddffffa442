"""CrypTen's third party: right tuples, from keyed streams, and its name if it is lost."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from crypten_ext.processes.launch import Parties, PartyFailedError
from extensions.errors import ArgumentError, PartyLostError, ThirdPartyLostError
from tests.conftest import SHARED
from tests.helpers.claims import claim
from tests.helpers.commands import assert_all_end, assert_dies_with, is_alive, pea
from tests.helpers.openings import uniform_p_value
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE
from tests.helpers.strategies import ALARM

pytestmark = [pytest.mark.usefixtures("imported"), pytest.mark.xdist_group(SHARED["pools"])]

DEALT = "tests.helpers.party_tasks.dealer:"
TASKS = "tests.helpers.party_tasks.third_party"


@pytest.fixture(scope="module")
def pool() -> Iterator[Parties]:
    with Parties(2, timeout=PATIENCE, provider="ttp", env={"PYTHONWARNINGS": "error"}) as parties:
        yield parties
        pid = parties.dealer_pid
    assert pid is not None
    assert_all_end([pid])


# --- streams ------------------------------------------------------------------------------------


@pytest.mark.long
def test_32_bits_of_seed_give_a_tuple_away_until_the_streams_are_keyed(pool):
    """The pool's first draw: it shows what is wrong, and then that it no longer is."""
    for drawn in pool.run(f"{TASKS}:draw"):
        assert drawn.pop("guess") == drawn["CrypTen"]
        words = {word for eight in drawn.values() for word in eight}
        assert len(words) == 4 * 8


def by_hand(folder: Path, server: str) -> tuple[int, str, str]:
    """Returns party 0's exit status, output and complaints; two parties and a third one."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "RENDEZVOUS": f"file://{folder}/rendezvous",
        "WORLD_SIZE": "2",
    }
    with ExitStack() as stack:
        first, second, third = (
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", TASKS, role],
                    env={**environment, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for rank, role in enumerate(("party", "party", server))
        )
        for process in (first, second, third):
            stack.callback(process.kill)
        out, err = first.communicate(timeout=PATIENCE)
        if server != "CrypTen's server":
            assert third.wait(PATIENCE) == 0, third.communicate()[1]
        return first.returncode, out, err


@pytest.mark.long
def test_tuples_do_not_come_from_generators_that_a_script_can_seed(tmp_path):
    """Every process seeds torch alike, also the third party's; CrypTen's own is ours if enabled."""
    drawn = set()
    for run in ("server", "CrypTen's server, enabled"):
        (tmp_path / run).mkdir()
        status, out, err = by_hand(tmp_path / run, run)
        assert status == 0, err
        drawn |= set(out.split())
    assert len(drawn) == 2 * 8


@pytest.mark.long
def test_crypten_s_own_server_is_refused(tmp_path):
    status, out, err = by_hand(tmp_path, "CrypTen's server")
    assert (status, out) == (1, "")
    assert "third party did not agree on keys. CrypTen's own TTPServer draws from 32 seed" in err
    assert "Traceback" not in err


# --- tuples -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["host_tuples", "own_tuples"])
def test_opened_tuples_fulfil_their_relations(pool, task):
    for right in pool.run(DEALT + task, provider="TTP"):
        assert len(right) > 5
        assert [kind for kind, holds in right.items() if not holds] == []


@claim("Every opened word is masked.")
def test_every_opened_word_is_masked(pool):
    opened, *_ = pool.run("tests.helpers.party_tasks.openings:opened", provider="TTP")
    assert uniform_p_value(opened) > ALARM


def test_results_are_those_of_the_first_party(pool):
    (dealt,) = pool.run(DEALT + "compute", provider="TTP")[0]
    (first,) = pool.run(DEALT + "compute", provider="INSECURE_TFP")[0]
    x = torch.linspace(0.5, 40.0, 12)
    assert torch.all(dealt["root"] <= 1 / x.sqrt() + 2**-15)
    for key in ("root", "clipped", "product"):
        torch.testing.assert_close(dealt[key], first[key], rtol=0, atol=2**-9)


# --- deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (signal.SIGKILL, r"was killed by signal 9 \(SIGKILL\)\."),
        pytest.param(signal.SIGSTOP, r"stopped answering for 10 s\.", marks=pytest.mark.long),
    ],
)
def test_a_third_party_that_is_lost_is_named(sent, reason):
    with Parties(2, timeout=PATIENCE, silence=10, provider="ttp") as parties:

        def strike(rank: int, event: dict[str, Any]) -> None:
            if rank == 0:
                os.kill(parties.dealer_pid, sent)

        with pytest.raises(ThirdPartyLostError, match=f"^the third party {reason}$"):
            parties.run(DEALT + "multiply_forever", provider="TTP", on_event=strike)
        assert not any(map(is_alive, [*parties.pids, parties.dealer_pid]))


@pytest.mark.long
def test_a_party_that_dies_is_named_though_the_third_party_follows():
    with Parties(2, timeout=PATIENCE, provider="ttp") as parties:
        with pytest.raises(PartyLostError, match="^party 1 was killed by signal 9"):
            parties.run(
                DEALT + "multiply_forever",
                provider="TTP",
                on_event=lambda *_: os.kill(parties.pids[1], signal.SIGKILL),
            )
        assert not any(map(is_alive, [*parties.pids, parties.dealer_pid]))


@pytest.mark.long
def test_what_the_third_party_cannot_answer_ends_the_run_with_its_last_lines():
    with (
        Parties(2, timeout=PATIENCE, provider="ttp") as parties,
        pytest.raises(ThirdPartyLostError, match="exited with status 1") as caught,
    ):
        parties.run(f"{TASKS}:ask_nonsense")
    assert "no such function" in "".join(caught.value.__notes__)


@pytest.mark.long
def test_a_party_that_raises_is_named():
    with (
        Parties(2, timeout=PATIENCE, provider="ttp") as parties,
        pytest.raises(PartyFailedError, match="^party 1 raised ValueError: the step is too long"),
    ):
        parties.run("tests.helpers.party_tasks.launch:raise_in", culprit=1)


@pytest.mark.long
def test_a_third_party_ends_with_its_launcher():
    code = (
        "import time; from crypten_ext.processes.launch import Parties\n"
        "with Parties(2, provider='ttp') as parties:\n"
        "    print(parties.dealer_pid, flush=True)\n"
        "    time.sleep(900)\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert_dies_with(launcher)


# --- the command and the launcher ----------------------------------------------------------------


def test_the_command_offers_others():
    refused = pea("train", "--epsilon", "2", "--delta", "1e-5", "--provider", "ttp")
    assert refused.returncode == 1
    assert all(name in refused.stderr for name in ("dealer", "parties", "tfp"))


@pytest.mark.parametrize(
    ("parties", "provider", "argument"), [(2, "HE", "provider"), (1, "ttp", "world_size")]
)
def test_what_cannot_deal_is_refused(parties, provider, argument):
    with pytest.raises(ArgumentError) as refused:
        Parties(parties, provider=provider)
    assert refused.value.argument == argument
