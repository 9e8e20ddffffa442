"""Results that one party alone gets: each opens to its owner, under a mask that only it knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from extensions.layers.passes import Parameters
from extensions.privacy.randomness import uniform
from extensions.protocols.host import Host
from extensions.ring.fixed_point import Integers
from extensions.ring.interface import Share

Function = Callable[[Parameters, Share], Share]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows (rows, columns) of each rank of the host; their numbers of all parties are public."""

    own: Sequence[Integers]
    sizes: Sequence[int]


def open_to_owners(
    host: Host, model: Parameters, rows: Rows, function: Function, columns: int
) -> list[Integers]:
    """Returns, to each owner alone, what a function says of its rows: integers (rows, columns).

    The function takes the model and shares of all rows, (rows, features).

    Guarantees:
        Whoever sees all that is opened sees uniform words and nothing else: each result is opened
        as its sum, modulo 2^64, with a word that its owner drew from the operating system and
        shared with it. Neither the model nor rows are opened.

    Cost:
        That of the function, of sharing rows and words, and one round.
    """
    placed = host.place([[own] for own in rows.own])

    def applied(model: Parameters) -> Share:
        (x,) = host.share_rows(rows.sizes, placed)
        return function(model, x)

    return open_rows(host, model, rows.sizes, columns, applied)


def open_rows(
    host: Host,
    model: Parameters,
    sizes: Sequence[int],
    columns: int,
    function: Callable[[Parameters], Share],
) -> list[Integers]:
    """Returns, to each owner alone, its rows of what a function returns, (all rows, columns).

    Args:
        sizes: public number of rows of each party, one party's after the other's.
        function: takes the model.

    Guarantees:
        Those of `open_to_owners`.
    """
    masks = [uniform((sizes[rank], columns)) for rank in host.ranks]
    placed = host.place([[mask] for mask in masks])

    def masked(model: Parameters) -> list[Share]:
        (words,) = host.share_rows(sizes, placed)
        return [function(model) + words]

    (opened,) = host.open(host.summands(model, masked))
    starts = np.cumsum([0, *sizes])
    return [
        opened[starts[rank] : starts[rank] + len(mask)] - mask
        for rank, mask in zip(host.ranks, masks, strict=True)
    ]
