"""Secret ring integers of ABY3's servers in three forms, and the moves between them that are free.

=============  ============================================  ==================================
form           what server i holds of x                      made by
=============  ============================================  ==================================
`Replicated`   x_i and x_{i+1}, where x = x_0 + x_1 + x_2    the host; conversions
`Additive2`    y_i for servers 0 and 1, x = y_0 + y_1        truncation, conversions from bits
`Additive3`    z_i, where x = z_0 + z_1 + z_2                products
=============  ============================================  ==================================

Linear operations are local in all of them. A sum of two forms is computed in the first form below
that both reach locally: replicated, additive of two, additive of three.

Additive shares are only ever used on the server that computed them. Whatever is sent is masked
anew, for that one message, with words that its receiver cannot compute; so a value may be used
any number of times, in any form.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import tensorflow as tf

from tfe_ext.ring.placed import Part, Placed
from tfe_ext.streams.devices import constant, turned


class Share(Placed):
    """Summands of secret ring integers, with the operations of `extensions.ring.interface`."""

    LEADING: ClassVar[tuple[int, ...]]
    """The parts to which a public summand is added."""

    _remembered: "tuple[Any, Replicated] | None" = None

    def __add__(self, other: "Share") -> "Share":
        own, others = in_one_form([self, other])
        return own._sum(others, tf.add)

    def __sub__(self, other: "Share") -> "Share":
        own, others = in_one_form([self, other])
        if None in own.parts or None in others.parts:
            return own + -others
        return own._sum(others, tf.subtract)

    def __mul__(self, factor: int | Placed) -> "Share":
        if not isinstance(factor, Placed) or set(self.PLACES) <= set(factor.PLACES):
            return super().__mul__(factor)
        own = self.additive2()
        assert own is not None, "server 2 has a summand, but not the factor"
        return own * factor

    def add_public(self, value: Any) -> Self:
        """Returns the sum with public ring integers, or with what the servers know in public."""
        parts = list(self.parts)
        for i in self.LEADING:
            place = self.PLACES[i]
            public = isinstance(value, Placed)
            summand = value.on(place) if public else constant(value, self.servers[place])
            parts[i] = self._on(i, tf.add, parts[i], summand)
        return self._with(parts)

    @property
    def replicated(self) -> "Replicated | None":
        """The replicated form, if it is at hand in the graph that is being built."""
        if self._remembered is None or self._remembered[0] is not _graph():
            return None
        return self._remembered[1]

    def remember(self, replicated: "Replicated") -> None:
        """Keeps `replicated` at hand in the graph that is being built."""
        self._remembered = _graph(), replicated

    def turned(self, by: int) -> "Share":
        """Returns the share in the hands of the same servers in other roles; local.

        It is what `tfe_ext.streams.randomness.Servers.turned` does to them: server i holds, as
        server i - by, the summands that it had, whose numbers are less by as much.
        """
        if not by:
            return self
        own = self.replicated or self.additive3()
        of_each = len(own.parts) // len(own.servers)
        return type(own)(turned(own.servers, by), turned(own.parts, by * of_each))

    def additive2(self) -> "Additive2 | None":
        """Returns the additive form of servers 0 and 1, if it can be had locally."""
        return None

    def additive3(self) -> "Additive3":
        """Returns the additive form of all three servers; local."""
        raise NotImplementedError


class Additive3(Share):
    """One summand for each server."""

    PLACES = (0, 1, 2)
    LEADING = (0,)

    def additive2(self) -> "Additive2 | None":
        return Additive2(self.servers, self.parts[:2]) if self.parts[2] is None else None

    def additive3(self) -> "Additive3":
        return self


class Additive2(Share):
    """One summand for server 0 and one for server 1."""

    PLACES = (0, 1)
    LEADING = (0,)

    def additive2(self) -> "Additive2":
        return self

    def additive3(self) -> Additive3:
        return Additive3(self.servers, [*self.parts, None])


class Mask(Additive2):
    """A mask of a value that all three servers share, and of use between two of them.

    `hiding` has other summands of the same mask, one for each summand of the value.
    """

    def __init__(self, servers: Sequence[str], parts: Sequence[Part], hiding: Additive3) -> None:
        super().__init__(servers, parts)
        self._hiding = hiding

    def additive3(self) -> Additive3:
        return self._hiding

    def _with(self, parts: Sequence[Part]) -> Additive2:  # type: ignore[override]
        return Additive2(self.servers, parts)


class Replicated(Share):
    """Of three summands, two for each server: (x_0, x_1), (x_1, x_2) and (x_2, x_0)."""

    PLACES = (0, 0, 1, 1, 2, 2)
    LEADING = (0, 5)

    @property
    def replicated(self) -> "Replicated":
        return self

    def additive2(self) -> Additive2:
        return Additive2(self.servers, [self._on(0, tf.add, *self.parts[:2]), self.parts[3]])

    def additive3(self) -> Additive3:
        return Additive3(self.servers, self.parts[::2])

    def product(self, other: "Replicated", multiply: Callable[..., tf.Tensor]) -> Additive3:
        """Returns a bilinear operation's product, of which each server has a summand; local.

        Of the nine products of summands server 0 computes x_0 y_0, x_0 y_1, x_1 y_0 and x_1 y_1 as
        one, server 1 x_1 y_2, x_2 y_1 and x_2 y_2 as two, and server 2 the two that are left.
        """
        x, y = self.parts, other.parts

        def first(x_0: Part, x_1: Part) -> tf.Tensor:
            return multiply(x_0 + x_1, y[0] + y[1])

        def second(x_1: Part, x_2: Part) -> tf.Tensor:
            return multiply(x_1, y[3]) + multiply(x_2, y[2] + y[3])

        def third(x_2: Part, x_0: Part) -> tf.Tensor:
            return multiply(x_2, y[5]) + multiply(x_0, y[4])

        each = zip((0, 2, 4), (first, second, third), strict=True)
        return Additive3(self.servers, [self._on(i, act, *x[i : i + 2]) for i, act in each])


def in_one_form(shares: Sequence[Share]) -> list[Share]:
    """Returns the shares in the first form that all of them reach locally."""
    forms: tuple[Callable[[Share], Share | None], ...] = (
        lambda share: share.replicated,
        lambda share: share.additive2(),
    )
    for form in forms:
        found = [one for share in shares if (one := form(share)) is not None]
        if len(found) == len(shares):
            return found
    return [share.additive3() for share in shares]


def _graph() -> Any:
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
