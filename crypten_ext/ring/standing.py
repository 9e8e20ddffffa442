"""A matrix that stays the same in many products, and is sent under one mask, once.

Each party has a block of its rows, or of its columns. With a full batch these are a layer's inputs
in all steps of a run; a step then opens what they are multiplied with, and nothing else.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Protocol, runtime_checkable

import torch

from crypten_ext.ring.exchange import OwnersRows
from crypten_ext.ring.factors import Factor, Meanwhile, Product, own_block, share_rows
from crypten_ext.ring.matmul import matmul
from extensions.ring.fixed_point import Integers


@runtime_checkable
class StandingSource(Protocol):
    """Who deals a mask A of all parties' rows, and masks b and c with products A b and c A."""

    owners_know: bool
    rows_stay: bool
    """Whether parties multiply their own rows themselves, which they need not send then."""

    def stand(self, rows: Sequence[int], own: torch.Tensor) -> tuple[int, torch.Tensor | None]:
        """Returns the number of a fresh A, and this party's block of it, which it knows.

        None if rows stay: they take the place of A.
        """

    def deal_standing(
        self, number: int, rows: Sequence[int], inputs: int, outputs: int, *, is_left: bool
    ) -> list[torch.Tensor]:
        """Returns shares of a fresh b and of A b, `outputs` columns; else of c and of c A, rows."""


class Standing(Factor):
    """A matrix x for any number of products x w and d x (`CrypTenRing.matmul`).

    The constructor takes copies, and everything else is private: what A masks cannot change.

    Args:
        own: this party's block.
        sizes: public number of rows of each party, or of columns.
        by_columns: whether x is divided by columns, so that all parties have as many rows.

    Guarantees:
        A masks one value, is drawn anew by each object of this class, and is kept nowhere. b and c
        are fresh in every product. To whoever lacks one other party's shares, and to all but who
        deals, everything that is sent and opened is uniform. The argument is in
        docs/explanation/dealer.md.

    Cost:
        Each party sends its block to every other one, once. A product x w opens the words of w, and
        d x those of d. Memory is that of x beside the own block.

    Deviation:
        Where who deals has no such masks, all of x is opened in each pair of products, as of a
        `Factor`.
    """

    def __init__(self, own: Integers, sizes: Sequence[int], *, by_columns: bool = False) -> None:
        self._sizes, self._turned = list(sizes), by_columns
        self._mine = torch.tensor(own.T if by_columns else own)
        self._at = own_block(self._sizes)
        self._source: StandingSource | None = None
        self._number = 0
        self._way: OwnersRows | None = None
        self._sent: torch.Tensor | None = None
        self._once: Factor | None = None

    def like(self) -> "Standing":
        """Returns one of these shapes that holds anything, and was sent if this one was."""
        found = copy(self)
        found._mine = torch.empty_like(self._mine)
        found._source = found._way = None
        found._sent = None if self._sent is None else torch.empty_like(self._sent)
        return found

    @property
    def share(self) -> torch.Tensor:  # type: ignore[override]
        """This party's share of x, uniform to all others; another one each time."""
        (share,) = share_rows(self._sizes, [self._mine.numpy()])
        return share.T if self._turned else share

    @property
    def shape(self) -> torch.Size:
        """(rows, columns)."""
        size = sum(self._sizes), self._mine.shape[1]
        return torch.Size(size[::-1] if self._turned else size)

    @property
    def is_used(self) -> bool:
        """False: it serves any number of products."""
        return False

    def mask(self, outputs: int, source: object) -> None:
        """Draws A, unless it is drawn; `outputs` does not matter."""
        if self._source or not isinstance(source, StandingSource):
            return
        if source.owners_know:
            self._source = source
            self._number, mask = source.stand(self._sizes, self._mine)
            if mask is not None and self._sent is None:
                self._way = OwnersRows(self._sizes, self._mine - mask)

    def times(self, w: torch.Tensor, source: object) -> Product | None:
        """Returns the product x w."""
        self.mask(w.shape[1], source)
        if self._source is None:
            self._once = Factor(self.share)
            return self._once.times(w, source)
        return _turned(self._right(w.T)) if self._turned else self._left(w)

    def after(self, d: torch.Tensor) -> Product | None:
        """Returns the product d x; None if it has to be made as any other."""
        if self._source is None:
            return None if self._once is None else self._once.after(d)
        return _turned(self._left(d.T)) if self._turned else self._right(d)

    def _left(self, w: torch.Tensor) -> Product:
        """Rows by w = b + f: A b + (x - A) b + x f, of which each owner adds its rows by f."""
        b, product = self._dealt(w.shape[1], is_left=True)
        known = self._known(product, lambda sent: matmul(sent, b))

        def finish(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            result = known.value()
            result[self._at] += matmul(self._mine, opened[0])
            return result

        return Product([w - b], finish)

    def _right(self, d: torch.Tensor) -> Product:
        """D = c + g by rows: c A + c (x - A) + g x, likewise."""
        c, product = self._dealt(d.shape[0], is_left=False)
        known = self._known(product, lambda sent: matmul(c, sent))

        def finish(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            return known.value() + matmul(opened[0][:, self._at], self._mine)

        return Product([d - c], finish)

    def _dealt(self, outputs: int, *, is_left: bool) -> list[torch.Tensor]:
        assert self._source is not None
        inputs = self._mine.shape[1]
        return self._source.deal_standing(
            self._number, self._sizes, inputs, outputs, is_left=is_left
        )

    def _known(
        self, product: torch.Tensor, of_sent: Callable[[torch.Tensor], torch.Tensor]
    ) -> Meanwhile:
        """Returns what takes nothing that is opened now; all parties' blocks travel if need be."""
        if self._way is not None:
            self._way.begin()
        elif self._sent is None:
            return Meanwhile(lambda: product)
        return Meanwhile(lambda: product + of_sent(self._all()), lambda: self._sent is not None)

    def _all(self) -> torch.Tensor:
        """X - A, once it is here."""
        if self._way is not None:
            self._sent, self._way = self._way.all(), None
        assert self._sent is not None
        return self._sent


def _turned(product: Product) -> Product:
    return Product(product.hidden, lambda opened: product.finish(opened).T)
