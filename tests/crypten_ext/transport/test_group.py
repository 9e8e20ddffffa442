"""What parties combine comes out right when their connection breaks meanwhile."""

import threading
import time

import numpy as np
import pytest
import torch

from crypten_ext.transport.group import DIRECT_WORDS, Links
from crypten_ext.transport.tensors import PIECE, view
from tests.helpers.federations import at_once, cabled

ROUNDS = 30


@pytest.mark.parametrize("words", [3000, DIRECT_WORDS + 3000])
def test_results_may_be_changed_while_what_was_sent_is_kept(tmp_path, words):
    """What is sent again is what was sent, whatever was done with the results since."""
    draws = np.random.default_rng(words)
    shares = torch.from_numpy(draws.integers(-(2**63), 2**63 - 1, (ROUNDS, 2, words)))
    limits = draws.integers(5_000, 400_000, 12).tolist()
    over = set()
    with cabled(tmp_path) as link:
        link.cable.limit = lambda: limits.pop() if limits else None
        link.cable.reset()

        def party(rank):
            try:
                links = Links(link.meshes[rank], [0, 1], rank, "both")
                for both in shares:
                    found = links.combined(both[rank].clone(), torch.add)
                    assert torch.equal(found, both.sum(0))
                    found.zero_()
                over.add(rank)
                while len(over) < 2:  # the other one may lack what was lost on its way
                    link.meshes[rank].go_on()
                    time.sleep(0.01)
            except BaseException:
                over.update((0, 1))  # the other one waits for nothing
                link.give_up()
                raise
            return True

        assert at_once(lambda: party(0), lambda: party(1)) == [True, True]
        assert len(link.cable.carried) > 5


def test_what_comes_of_the_first_half_is_sent_before_the_second_half_has_come(tmp_path):
    """Party 1 does by hand what it should, and keeps its second half until it has a result."""
    words = torch.arange(DIRECT_WORDS + 2)
    (own, mine), (late, other) = (half.tensor_split(2) for half in words.chunk(2))
    with cabled(tmp_path) as link:
        mesh = link.meshes[1]

        def party_0():
            return Links(link.meshes[0], [0, 1], 0, "both").combined(words.clone(), torch.add)

        def party_1():
            try:
                sent = mesh.send(0, view(own))
                found = [torch.empty_like(one) for one in (mine, other, own)]
                mesh.wait([sent, *(mesh.receive(0, view(one)) for one in found)])
                rest = [mesh.send(0, view(one)) for one in (late, 2 * mine, 2 * other)]
                mesh.wait([*rest, mesh.receive(0, view(torch.empty_like(late)))])
            except BaseException:
                link.give_up()
                raise
            return found

        result, found = at_once(party_0, party_1)
    assert torch.equal(result, 2 * words)
    for one, expected in zip(found, (mine, other, 2 * own), strict=True):
        assert torch.equal(one, expected)


@pytest.mark.parametrize("sizes", [(3 * PIECE + 5, 2 * PIECE), (0, 7), (0, 0)])
def test_what_trails_comes_behind_the_rounds_and_keeps_none_waiting(tmp_path, sizes):
    """A piece of 256 KiB a round, until somebody needs the rest; the rounds' words stay theirs."""
    draws = np.random.default_rng(1)
    trailing = [torch.from_numpy(draws.integers(-(2**63), 2**63 - 1, size)) for size in sizes]
    with cabled(tmp_path) as link:

        def party(rank):
            try:
                other, theirs = 1 - rank, torch.zeros_like(trailing[1 - rank])
                links = Links(link.meshes[rank], [0, 1], rank, "both")
                trail = links.trail({other: trailing[rank]}, {other: theirs})
                sent = []
                for words in (torch.arange(3), torch.arange(DIRECT_WORDS + 1), torch.arange(9)):
                    assert torch.equal(links.combined(words + rank, torch.add), 2 * words + 1)
                    sent.append(links.mesh.payload[0])
                rounds = links.mesh.rounds
                trail.begin_all()
                assert trail.is_begun
                trail.wait()
                trail.wait()
                assert torch.equal(links.combined(torch.ones(1), torch.add), 2 * torch.ones(1))
                assert torch.equal(theirs, trailing[other])
                assert links.mesh.rounds - rounds <= 2
                left = [8 * (sizes[rank] - at * PIECE) for at in range(3)]
                pieces = [max(0, min(8 * PIECE, each)) for each in left]
                return [
                    after - before for before, after in zip([0, *sent[:2]], sent, strict=True)
                ], pieces
            except BaseException:
                link.give_up()
                raise

        for (first, second, third), pieces in at_once(lambda: party(0), lambda: party(1)):
            assert first == 8 * 3 + pieces[0]
            assert second == 8 * (DIRECT_WORDS + 1) + pieces[1]
            assert third == 8 * 9 + pieces[2]


def test_a_rounds_words_go_before_what_trails_behind_them(tmp_path):
    """Party 1 takes by hand what comes, in the order in which it comes."""
    words, trailing = torch.arange(3), torch.arange(PIECE + 1)
    with cabled(tmp_path) as link:

        def party_0():
            links = Links(link.meshes[0], [0, 1], 0, "both")
            links.trail({1: trailing}, {})
            return links.combined(words, torch.add)

        def party_1():
            try:
                mesh = link.meshes[1]
                found = [torch.empty_like(one) for one in (words, trailing[:PIECE])]
                mesh.wait([mesh.send(0, view(words)), *(mesh.receive(0, view(f)) for f in found)])
            except BaseException:
                link.give_up()
                raise
            return found

        result, (first, second) = at_once(party_0, party_1)
    assert torch.equal(result, 2 * words)
    assert torch.equal(first, words)
    assert torch.equal(second, trailing[:PIECE])


def test_a_job_is_done_while_a_round_waits_once(tmp_path):
    """Party 1 has nothing to say before the job of party 0 is done."""
    done, numbers = threading.Event(), []
    with cabled(tmp_path) as link:

        def party_0():
            links = Links(link.meshes[0], [0, 1], 0, "both")

            def job():
                numbers.append(len(numbers))
                done.set()

            links.meanwhile(job)
            return [links.combined(torch.arange(3), torch.add) for _ in range(2)]

        def party_1():
            links = Links(link.meshes[1], [0, 1], 1, "both")
            if not done.wait(30):
                link.give_up()
            return [links.combined(torch.arange(3), torch.add) for _ in range(2)]

        for found in at_once(party_0, party_1):
            assert all(torch.equal(each, 2 * torch.arange(3)) for each in found)
    assert numbers == [0]
