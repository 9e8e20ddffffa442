"""Copies of one process have no key, seed or noise in common but those that parties agree on."""

import os
import pickle
import sys
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import pytest

from crypten_ext.processes.launch import Parties, template_of
from extensions.runs.processes import Process
from tests.conftest import SHARED
from tests.helpers.commands import parent_of
from tests.helpers.patience import PATIENCE

pytestmark = [
    pytest.mark.xdist_group(SHARED["pools"]),
    pytest.mark.skipif(sys.platform != "linux", reason="copies are Linux only"),
]

TASKS = "tests.helpers.party_tasks.streams"
OF_A_RUN = ("crypten_ext.run.training", "dp_accounting")
COMMON = {"seed of global"}
"""What all parties of a pool draw alike; of `prev` and `next` a neighbour has the other end."""
BEGIN_ANEW = {
    "random.Random": 1,
    "random.SystemRandom": 1,  # has no state
    "numpy.random.mtrand.RandomState": 1,
    "numpy.random._mt19937.MT19937": 1,
    "torch._C.Generator": 1,
}
"""Generators that are drawn from where no other is named."""


@pytest.fixture(scope="module")
def drawn() -> list[list[dict[str, Any]]]:
    """What the parties of two pools drew, all of which are copies of one process."""
    with ExitStack() as stack:
        template = stack.enter_context(template_of(3))
        both = [Parties(3, timeout=PATIENCE, provider="dealer") for _ in range(2)]
        answers = [stack.enter_context(pool).run(f"{TASKS}:draw") for pool in both]
        assert template is not None
        pids = [pid for pool in both for pid in [*pool.pids, pool.dealer_pid or 0]]
        parents = {parent_of(pid) for pid in pids}
        assert parents == {template._process.pid}
    return answers


def test_neighbours_share_their_streams_and_all_parties_one_seed(drawn: Any) -> None:
    for parties in drawn:
        for of in ("seed", "words"):
            for rank in range(3):
                mine, theirs = parties[rank], parties[(rank + 1) % 3]
                assert mine[f"{of} of next"] == theirs[f"{of} of prev"]
        assert len({each["seed of global"] for each in parties}) == 1


def test_all_else_is_drawn_by_each_party_for_itself(drawn: Any) -> None:
    assert len({parties[0]["seed of global"] for parties in drawn}) == 2
    for name in drawn[0][0].keys() - COMMON:
        found = [str(each[name]) for parties in drawn for each in parties]
        assert len({*found}) == 6, name


def test_a_template_has_no_key_seed_or_noise_when_its_copies_begin() -> None:
    """But the generators of Python, NumPy and torch, which begin anew in each."""
    told: SimpleQueue[bytes] = SimpleQueue()
    with template_of(3, modules=OF_A_RUN) as template:
        copies = [
            Process(TASKS, env={**os.environ}, receive=told.put, template=template)
            for _ in range(3)
        ]
        answers = []
        while len(answers) < len(copies):
            kind, answer = pickle.loads(told.get(timeout=PATIENCE))
            assert kind == "done", answer
            answers.append(answer)
        for copy in copies:
            copy.end()
    for inherited, _ in answers:
        assert inherited["CrypTen"] == {"prev": 0, "next": 0, "local": 0, "global": 0}
        assert not inherited["initialised"]
        assert inherited["kinds"] == BEGIN_ANEW
    for name in answers[0][1]:
        assert len({str(own[name]) for _, own in answers}) == len(copies), name
