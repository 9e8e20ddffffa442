"""Trainings over links of which a player or the client is killed or stopped at a random moment.

PEA_TEST_FAULTS says how many trainings (8, every harm to every role once); the seed of each is its
number. The client names a player that is lost, players wait for the next client, the training goes
on from its checkpoint, and no owner's ledger has less than what was spent.
"""

import os
import signal
import time
from contextlib import ExitStack
from itertools import product

import numpy as np
import pytest

from extensions.runs.budget import path_of
from tests.helpers.hosts_apart import Hosts, needs_root
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.players import SERVERS
from tests.tfe_ext.test_compat import needs_tensorflow
from tests.tfe_ext.test_tls import NAMED_WITHIN, Owners

pytestmark = [pytest.mark.long, needs_tensorflow, needs_root]

TRAININGS = int(os.environ.get("PEA_TEST_FAULTS", "8"))
CLIENT = "client"
KINDS = [*product((*SERVERS, CLIENT), (signal.SIGKILL, signal.SIGSTOP))]
EPSILON, STEPS = 2.0, 200
PAID = 0.98 * EPSILON
STATED = "epsilon 2"
"""What a player prints of the run that a client begins."""
FINISHED = "of a run that is not finished"
TOO_EARLY = ("a folder with a checkpoint of party", "that all parties have a checkpoint of")


@pytest.fixture(scope="module")
def owners(tmp_path_factory):
    with Hosts([*SERVERS, CLIENT]) as hosts, ExitStack() as stack:
        yield Owners(tmp_path_factory.mktemp("faults"), hosts, stack)


def training(owners, folder, *options):
    """Starts the training that keeps its checkpoints in the folder."""
    kept = ("--checkpoint", folder, "--checkpoint-every", 20, *options)
    return owners.train(CLIENT, STEPS, *kept, privacy=("--epsilon", EPSILON))


def stated(owners):
    """How many runs clients have stated to the last player since it started."""
    return (owners.folder / f"{SERVERS[-1]}.txt").read_text().count(STATED)


@pytest.mark.parametrize("seed", range(TRAININGS))
def test_a_lost_player_is_named_a_lost_client_missed_by_nobody_and_no_budget_is_lost(owners, seed):
    (role, how), draws = KINDS[seed % len(KINDS)], np.random.default_rng(seed)
    folder = owners.folder / f"kept-{seed}"
    for records in owners.records.values():
        path_of(records).unlink(missing_ok=True)
    before, client = stated(owners), training(owners, folder)
    wait_until(lambda: client.poll() is not None or stated(owners) > before, "a stated run")
    moment = draws.uniform(0, 20)  # while it traces, trains or opens
    time.sleep(moment)
    victim = client if role == CLIENT else owners.players[role]
    begin = time.monotonic()
    os.kill(victim.pid, how)
    if role == CLIENT:  # whose stop no player has to notice: it holds nothing of theirs
        client.kill()
    _, err = client.communicate(timeout=PATIENCE)
    took = time.monotonic() - begin
    print(f"{seed}: {role} {how.name} {moment:.1f} s after its begin; ended within {took:.0f} s")
    if client.returncode != 0 and role != CLIENT:
        assert client.returncode == 1
        assert f"player {role} " in err, err
        assert took < NAMED_WITHIN
    assert all(one.poll() is None for name, one in owners.players.items() if name != role)
    if role != CLIENT:
        owners.start(role)
    if client.returncode != 0:
        finish(owners, folder)
    assert all(spent >= PAID for spent in owners.spent())


def finish(owners, folder):
    """The training goes on, or begins anew where not all players have a checkpoint."""
    client = training(owners, folder, "--resume")
    _, err = client.communicate(timeout=PATIENCE)
    if any(rule in err for rule in TOO_EARLY):
        for file in folder.glob("*"):
            file.unlink()
        client = training(owners, folder)
        _, err = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0 or FINISHED in err, err
