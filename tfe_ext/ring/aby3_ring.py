"""ABY3 as a ring: products of replicated shares, all else between servers 0 and 1.

Server 2 deals to the other two (`tfe_ext.ring.dealing`), who open values under what it dealt, and
multiply what they open (`extensions.ring.fused`); all other products, those of matrices, are local,
because every two servers hold all shares (`tfe_ext.ring.shares`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from extensions.privacy.gaussian_table import failure_bound
from extensions.ring.fixed_point import Integers, check_frac_bits, wrap
from extensions.ring.fused import Fused
from extensions.ring.interface import NoiseSource, Rows, Selected, Weights
from extensions.ring.joint import joint_of
from extensions.ring.tuples import Correlation, Dealt
from tfe_ext.ring import conversions, dealing, inputs
from tfe_ext.ring.placed import Placed, concatenate, stack
from tfe_ext.ring.shares import Replicated, Share, in_one_form
from tfe_ext.ring.xor_words import Words
from tfe_ext.streams.devices import constant
from tfe_ext.streams.randomness import Servers


class ABY3Ring(Fused):
    """`extensions.ring.interface.Ring` over three servers.

    A share is a `tfe_ext.ring.shares.Share`; bits are `tfe_ext.ring.xor_words.Words`. In a traced
    function everything below adds operations to its graph; all shapes must be static.

    Guarantees:
        Against one server that follows the protocol: all that it receives is uniform and
        independent of what it holds, since every word is masked for this one message by words that
        it cannot compute. `tfe_ext.ring.dealing` and `tfe_ext.ring.conversions`, with `open_sum`
        and `open_xor`, have all the messages there are, and say why.

    Cost:
        An opened element: 2 words, or 4 where all three servers share the value, as they do
        untruncated products; a dealt one: a word for each that depends on a mask.
    """

    parties = 3

    def __init__(self, servers: Servers, frac_bits: int) -> None:
        self._servers = servers
        self._frac_bits = check_frac_bits(frac_bits)

    @property
    def servers(self) -> Servers:
        """Their devices, and what they draw from."""
        return self._servers

    @property
    def frac_bits(self) -> int:
        """Fractional bits of a share."""
        return self._frac_bits

    def turned(self, by: int) -> "ABY3Ring":
        """Returns the ring of the same servers in other roles, for shares `turned` likewise."""
        return ABY3Ring(self._servers.turned(by), self._frac_bits) if by else self

    def add_public(self, x: Share, value: Words | Integers | int) -> Share:
        return x.add_public(np.int64(wrap(value)) if isinstance(value, int) else value)

    def xor_public(self, word: Words, value: Words | int) -> Words:
        on, (first, second) = self.servers.devices, word.parts
        public = (
            value.parts[0] if isinstance(value, Words) else constant(np.int64(wrap(value)), on[0])
        )
        with tf.device(on[0]):
            return Words(on, [tf.bitwise.bitwise_xor(first, public), second])

    def constant(self, integers: Integers) -> Integers:
        return integers

    def linear(self, x: Share, rows: Sequence[Sequence[int]]) -> list[Share]:
        matrix = np.array([[wrap(entry) for entry in row] for row in rows], dtype=np.int64)

        def combine(part: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(part, [matrix.shape[1], -1])
            return tf.reshape(tf.matmul(matrix, flat), [len(rows), *part.shape[1:]])

        combined = x.each(combine)
        return [combined[i] for i in range(len(rows))]

    def stack(self, shares: Sequence[Share]) -> Share:
        return stack(in_one_form(shares))

    def concatenate(self, words: Sequence[Words]) -> Words:
        return concatenate(words)

    def gather(self, x: Share, places: Integers) -> Share:
        rows, columns = x.shape
        index = np.asarray(places.reshape(-1) % (columns + 1), dtype=np.int32)

        def taken(part: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
            return tf.gather(tf.pad(part, [[0, 0], [0, 1]]), index, axis=1)

        return x.beside_public(index, taken).reshape(rows, *places.shape)

    def unfold(self, x: Share, places: Integers) -> Share:
        """Returns rows for products: x is replicated (see `mul`) before its values are copied."""
        (replicated,) = self.replicate([x])
        return self.gather(replicated, places).reshape(-1, places.shape[1])

    def mul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the products; one round if an operand is not replicated yet, or else none.

        2 words for each element of an operand that is additively shared by two servers, 3 where all
        three share it; nothing for replicated ones, nor for the products.
        """
        return self._multiply(pairs, tf.multiply)

    def matmul(self, pairs: Sequence[tuple[Share, Share]]) -> list[Share]:
        """Returns the matrix products; see `mul`."""
        return self._multiply(pairs, tf.matmul)

    def _multiply(self, pairs: Sequence[tuple[Share, Share]], operation: Any) -> list[Share]:
        operands = self.replicate([operand for pair in pairs for operand in pair])
        both = zip(operands[::2], operands[1::2], strict=True)
        return [x.product(y, operation) for x, y in both]

    def add_noise(
        self, x: Sequence[Share], scale: Sequence[float], source: NoiseSource
    ) -> list[Share]:
        values = [value.additive3() for value in x]
        draws = inputs.draw_noise(self.servers, source, scale, [value.shape for value in values])
        return [value + drawn for value, drawn in zip(values, draws, strict=True)]

    def open_sum(self, shares: Sequence[Share]) -> list[Words]:
        """Returns masked values, known to servers 0 and 1; `conversions.open_sum` has the cost."""
        return conversions.open_sum(shares)

    def open_xor(self, words: Sequence[Words]) -> list[Words]:
        """Returns masked words, known to servers 0 and 1; 2 words an element."""
        return conversions.open_xor(words)

    def deal(self, wanted: Sequence[tuple[Correlation, Share | Words]]) -> list[Dealt]:
        return dealing.deal(self.servers, wanted)

    def deal_joint(
        self, hidden: Sequence[Share | None], kind: str, *parameters: object
    ) -> list[Placed]:
        return dealing.deal_joint(self.servers, joint_of(kind, *parameters), hidden)

    def select(
        self,
        x: Share,
        thresholds: Sequence[int],
        slopes: Weights,
        constants: Weights,
        shift: int = 0,
    ) -> Selected:
        """Returns sums and products of flags; one round more if all servers share such an x."""
        if not shift and x.additive2() is None:
            (x,) = self.replicate([x])
        return super().select(x, thresholds, slopes, constants, shift)

    def square_rows(
        self, rows: Sequence[Share], shift: int, beside: Sequence[Share] = ()
    ) -> tuple[Rows, list[Share]]:
        """Returns rows to be scaled, and squared norms; one round, or none of replicated matrices.

        For each element 2 words opened, 4 and a further one dealt where all three servers share it,
        and what `extensions.ring.fused` says is dealt. Of matrices beside the rows only those are
        opened that are not replicated.
        """
        opened = [x for x in beside if x.replicated is None]
        found, squares = super().square_rows(rows, shift, opened)
        of_opened = dict(zip(map(id, (*rows, *opened)), squares, strict=True))
        return found, [_square(x) or of_opened[id(x)] for x in (*rows, *beside)]

    def scale_rows(self, rows: Rows, factor: Share) -> list[Share]:
        """Returns scaled rows; one round, and another one where all servers share the factor."""
        if factor.additive2() is None:
            (factor,) = self.replicate([factor])
        return super().scale_rows(rows, factor)

    def replicate(self, shares: Sequence[Share]) -> list[Replicated]:
        """Returns the shares as the host holds them; one round for all."""
        return conversions.replicate(self.servers, shares)


def _square(x: Share) -> Share | None:
    """Returns the squared norms of the rows of a replicated matrix; local."""
    own = x.replicated
    return own and own.product(own, tf.multiply).sum(-1)


def noise_failure(parameters: int, steps: int) -> float:
    """Returns a bound of the probability that any draw of a run's servers lies beyond its table.

    Every server draws one summand for each of the parameters in every step.
    """
    return failure_bound(ABY3Ring.parties * parameters * steps)
