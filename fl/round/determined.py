"""Which sums of unknowns a list of known sums determines."""

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction

Unknown = int | tuple[int, int]
"""A secret, by a client's number, or a mask, by that of its chain and its own."""
Row = dict[Unknown, Fraction]


def determined_sums(
    known: Iterable[Collection[Unknown]],
) -> frozenset[frozenset[int]]:
    """Returns the smallest sets of secrets whose sum follows from the known sums.

    Each known sum is the set of unknowns in it, secrets and masks. A set of secrets
    is determined if its indicator is a rational combination of the known sums. Where a combination
    divides by an even number, the ring itself would leave high bits open, which the bounded range
    of the updates closes again: the answer errs on the side of a leak. Every determined set is a
    disjoint union of smallest ones, since what is left of it without one of them is determined.
    """
    rows = _reduced(known)
    found: set[frozenset[int]] = set()
    for group in _connected(rows):
        found |= set(_indicators(group))
    return frozenset(one for one in found if not any(other < one for other in found))


def _reduced(known: Iterable[Collection[Unknown]]) -> list[Row]:
    """Returns the reduced echelon form of the combinations that hold secrets alone."""
    pivots: dict[Unknown, Row] = {}
    for unknowns in dict.fromkeys(map(frozenset, known)):
        row: Row = dict.fromkeys(unknowns, Fraction(1))
        for pivot in [name for name in row if name in pivots]:
            _subtract(row, pivots[pivot], pivot)
        if not row:
            continue
        pivot = next((name for name in row if isinstance(name, tuple)), next(iter(row)))
        scale = row[pivot]
        row = {name: value / scale for name, value in row.items()}
        for other in pivots.values():
            if pivot in other:
                _subtract(other, row, pivot)
        pivots[pivot] = row
    return [row for pivot, row in pivots.items() if isinstance(pivot, int)]


def _subtract(row: Row, other: Row, pivot: Unknown) -> None:
    factor = row[pivot]
    for name, value in other.items():
        left = row.pop(name, Fraction(0)) - factor * value
        if left:
            row[name] = left


def _connected(rows: list[Row]) -> Iterator[list[Row]]:
    """Yields the rows in groups that have no unknown in common."""
    left = list(rows)
    while left:
        group = [left.pop()]
        reached = set(group[0])
        while near := [row for row in left if not reached.isdisjoint(row)]:
            group += near
            left = [row for row in left if all(row is not other for other in near)]
            reached.update(*near)
        yield group


def _indicators(rows: list[Row]) -> Iterator[frozenset[int]]:
    """Yields all sets whose indicators are combinations of the rows, the empty one excepted.

    The rows are reduced: each has an unknown of its own, so all factors are 0 or 1.
    """
    last = {name: index for index, row in enumerate(rows) for name in row}

    def extend(index: int, row: Row) -> Iterator[Row]:
        if index == len(rows):
            yield row
            return
        for factor in (0, 1):
            longer = dict(row)
            if factor:
                for name, value in rows[index].items():
                    longer[name] = longer.get(name, Fraction(0)) + value
            if all(longer.get(name, 0) in (0, 1) for name in rows[index] if last[name] == index):
                yield from extend(index + 1, longer)

    for row in extend(0, {}):
        chosen = {name for name, value in row.items() if value and isinstance(name, int)}
        if chosen:
            yield frozenset(chosen)
