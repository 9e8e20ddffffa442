"""Exact tails of the hypergeometric distribution, in integers."""

from collections.abc import Sequence
from math import comb


def ways(population: int, marked: int, drawn: int) -> list[int]:
    """Returns the numbers of draws without replacement that have 0, 1, ..., `drawn` marked ones."""
    rest = population - marked
    return [comb(marked, x) * comb(rest, drawn - x) for x in range(drawn + 1)]


def rare_from(numbers: Sequence[int], most: int) -> int:
    """Returns the least x such that at most `most` draws have x marked ones or more."""
    total = 0
    for x in range(len(numbers), 0, -1):
        total += numbers[x - 1]
        if total > most:
            return x
    return 0


def rare_below(numbers: Sequence[int], most: int) -> int:
    """Returns the largest x such that at most `most` draws have fewer than x marked ones."""
    total = 0
    for x, number in enumerate(numbers):
        total += number
        if total > most:
            return x
    return len(numbers)
