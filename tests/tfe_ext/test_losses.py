"""Whole trainings whose servers, owner or script are lost at random moments, and come back.

Every role is a process on a host of its own. PEA_TEST_LOSSES says how many trainings (6); the seed
of each is its number. A training goes on from its checkpoint by itself, or names who is lost.
"""

import os
import time
from contextlib import ExitStack

import numpy as np
import pytest

from tests.helpers.hosts_apart import needs_root
from tests.helpers.lossy_session import KINDS, LINKS, SCRIPT, STEPS, Session
from tests.tfe_ext.test_compat import needs_tensorflow

pytestmark = [pytest.mark.long, needs_tensorflow, needs_root]

TRAININGS = int(os.environ.get("PEA_TEST_LOSSES", "6"))
BRIEF, LONG, NAMED_WITHIN = 3.0, 30.0, 60.0
"""Seconds."""
TRUNCATION = 100 * 2.0**-20


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    """Returns a session, which is another one after a failure."""
    with ExitStack() as stack:
        running = []

        def session():
            if not running or running[-1].is_spoilt:
                stack.close()
                running.append(Session(tmp_path_factory.mktemp("losses"), stack))
            return running[-1]

        yield session


@pytest.fixture(scope="module")
def undisturbed(sessions):
    """What a training gives that nobody disturbs."""
    session = sessions()
    session.ask(session.folder / "undisturbed")
    return session.hear_until("done")["done"]


@pytest.mark.parametrize("seed", range(TRAININGS))
def test_training_survives_or_names_who_is_lost(sessions, undisturbed, seed):
    session, draws = sessions(), np.random.default_rng(seed)
    who, how = KINDS[seed % len(KINDS)]
    with session.spoilt_by_an_error():
        end = disturbed(session, f"kept-{seed}", who, how, draws)
        if end is None:
            assert (who, how) in ((SCRIPT, "killed"), (SCRIPT, "switched off"))
            return
        assert end["state"] == undisturbed["state"]
        assert f'"steps": {STEPS},' in end["state"]["ledger"]
        for name, values in undisturbed["weights"].items():
            np.testing.assert_allclose(end["weights"][name], values, atol=TRUNCATION)


@pytest.mark.parametrize("link", LINKS, ids=" and ".join)
def test_hosts_that_never_reached_each_other_are_named(sessions, link):
    """Both answer the script, but for that which is parted from the script itself."""
    session, who = sessions(), " and ".join(link)
    with session.spoilt_by_an_error():
        session.harm(who, "parted")
        session.ask(session.folder / f"never {who}")
        told = session.hear_until("done", "lost")
        assert told["lost"] in link
        assert all(end in told["why"] for end in link if end != SCRIPT)
        session.mend(who, "parted")
        session.hear_until("done")


def disturbed(session, name, who, how, draws):
    """What comes out of a training in which somebody is harmed, and mended once it is named."""
    is_brief, is_replaced = draws.random(2) < (0.25, 0.5)
    folder = session.folder / name
    session.ask(folder)
    moment = wait(session, draws)
    session.harm(who, how)
    since, took, is_mended = time.monotonic(), [], False
    if (who == SCRIPT and how != "cut off") or (
        is_brief and how != "killed"
    ):  # it cannot be named yet
        time.sleep(BRIEF if is_brief or how != "stopped" else LONG)
        session.mend(who, how)
        since, is_mended = time.monotonic(), True
        if who == SCRIPT and how in ("killed", "switched off"):
            session.ask(folder)
    while "lost" in (told := session.hear_until("done", "lost")):
        took.append(told["at"] - since)
        assert took[-1] < NAMED_WITHIN, f"{who} was {how} {moment}, named after {took[-1]:.0f} s"
        assert any(part in (SCRIPT, *told["why"].split()) for part in who.split(" and ")), told
        if not is_mended:
            session.start(who) if how == "stopped" and is_replaced else session.mend(who, how)
        since, is_mended = time.monotonic(), True
    if not is_mended:
        session.mend(who, how)
    end = told["done"]
    seconds = ", ".join(f"{one:.1f}" for one in took) or "never"
    print(
        f"{name}: {who} {how} {moment}; named after: {seconds}; resumed: {end and end['resumed']}"
    )
    return end


def wait(session, draws):
    """Returns at a random moment, and says when: while it connects, traces, steps, or is done."""
    steps = draws.integers(-2, STEPS + 1)
    if steps > 0:
        while (told := session.hear_until("step", "done", "lost")).get("step", STEPS) < steps:
            assert "lost" not in told, told
        if "done" in told:
            session.hear_again(told)
    elif steps == 0:
        session.hear_until("begun")
    pause = draws.uniform(0, 5 if steps <= 0 else 0.2)
    time.sleep(pause)
    begun = {-2: "start", -1: "start", 0: "checkpoint 0"}.get(steps, f"step {steps}")
    return f"{pause:.2f} s after {begun}"
