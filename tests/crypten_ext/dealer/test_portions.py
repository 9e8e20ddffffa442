"""The dealer's link: of each correction every party is sent an equal portion, and nothing else."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from crypten_ext.dealer import messages
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.dealer.streams import portion
from tests.crypten_ext.dealer.test_dealer import come, dealer_here
from tests.helpers.party_tasks.portions import Received

TASKS = "tests.helpers.party_tasks.portions:"
PARTIES = 3
ROOT_BYTES = 1_000
"""What depends on others in the tuples of one element of inverse_sqrt at 16 fractional bits."""


def assert_even(bytes_by_party: Sequence[int]) -> None:
    assert 0 < max(bytes_by_party) <= 1.2 * sum(bytes_by_party) / len(bytes_by_party)


def due(request: Request, sequence: int, rank: int) -> int:
    """Returns the bytes of a party's portion."""
    words = recipe_of(request).corrected_words
    return 8 * len(range(words)[portion(words, sequence, rank, PARTIES)])


@pytest.mark.parametrize("parties", [1, 2, 3, 5])
def test_each_word_goes_to_one_party_and_longer_portions_go_round(parties: int):
    for words in (*range(12), 1000):
        sent = [0] * parties
        for sequence in range(7, 7 + parties):
            portions = [
                range(words)[portion(words, sequence, rank, parties)] for rank in range(parties)
            ]
            assert sorted(word for own in portions for word in own) == list(range(words))
            sizes = list(map(len, portions))
            assert max(sizes) <= min(sizes) + 1
            sent = [a + b for a, b in zip(sent, sizes, strict=True)]
        assert sent == [words] * parties


@pytest.mark.parametrize(("work", "size"), [("inverse_sqrt", 50), ("sigmoid", 50), ("training", 1)])
def test_parties_are_sent_their_portions_and_no_party_much_more(dealer_pool, work: str, size: int):
    found: list[list[Received]] = dealer_pool.run(f"{TASKS}received", work=work, size=size)
    for rank, own in enumerate(found):
        assert [one[:2] for one in own] == [one[:2] for one in found[0]]
        assert len(own) > 5
        for one in own:
            assert one.bytes == due(one.request, one.sequence, rank)
    assert_even([sum(one.bytes for one in own) for own in found])


def test_a_large_inverse_sqrt_burdens_no_party_more(dealer_pool):
    """What is asked for is asked for at its size; it is added up instead of dealt."""
    size = 65_536
    requests, *_ = dealer_pool.run(f"{TASKS}asked", work="inverse_sqrt", size=size)
    sent = [
        sum(due(request, sequence, rank) for sequence, request in enumerate(requests))
        for rank in range(PARTIES)
    ]
    assert sum(sent) == ROOT_BYTES * size
    assert_even(sent)


def test_a_large_correction_comes_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(messages, "PIECE_WORDS", 3)

    def party(address: str, rank: int) -> list[list[torch.Tensor]]:
        client = come(address, rank, PARTIES)
        shares = [client.deal(Request.of("square", (size,))) for size in (50, 1, 0)]
        client.close()
        return shares

    with dealer_here(PARTIES, {}) as address, ThreadPoolExecutor(PARTIES) as pool:
        each = list(pool.map(lambda rank: party(address, rank), range(PARTIES)))
    for shares in zip(*each, strict=True):
        r, square = (torch.stack(words).sum(0) for words in zip(*shares, strict=True))
        assert torch.equal(r * r, square)
