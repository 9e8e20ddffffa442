"""Words of several shapes that are dealt together, so that an opening serves several ends.

A masked value z + r that is opened for a comparison, or to be truncated, is as good as the masked
operand of a product: what is lacking are products of r, or of r truncated, with other masks. They
are dealt with r.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extensions.ring.comparison import LATER_MASKS, SUBTRAHENDS
from extensions.ring.fixed_point import RING_BITS
from extensions.ring.masked_opening import TOP
from extensions.ring.planes import LANES, bits_of, quarter, unpacked
from extensions.ring.tuples import Correlation, Dealer, Sharing, TruncationPair
from extensions.ring.words import Word

Words = list[Word]


@dataclass(frozen=True)
class Part:
    """Words of one shape.

    Attributes:
        kept: of a mask, whether its shares serve when the value under it is open.
    """

    shape: tuple[int, ...]
    sharing: Sharing = "sum"
    kept: bool = False


@dataclass(frozen=True)
class Joint:
    """Uniform words, and words that follow from them."""

    masks: tuple[Part, ...]
    dependents: tuple[Part, ...]
    follow: Callable[[Words, Dealer], Words]


def correlated(correlations: Sequence[Correlation], shapes: Sequence[Sequence[int]]) -> Joint:
    """Returns what is dealt for correlations of those shapes: a part of masks and one that follows.

    The parts of each have a leading axis for its words.
    """

    def follow(masks: Words, dealer: Dealer) -> Words:
        pairs = zip(correlations, masks, strict=True)
        return [correlation.follow(own, dealer) for correlation, own in pairs]

    each = list(zip(correlations, shapes, strict=True))
    return Joint(
        tuple(Part((c.masks, *shape), c.masks_by) for c, shape in each),
        tuple(Part((c.dependents, *shape), c.dependents_by) for c, shape in each),
        follow,
    )


def truncated(r: Word, shift: int) -> Words:
    """Returns the low bits of a mask without the last `shift` ones, and its top bit."""
    return TruncationPair(shift).parts(r)


def selection(count: int, kinds: int, shift: int) -> Joint:
    """Returns what `Fused.select` needs of the masks r of x and d of the flags [x < t].

    Further masks: those of the comparison's later levels. Dependents: planes of r and their
    products; those of the later levels; the bits d; without a shift d r, with one r truncated as
    `truncated` has it, and its products with d.

    Args:
        shift: of the truncation; 0 for none.
    """
    size = quarter(count)
    first = quarter(kinds * size)
    words = quarter(first)
    levels = list(zip(LATER_MASKS, (first, words), strict=True))
    flags, elements = Part((kinds, count)), Part((count,))

    def follow(masks: Words, dealer: Dealer) -> Words:
        lanes, words, *own_levels = masks
        r = lanes.T.reshape(LANES * size)[:count]
        d = unpacked(bits_of(words, dealer.constant), kinds, count)
        own = truncated(r, shift) if shift else [r]
        pairs = zip(LATER_MASKS, own_levels, strict=True)
        followed = [SUBTRAHENDS.follow(lanes, dealer), *(c.follow(m, dealer) for c, m in pairs), d]
        return [*followed, *(own if shift else []), *(d * each for each in own)]

    return Joint(
        (
            Part((LANES, size)),
            Part((words,), "xor"),
            *(Part((each.masks, wide), each.masks_by) for each, wide in levels),
        ),
        (
            Part((SUBTRAHENDS.dependents, size), "xor"),
            *(Part((each.dependents, wide), each.dependents_by) for each, wide in levels),
            flags,
            *([elements, elements, flags, flags] if shift else [flags]),
        ),
        follow,
    )


def truncations(
    shapes: Sequence[Sequence[int]], shifts: Sequence[int], pairs: Sequence[Sequence[int]]
) -> Joint:
    """Returns what `Fused.truncate_and_multiply` needs of the masks of the items.

    Dependents: of each item its mask as `truncated` has it; for each pair the products of both low
    bits, of low bits and top, of top and low bits, and where `tops_meet` of both tops.
    """
    for i, j in pairs:
        if shapes[i] != shapes[j]:
            raise ValueError("a pair of different shapes")
    parts = tuple(Part(tuple(shape)) for shape in shapes)

    def follow(masks: Words, _: Dealer) -> Words:
        each = [truncated(r, shift) for r, shift in zip(masks, shifts, strict=True)]
        followed = [word for pair in each for word in pair]
        for (i, j), kept in zip(pairs, counts, strict=True):
            followed += [x * y for x in each[i] for y in each[j]][:kept]
        return followed

    counts = [4 if tops_meet(shifts[i], shifts[j]) else 3 for i, j in pairs]
    doubled = tuple(part for part in parts for _ in range(2))
    of_pairs = (parts[i] for (i, _), kept in zip(pairs, counts, strict=True) for _ in range(kept))
    return Joint(parts, (*doubled, *of_pairs), follow)


def tops_meet(first: int, second: int) -> bool:
    """Whether a product of the top parts, 2^(63 - shift) each, is not always 0 modulo 2^64."""
    return 2 * TOP - first - second < RING_BITS


def scaled_rows(rows: int, columns: Sequence[int], beside: Sequence[int], shift: int) -> Joint:
    """Returns what `Fused.square_rows` and `scale_rows` need of the masks of rows and factor.

    Masks: of the factor, (rows,), then of each matrix. Dependents: the factor's mask as `truncated`
    has it; the squared norms of all masks' rows; each scaled matrix's mask times both.
    """
    row = Part((rows,))
    scaled, others = (
        tuple(Part((rows, width), kept=True) for width in widths) for widths in (columns, beside)
    )

    def follow(masks: Words, _: Dealer) -> Words:
        r, *matrices = masks
        of_factor = truncated(r, shift)
        norms = [(each * each).sum(-1) for each in matrices]
        columns = [part.reshape(-1, 1) for part in of_factor]
        products = [column * each for each in matrices[: len(scaled)] for column in columns]
        return [*of_factor, *norms, *products]

    doubled = tuple(part for part in scaled for _ in range(2))
    return Joint(
        (row, *scaled, *others), (row, row, *(row for _ in (*scaled, *others)), *doubled), follow
    )


JOINTS: dict[str, Callable[..., Joint]] = {
    "selection": selection,
    "truncations": truncations,
    "scaled rows": scaled_rows,
}
"""By the name that a dealer is asked for."""


def joint_of(kind: str, *parameters: object) -> Joint:
    """Returns what is dealt by that name."""
    return JOINTS[kind](*parameters)
