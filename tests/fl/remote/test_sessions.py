"""Two sessions whose sums would differ by one client's update: a client takes part in one."""

import os
import stat
import threading
from dataclasses import replace

import numpy as np
import pytest

import fl
from extensions.errors import ArgumentError, MessageError, RoundError
from fl.remote.run import RemoteRun
from fl.round.identities import FreshIdentities
from tests.helpers.federated.remote import CLIENTS, Local, remote, weights

OTHERS = (0, 1, 2, 3)
VICTIM = 4


def settings(**more: object):
    return lambda: {
        "aggregator": fl.MaskedAggregator(threshold=0.5),
        "weighting": "equal",
        "timeout": 9.0,
        **more,
    }


def summed(run: RemoteRun, post: Local, *without: int) -> np.ndarray:
    """Returns the sum that the server has of a round which some clients do not answer in."""
    post.asks = lambda client, kinds: client not in without or "model" not in kinds
    before = weights(run)
    run.fit(post)
    return (weights(run) - before) * len(run.history[0].included)


@pytest.mark.parametrize("again", [{}, {"folder": True}])
def test_a_second_session_of_a_name_gives_no_update_away(again, tmp_path):
    """The server leaves out one client of the second: its update is the difference of the sums."""
    folder = {"folder": tmp_path} if again else {}
    known = FreshIdentities()
    first, second = (
        remote(settings(), rounds=1, identities=known, session="ward", **folder) for _ in range(2)
    )
    summed(*first)
    with pytest.raises(RoundError) as caught:
        summed(*second, VICTIM)
    assert set(caught.value.refused) >= set(OTHERS)
    assert all("round 1 of this run before" in caught.value.refused[k] for k in OTHERS)


def test_sums_of_sessions_that_clients_take_for_others_differ_by_an_update():
    """What a name is for: without one, the difference is that client's update, to rounding."""
    one, other = (remote(settings(), rounds=1) for _ in range(2))
    difference = summed(*one) - summed(*other, VICTIM)
    client = one[1].client(VICTIM)
    update = client._update(client._alone(1), weights(remote(settings())[0]))
    np.testing.assert_allclose(difference, update, atol=1e-5)


@pytest.mark.parametrize("lost", ["nothing", "what the engine keeps", "the server's process"])
def test_a_name_serves_once_whoever_is_started_anew(lost, tmp_path):
    run, post = remote(settings(), rounds=2, session="ward", checkpoint=tmp_path / "run.npz")
    run.fit(post)
    if lost == "nothing":
        again, other = remote(settings(), rounds=2, session="ward")
        other.kept = post.kept
    else:
        saved = tmp_path / ("run.npz" if lost == "what the engine keeps" else "other.npz")
        again, other = remote(settings(), rounds=3, session="ward", checkpoint=saved)
    if lost == "what the engine keeps":
        assert again.fit(other)[-1].included == tuple(range(CLIENTS))
        return
    with pytest.raises(RoundError):
        again.fit(other)


@pytest.mark.parametrize(
    "other", [{"lr": 0.1000001}, {"seed": 5}, {"mechanism": fl.SignDS(sign_k=0.1)}]
)
def test_a_name_serves_once_whatever_the_other_settings(other):
    run, post = remote(settings(), rounds=1, session="ward")
    run.fit(post)
    again, post = remote(settings(**other), rounds=1, session="ward")
    with pytest.raises(RoundError) as caught:
        again.fit(post)
    assert set(caught.value.refused) == set(range(CLIENTS))


def test_another_name_is_another_session():
    for name in ("a", "b"):
        run, post = remote(settings(), rounds=1, session=name)
        assert run.fit(post)[0].included == tuple(range(CLIENTS))


def test_a_client_to_whom_another_name_was_agreed_takes_no_part():
    run, post = remote(settings(), rounds=1, session="a")
    usual = post.client

    def client(number: int):
        other = usual(number)
        if number == VICTIM:
            other = replace(other, settings=replace(other.settings, session="b"))
        return other

    post.client = client
    assert run.fit(post)[0].included == OTHERS


def test_of_sessions_at_once_a_client_begins_a_round_in_one():
    _, post = remote(settings(), session="ward")
    clients = [post.client(0) for _ in range(12)]
    began, barrier = [], threading.Barrier(len(clients))

    def begin(client) -> None:
        barrier.wait()
        try:
            client._begin(1)
            began.append(client)
        except MessageError:
            pass

    threads = [threading.Thread(target=begin, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(began) == 1


def test_notes_are_their_owners_alone(state_folder):
    before = os.umask(0o022)
    try:
        run, post = remote(settings(), rounds=1, session="ward")
        run.fit(post)
    finally:
        os.umask(before)
    notes = list((state_folder / "fl").iterdir())
    assert len(notes) == CLIENTS
    assert {stat.S_IMODE(path.stat().st_mode) for path in notes} == {0o600}
    assert stat.S_IMODE((state_folder / "fl").stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["no number", "a folder"])
def test_a_client_whose_notes_cannot_be_read_takes_no_part(damage, state_folder):
    run, post = remote(settings(), rounds=1, session="ward")
    run.fit(post)
    (notes,) = (state_folder / "fl").glob(f"client-{VICTIM}-*")
    notes.unlink()
    notes.write_text("no number") if damage == "no number" else notes.mkdir()
    with pytest.raises(ArgumentError) as caught:
        post.client(VICTIM)._begin(2)
    assert caught.value.argument == "folder"


def test_a_name_is_part_of_a_saved_run(tmp_path):
    run, post = remote(settings(), rounds=1, session="a", checkpoint=tmp_path / "run.npz")
    run.fit(post)
    other, _ = remote(settings(), rounds=2, session="b", checkpoint=tmp_path / "run.npz")
    with pytest.raises(ArgumentError) as caught:
        other.load(tmp_path / "run.npz")
    assert caught.value.argument == "session"


@pytest.mark.parametrize("session", [None, 7, ["a"]])
def test_names_are_text(session):
    with pytest.raises(ArgumentError) as caught:
        remote(settings(session=session))
    assert caught.value.argument == "session"
