"""Openings that go straight from party to party give what CrypTen's own collective gives."""

import pytest
import torch

from crypten_ext.ring.exchange import DIRECT_BYTES
from tests.helpers.claims import claim
from tests.helpers.strategies import uniform_p_value

TASKS = "tests.helpers.party_tasks.exchange"


@pytest.mark.parametrize(
    ("over", "parties", "words"),
    [("tls", 2, 1), ("tls", 3, 1000), ("tls", 3, 20_000), ("gloo", 3, 1), ("gloo", 3, 20_000)],
)
def test_results_and_counts_are_crypten_s(pools, over, parties, words):
    for answers in pools.run(parties, f"{TASKS}:both_ways", words=words, over=over):
        for ours, theirs in answers.values():
            assert ours[1] == theirs[1]
            assert len(ours[0]) == len(theirs[0])
            for own, host in zip(ours[0], theirs[0], strict=True):
                assert own.dtype == host.dtype
                assert torch.equal(own, host)


@pytest.mark.parametrize(("over", "many"), [("tls", 8), ("gloo", 0)])
def test_few_words_go_to_every_other_party_and_many_in_parts(pools, over, many):
    """In two steps and two halves over TLS, around gloo's own ring else."""
    sizes = [8, DIRECT_BYTES, DIRECT_BYTES + 8]
    for sent in pools.run(3, f"{TASKS}:messages", sizes=sizes, over=over):
        assert sent == [2, 2, many]


@claim("Each single share that a party receives is uniform.")
def test_each_share_that_a_party_gets_is_uniform(pools):
    """Not the sums alone: false alarms in a run are below 3e-9."""
    for words in pools.run(3, f"{TASKS}:received"):
        assert len(words) > 10_000
        assert uniform_p_value(words) > 1e-9
