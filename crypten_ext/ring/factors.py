"""Rows of a layer that take part in two products, x w and d x, and are opened once for both.

Rows that their owners masked are not even opened among all: an owner knows its own masks, and sends
its masked rows, not shares of them, to the others. The other masks, of w and d, are as ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from crypten_ext.ring.exchange import OwnersRows, is_leader, meanwhile
from crypten_ext.ring.matmul import matmul
from extensions.ring.fixed_point import Integers

from crypten import communicator
from crypten.mpc.primitives import ArithmeticSharedTensor


class LayerMasks(NamedTuple):
    """This party's shares of the masks of x, w and d, and of the products of masks.

    Attributes:
        x: (rows, inputs), or only this party's own rows, whose masks it then knows.
        w: (inputs, outputs).
        d: (outputs, rows).
        xw: (rows, outputs).
        dx: (outputs, inputs).
    """

    x: torch.Tensor
    w: torch.Tensor
    d: torch.Tensor
    xw: torch.Tensor
    dx: torch.Tensor


@runtime_checkable
class LayerSource(Protocol):
    """Who deals masks for the two products of a layer."""

    owners_know: bool
    """Whether owners can know the masks of their own rows."""

    def deal_layer(self, rows: Sequence[int], inputs: int, outputs: int) -> LayerMasks:
        """Returns fresh masks; `rows` are each party's if owners know their masks, else one sum."""


@dataclass
class Product:
    """A product: masked shares to open in a round, and what then makes this party's share of it."""

    hidden: list[torch.Tensor]
    finish: Callable[[Sequence[torch.Tensor]], torch.Tensor]


class Meanwhile:
    """A tensor that is computed while an opening is waited for, or else when it is asked for.

    It waits until `is_possible`: nothing that it takes has to be waited for.
    """

    def __init__(
        self, compute: Callable[[], torch.Tensor], is_possible: Callable[[], bool] = lambda: True
    ) -> None:
        self._compute, self._is_possible = compute, is_possible
        self._found: torch.Tensor | None = None
        meanwhile(self._try)

    def _try(self) -> None:
        if self._is_possible():
            self._found = self._compute()

    def value(self) -> torch.Tensor:
        """Returns the tensor."""
        return self._compute() if self._found is None else self._found


class Factor:
    """The rows x of a layer's input, for `CrypTenRing.matmul`: first x w, then d x.

    `rows` is each party's number where every owner masks its own; `own` is this party's, if any.

    Guarantees:
        A mask of x belongs to x alone, is opened once, and is never used for another value. Who
        deals knows it, as every mask; an owner knows those of its rows. All others see uniform
        words.

    Cost:
        Rows masked by owners: each owner sends its rows to every other party, once. Else every row
        is opened, once.
    """

    def __init__(
        self,
        share: torch.Tensor,
        rows: Sequence[int] | None = None,
        own: torch.Tensor | None = None,
    ) -> None:
        self.share = share
        self._rows, self._own = rows, own
        self._masks: LayerMasks | None = None
        self._way: OwnersRows | None = None
        self._opened: torch.Tensor | None = None
        self._is_used = False

    @classmethod
    def of_owners(cls, share: torch.Tensor, rows: Sequence[int], own: Integers | None) -> "Factor":
        """Returns the rows of all parties, of which each masks its own; `own` are this party's."""
        return cls(share, rows, None if own is None else torch.from_numpy(own))

    def like(self) -> "Factor":
        """Returns rows of these shapes, not used yet, whatever they hold."""
        own = None if self._own is None else torch.empty_like(self._own)
        return Factor(torch.empty_like(self.share), self._rows, own)

    @property
    def shape(self) -> torch.Size:
        """(rows, columns)."""
        return self.share.shape

    def reshape(self, *shape: int) -> "Operand":
        """Returns this party's share of x in another shape."""
        return self.share.reshape(*shape)

    @property
    def is_used(self) -> bool:
        """Whether a product was made of it."""
        return self._is_used

    def mask(self, outputs: int, source: object) -> None:
        """Masks are dealt now for a later product with w, if owners can know theirs."""
        if self._rows is not None and isinstance(source, LayerSource) and source.owners_know:
            self._mask(outputs, source)

    def travel(self) -> None:
        """Masked rows go to the other parties while other openings are waited for; no round.

        Where the transport cannot do that, they go with the product.
        """
        if self._way is not None:
            self._way.trail()

    def times(self, w: torch.Tensor, source: object) -> Product | None:
        """Returns the product x w; None if it has to be made as any other."""
        if self._is_used or not isinstance(source, LayerSource):
            return None
        self._is_used = True
        if self._masks is None or self._masks.w.shape != w.shape:
            self._mask(w.shape[1], source)
        return self._of_owners_rows(w) if self._way is not None else self._of_all_rows(w)

    def _of_all_rows(self, w: torch.Tensor) -> Product:
        masks = self._masks
        assert masks is not None

        def finish(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            e, f = opened
            self._opened = e
            own = matmul(e, masks.w + f if is_leader() else masks.w)
            return masks.xw + own + matmul(masks.x, f)

        return Product([self.share - masks.x, w - masks.w], finish)

    def _of_owners_rows(self, w: torch.Tensor) -> Product:
        """Each party adds for its own rows what is public; what needs no w is made meanwhile."""
        masks, way = self._masks, self._way
        assert masks is not None
        assert way is not None
        way.begin()

        def compute() -> torch.Tensor:
            self._opened = way.all()
            return masks.xw + matmul(self._opened, masks.w)

        known = Meanwhile(compute, lambda: way.is_here)

        def finish(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            (f,), result = opened, known.value()
            assert self._opened is not None
            result[self._block] += matmul(masks.x + self._opened[self._block], f)
            return result

        return Product([w - masks.w], finish)

    def _mask(self, outputs: int, source: LayerSource) -> None:
        """Masks are dealt for this product, and those of owners' rows are put on."""
        inputs = self.share.shape[1]
        if self._rows is None or not source.owners_know:
            self._rows = None
            self._masks = source.deal_layer([len(self.share)], inputs, outputs)
            return
        self._masks = source.deal_layer(self._rows, inputs, outputs)
        own = torch.empty_like(self._masks.x) if self._own is None else self._own
        self._way = OwnersRows(self._rows, own - self._masks.x)

    def after(self, d: torch.Tensor) -> Product | None:
        """Returns the product d x, once; None if it has to be made as any other."""
        masks, e = self._masks, self._opened
        if masks is None or e is None or d.shape != masks.d.shape:
            return None
        self._masks = masks._replace(d=torch.empty(0, dtype=torch.int64))

        def of_all_rows(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            (g,) = opened
            own = matmul(masks.d + g if is_leader() else masks.d, e)
            return masks.dx + own + matmul(g, masks.x)

        hidden = [d - masks.d]
        if self._way is None:
            return Product(hidden, of_all_rows)
        known = Meanwhile(lambda: masks.dx + matmul(masks.d, e))

        def of_owners_rows(opened: Sequence[torch.Tensor]) -> torch.Tensor:
            (g,) = opened
            return known.value() + matmul(g[:, self._block], masks.x + e[self._block])

        return Product(hidden, of_owners_rows)

    @property
    def _block(self) -> slice:
        """The rows of which this party has masks."""
        return slice(None) if self._rows is None else own_block(self._rows)


Operand = torch.Tensor | Factor
"""A share, or rows that are opened once for two products."""


def share_of(x: Operand) -> torch.Tensor:
    """Returns this party's share."""
    return x.share if isinstance(x, Factor) else x


def own_block(rows: Sequence[int]) -> slice:
    """Returns where this party's rows are among so many of each, in rank order."""
    rank = communicator.get().get_rank()
    start = sum(rows[:rank])
    return slice(start, start + rows[rank])


def share_rows(rows: Sequence[int], own: Sequence[Integers]) -> list[torch.Tensor]:
    """Returns shares of every party's rows, in rank order, uniform to all but their owner; local.

    `own` are this party's arrays, each of `rows[rank]` rows.
    """
    block, shares = own_block(rows), []
    for array in own:
        shape = torch.Size((sum(rows), *array.shape[1:]))
        share = ArithmeticSharedTensor.PRZS(shape).share
        share[block] += torch.tensor(np.asarray(array))  # which may be read-only
        shares.append(share)
    return shares
