"""What server 2 deals to servers 0 and 1: masks, and shares of words that follow from them.

Servers 0 and 1 expand their shares of a mask from the keys that each holds with server 2, which
therefore knows the mask and computes what follows from it. Of that, server 0 expands its share as
well, and server 2 sends server 1 the rest, the *correction*. No message depends on data, so all of
them are under way before they are needed, and cost no round.

Guarantees:
    A mask is uniform to server 0, which lacks the key of the other share, and so it is to server 1.
    A correction is uniform to server 1, because the share that server 0 expands is. Server 2
    receives nothing at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from extensions.ring.words import Monomial, products_of
from tfe_ext.ring.messages import send
from tfe_ext.ring.servers import Servers
from tfe_ext.ring.shares import Additive2, Additive3, Share
from tfe_ext.ring.xor_words import DealersWords, Words

Join = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
XOR: Join = tf.bitwise.bitwise_xor


@dataclass(frozen=True)
class _Request:
    """Masks of one shape, and words that follow from them."""

    shape: tuple[int, ...]
    masks: int
    dependents: int
    compute: Callable[[list[tf.Tensor]], tf.Tensor]
    """The dependents, on a leading axis, from the list of masks."""
    masks_by: Join = tf.add
    dependents_by: Join = tf.subtract
    """How the dependents are parted: what is left of a word without a share of it."""
    for_three: bool = False
    """Whether server 2 holds a share of the masks too."""


@dataclass(frozen=True)
class _Dealt:
    """The shares of the masks by server, and those of the dependents, on a leading axis."""

    masks: list[tf.Tensor]
    dependents: list[tf.Tensor]


def _deal(servers: Servers, requests: Sequence[_Request]) -> list[_Dealt]:
    on = servers.devices
    dealt, corrections = [], []
    for request in requests:
        count = request.masks
        drawn_0 = servers.pairwise[0].draw([count + request.dependents, *request.shape], tf.int64)
        drawn_1 = servers.pairwise[2].draw([count, *request.shape], tf.int64)
        with tf.device(on[0]):
            share_0 = drawn_0.on(on[0])
            own = _Dealt([share_0[:count], drawn_1.on(on[1])], [share_0[count:]])
        with tf.device(on[2]):
            share_0, share_1 = drawn_0.on(on[2]), drawn_1.on(on[2])
            if request.for_three:
                drawn = servers.private[on[2]].draw([count, *request.shape], tf.int64)
                masks = drawn.on(on[2])
                own.masks.append(masks - share_0[:count] - share_1)
            else:
                masks = request.masks_by(share_0[:count], share_1)
            values = request.compute(tf.unstack(masks))
            corrections.append(request.dependents_by(values, share_0[count:]))
        dealt.append(own)
    for own, correction in zip(dealt, send(corrections, on[2], on[1]), strict=True):
        own.dependents.append(correction)
    return dealt


@dataclass(frozen=True)
class RandomWords:
    """A uniform word shared additively and bitwise, with products of its shifted bits."""

    value: Share
    bits: Words
    products: dict[Monomial, Words]


@dataclass(frozen=True)
class TruncationPair:
    """A uniform word r, its low 63 bits shifted right by m, and its top bit, additively shared."""

    mask: Share
    shifted: Additive2
    top: Additive2


class Dealer:
    """Server 2 as the one who deals."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._on = servers.devices

    def random_words(
        self, shape: Sequence[int], products: Sequence[Monomial], *, for_three: bool
    ) -> RandomWords:
        """Returns fresh uniform words with the named products of their shifted bits.

        Args:
            shape: of the words.
            products: by the first wire's shifts.
            for_three: whether server 2 is to hold a share of the words as well.
        """

        def compute(masks: list[tf.Tensor]) -> tf.Tensor:
            return tf.stack([*masks, *self._products(products, masks)])

        (dealt,) = _deal(
            self._servers,
            [
                _Request(
                    tuple(shape),
                    masks=1,
                    dependents=1 + len(products),
                    compute=compute,
                    dependents_by=XOR,
                    for_three=for_three,
                )
            ],
        )
        bits, *rest = self._words(dealt.dependents)
        return RandomWords(self._mask(dealt), bits, dict(zip(products, rest, strict=True)))

    def truncation_pairs(
        self, shapes: Sequence[Sequence[int]], shifts: Sequence[int], for_three: Sequence[bool]
    ) -> list[TruncationPair]:
        """Returns fresh truncation pairs, one for each shape, shift and whether server 2 masks."""
        requests = [
            _Request(
                tuple(shape),
                masks=1,
                dependents=2,
                compute=_truncation_parts(shift),
                for_three=three,
            )
            for shape, shift, three in zip(shapes, shifts, for_three, strict=True)
        ]
        pairs = []
        for dealt in _deal(self._servers, requests):
            both = Additive2(self._on, dealt.dependents)
            pairs.append(TruncationPair(self._mask(dealt), both[0], both[1]))
        return pairs

    def bit_words(self, shape: Sequence[int], positions: Sequence[int]) -> tuple[Words, Additive2]:
        """Returns uniform words shared bitwise, and additive shares of their bits there."""
        places = np.reshape(np.array(positions, dtype=np.int64), [-1] + [1] * len(shape))

        def compute(masks: list[tf.Tensor]) -> tf.Tensor:
            shifted = tf.bitwise.right_shift(masks[0][None], places)
            return tf.bitwise.bitwise_and(shifted, np.int64(1))

        request = _Request(
            tuple(shape), masks=1, dependents=len(positions), compute=compute, masks_by=XOR
        )
        (dealt,) = _deal(self._servers, [request])
        (word,) = self._words(dealt.masks)
        return word, Additive2(self._on, dealt.dependents)

    def word_masks(
        self, shape: Sequence[int], wires: int, products: Sequence[Monomial]
    ) -> tuple[list[Words], dict[Monomial, Words]]:
        """Returns a fresh uniform mask for each wire, and XOR shares of the named products."""

        def compute(masks: list[tf.Tensor]) -> tf.Tensor:
            return tf.stack(self._products(products, masks))

        request = _Request(
            tuple(shape), wires, len(products), compute, masks_by=XOR, dependents_by=XOR
        )
        (dealt,) = _deal(self._servers, [request])
        named = zip(products, self._words(dealt.dependents), strict=True)
        return self._words(dealt.masks), dict(named)

    def _products(
        self, products: Sequence[Monomial], masks: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        words = [DealersWords(self._on, [mask]) for mask in masks]
        return [product.parts[0] for product in products_of(products, words)]

    def _words(self, stacked: Sequence[tf.Tensor]) -> list[Words]:
        split = []
        for device, words in zip(self._on, stacked, strict=False):
            with tf.device(device):
                split.append(tf.unstack(words))
        return [Words(self._on, pair) for pair in zip(*split, strict=True)]

    def _mask(self, dealt: _Dealt) -> Share:
        form = Additive2 if len(dealt.masks) == 2 else Additive3
        return form(self._on, dealt.masks)[0]


def _truncation_parts(shift: int) -> Callable[[list[tf.Tensor]], tf.Tensor]:
    low = np.int64(2**63 - 1)

    def compute(masks: list[tf.Tensor]) -> tf.Tensor:
        (r,) = masks
        shifted = tf.bitwise.right_shift(tf.bitwise.bitwise_and(r, low), np.int64(shift))
        return tf.stack([shifted, tf.cast(r < 0, tf.int64)])

    return compute
