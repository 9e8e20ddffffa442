"""What a model makes of held-out records, as sums that say more than how often it is wrong.

Few sums are opened, so that each can have little noise: of two classes seven, whatever the number
of bins in which their scores were compared.
"""

from typing import Literal, cast

import numpy as np

from extensions.layers.evaluation import count_misses_of
from extensions.layers.losses import Loss, predictions
from extensions.ring.fixed_point import Integers, Reals
from extensions.ring.interface import Ring, Share
from extensions.rules import Whole

Kind = Literal["bins", "classes", "moments"]

EDGES: Reals = np.linspace(-8.0, 8.0, 127)
"""Log-odds between which a score of two classes is counted.

Evenly, as nobody knows where the scores of a rare class lie: 0.12 apart, area and Brier score are
within 0.003 of those of the scores themselves for classes of 0.3 to 63 % of the records.
"""
BINS = len(EDGES) + 1
GROUPS = 17
"""In which rows with scores of one bin are ordered, by their place modulo this.

A prime, so that files in which classes alternate have both in each group.
"""
_SHOWN_EDGES = range(17, len(EDGES) - 17, 2)
SHOWN = len(_SHOWN_EDGES) + 1
"""Bins of a public model's scores, which are opened themselves: fewer, as each has noise."""

BITS = 32
"""Fractional bits of the sums of two classes: no count is too large for them, nor an area's sum."""
MOST_RECORDS = 1 << 28


def kind_of(classes: int) -> Kind:
    """Returns which sums are made of a model with so many outputs."""
    return cast(Kind, {1: "moments", 2: "bins"}.get(classes, "classes"))


def cells(classes: int) -> int:
    """Returns the number of sums that `tally` makes."""
    return {"moments": 3, "bins": 2 * BINS * GROUPS, "classes": 2 * classes}[kind_of(classes)]


def opened_cells(classes: int, *, hidden: bool) -> int:
    """Returns the number of sums that `summary` makes of them, of shares if `hidden`."""
    if kind_of(classes) != "bins":
        return cells(classes)
    return 7 if hidden else 5 + 2 * SHOWN


def opened_bits(classes: int, frac_bits: int) -> int:
    """Returns the fractional bits of those, in a ring of so many."""
    return BITS if kind_of(classes) == "bins" else frac_bits


def sensitivity(classes: int) -> float:
    """Returns a bound of the Euclidean norm by which one record moves all opened sums together.

    Beside a null record in its place, which moves none. Each sum is opened with so many times the
    noise that a single count would have, so that all cost what it costs. Of more classes a record
    enters one count. Of a number a squared error less 1/2, a target less 1/2 and the square of this
    less 1/8 move their sums by 1/2, 1/2 and 1/8 at most: by 0.72 together, or 0.73 with what is
    rounded to 8 fractional bits or more.

    Of two it enters one of four counts, which are opened less a quarter of their sum: it moves one
    by 3/4 and three by -1/4, sqrt(3/4) in all. A squared error less 1/2 moves by 1/2 at most, and
    the area's sum, or counts by bin, by 1. The last sum is half the number of records that are
    right if the N first of an order are said to be of class 1, N the number that are. With one more
    record of class 1 the N + 1 first are it and those from before, and it is right; or the next one
    in the order joins them, and is right now or wrong now, while the new one is wrong. One more of
    class 0 comes after the N first, and is right; or takes the place of the last of them, which is
    right now or wrong now, while the new one is wrong. So it moves by 1/2, and so does the mean of
    two orders, at most. In all that is sqrt(3/4 + 1/4 + 1 + 1/4).
    """
    return {"moments": 0.73, "bins": 1.5, "classes": 1.0}[kind_of(classes)]


def check_number(records: int, parties: int) -> None:
    """Checks that sums stay in the ring if each of the parties holds out so many records."""
    most = MOST_RECORDS // parties
    Whole(0, most, f"at most {most} records").check("held_out", records, "Hold out fewer.")


def tally(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    """Returns shares of sums over all rows, (cells,), f fractional bits.

    Args:
        loss: that the model was trained with, which says what its logits mean.
        logits: shares of (rows, outputs).
        targets: shares of the same shape, f fractional bits.

    Returns:
        Of one output the sums of (prediction - target)^2 less 1/2 a row, of target - 1/2, and of
        its square less 1/8 a row. Of two
        classes how many rows have a score in each bin between `EDGES`, the log-odds of class 1, by
        group and by class: (BINS, GROUPS, 2), flat. Of more classes how many rows of each are
        predicted right, then how many wrong.

    Guarantees:
        Counts are exact while logits stay below 2^(61 - 2f) in magnitude; moments are right within
        one unit of the last place.

    Cost:
        The rounds of a prediction and a product; of a comparison, a conversion and a matrix
        product; or of `count_misses` and a matrix product.
    """
    kind = kind_of(logits.shape[-1])
    if kind == "moments":
        return _moments(ring, loss, logits, targets)
    if kind == "bins":
        return _bins(ring, loss, logits, targets)
    wrong = count_misses_of(ring, logits, targets, ties="wrong")
    right = ring.add_public(-wrong, 1)
    (counts,) = ring.matmul([(ring.stack([right, wrong]), targets)])
    return counts.reshape(-1)


def compared(classes: int) -> int:
    """Returns how many comparisons that makes of a row at once, beside those of a prediction."""
    return len(EDGES) if kind_of(classes) == "bins" else classes


def summary(ring: Ring, sums: Share, classes: int, records: int, *, hidden: bool) -> Share:
    """Returns shares of what is opened of the sums of all records, `opened_bits` fractional bits.

    Args:
        sums: of `tally`, of all blocks of the records that are shared.
        records: public number of all records, of all parties.
        hidden: whether they are shared; else an owner's own, whose summaries add up.

    Returns:
        Of two classes: how many of each are predicted right, how many of each wrong, a probability
        of 1/2 being class 1, each less a quarter of all records; the sum of squared errors of the
        probabilities, those of the bins' middles, less half of all records; with b_j and a_j
        records of class 1 and 0 in bin j, sum_ij b_j a_i sign(j - i) / records, as often as class 1
        has the higher score, less as often as it has the lower one, which is `area_unit` times an
        integer, exactly; and half of how many are right `at_prevalence`. Where records are not
        shared a and b themselves instead of the last two, in `SHOWN` bins. Else the sums as they
        are.

    Guarantees:
        Exact but for the middles' squares, which are rounded to the last place.

    Cost:
        Of two classes a truncation and a matrix product of shares, and that of `at_prevalence`;
        else local.
    """
    if kind_of(classes) != "bins":
        return sums
    each = sums.reshape(BINS, GROUPS, 2)
    (counts,) = ring.truncate([(each.sum(1).T.reshape(-1), ring.frac_bits)])
    one, zero = 1 << BITS, [0] * BINS
    up = [one if j >= BINS // 2 else 0 for j in range(BINS)]
    down = [one - each for each in up]
    errors = squared_errors()
    rows = [
        [each - one // 4 for each in cell]
        for cell in (down + zero, zero + up, up + zero, zero + down)
    ]
    rows.append([each - one // 2 for each in (*errors[0], *errors[1])])
    if not hidden:
        merged = [[one * int(place == k) for place in _shown()] for k in range(SHOWN)]
        rows += [own + zero for own in merged] + [zero + own for own in merged]
        return ring.stack(ring.linear(counts, rows))
    order = signs(BINS).tolist()
    above = ring.stack(ring.linear(counts[:BINS], order))
    (area,) = ring.matmul([(counts[BINS:].reshape(1, BINS), above.reshape(BINS, 1))])
    scaled = area.reshape(1)[0] * area_unit(records)
    right = at_prevalence(ring, each) * (1 << (BITS - 1 - ring.frac_bits))
    return ring.stack([*ring.linear(counts, rows), scaled, right])


def at_prevalence(ring: Ring, counts: Share) -> Share:
    """Returns shares of how many records are right if as many as there are of class 1 are said so.

    Those with the highest scores are said to be of class 1: N of them, if N records are. In a bin
    they follow by group, in a group either those of class 0 come first or those of class 1, and
    what is returned is the mean of both.

    Args:
        counts: of `tally`, (BINS, GROUPS, 2), f fractional bits.

    Guarantees:
        Exact. N is not opened, nor is the score from which records are said to be of class 1.

    Cost:
        That of `Ring.select` of 2 BINS GROUPS values and one threshold, whatever the records.

    Source:
        With b and a records of class 1 and 0 in a group, and T records before it, of the N first
        min(max(N - T, 0), b) are of class 1 if those come first, else min(max(N - T - a, 0), b). As
        min(max(u, 0), b) = max(u, 0) - max(u - b, 0), both add up to N + sum max(N - T - a, 0) -
        max(N - T - b, 0) over all groups, where the others cancel. Of n records n - 2 N more are
        right, so N + sum min(N - T - b, 0) - min(N - T - a, 0).
    """
    zero, one = (counts[:, :, k].T for k in (0, 1))
    groups = [[-1 if place < own else 0 for place in range(GROUPS)] for own in range(GROUPS)]
    taken = ring.linear(zero + one, groups)
    bins = [
        [sign for place in range(BINS) for sign in ((-1, 0) if place > own else (0, 1))]
        for own in range(BINS)
    ]
    left = ring.stack(ring.linear(counts.sum(1).reshape(-1), bins))
    rest = ring.stack([left + each for each in taken])
    found = ring.select(ring.stack([rest - zero, rest - one]), [0], [[1]], [])
    (below,) = found.products
    ends = below.sum(1).sum(1)
    return one.sum(0).sum(0) + ends[1] - ends[0]


def uncentred(sums: Reals, classes: int, records: int) -> Reals:
    """Returns opened sums with what was taken from each of so many records."""
    first = {"moments": [1 / 2, 0.0, 1 / 8], "bins": [*[1 / 4] * 4, 1 / 2], "classes": []}
    taken: Reals = np.zeros(len(sums))
    taken[: len(first[kind_of(classes)])] = first[kind_of(classes)]
    return sums + records * taken


def area_unit(records: int) -> int:
    """Returns what the area's integer is multiplied by, so that a record moves the sum by 1."""
    return (1 << BITS) // records


def signs(bins: int) -> Integers:
    """Returns sign(j - i) of bins j and i, (bins, bins)."""
    lower = np.tri(bins, k=-1, dtype=np.int64)
    return lower - lower.T


def squared_errors() -> list[list[int]]:
    """Returns the squared error of each bin's middle, of records of class 0 and of class 1."""
    step = EDGES[1] - EDGES[0]
    middles = np.append(EDGES, EDGES[-1] + step) - step / 2
    chance = 1 / (1 + np.exp(-middles))
    return [[round(float(e) ** 2 * (1 << BITS)) for e in each] for each in (chance, 1 - chance)]


def _shown() -> list[int]:
    """Returns in which of the `SHOWN` bins each of the `BINS` lies."""
    return [sum(edge < place for edge in _SHOWN_EDGES) for place in range(BINS)]


def edges_of(loss: Loss, frac_bits: int) -> list[int]:
    """Returns where bins of the difference of two logits meet, as ring integers."""
    match loss:
        case "softmax":
            ends = EDGES
        case "sigmoid":
            ends = 2 * EDGES
        case "hard-sigmoid":
            ends = 4 * np.tanh(EDGES / 2)
        case _:
            ends = np.tanh(EDGES / 2)
    return [round(float(end) * (1 << frac_bits)) for end in ends]


def _bins(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    score = logits[:, 1] - logits[:, 0]
    below = ring.less_than(score, edges_of(loss, ring.frac_bits))
    groups = [slice(own, None, GROUPS) for own in range(min(GROUPS, targets.shape[0]))]
    found = ring.matmul([(below[:, rows], targets[rows]) for rows in groups])
    sums = [targets[rows].sum(0) for rows in groups]
    empty = GROUPS - len(groups)
    upto = ring.stack([*found, *[found[0] * 0] * empty])
    whole = ring.stack([*sums, *[sums[0] * 0] * empty])
    count = len(EDGES)
    steps = (upto[:, i] - upto[:, i - 1] for i in range(1, count))
    return ring.stack([upto[:, 0], *steps, whole - upto[:, count - 1]]).reshape(-1)


def _moments(ring: Ring, loss: Loss, logits: Share, targets: Share) -> Share:
    f = ring.frac_bits
    apart = predictions(ring, loss, logits) - targets
    centred = ring.add_public(targets, -(1 << (f - 1)))
    squares = [square.sum(0) for square in ring.mul([(apart, apart), (centred, centred)])]
    errors, spread = ring.truncate([(square, f) for square in squares])
    rows = logits.shape[0] << f
    errors, spread = ring.add_public(errors, -rows // 2), ring.add_public(spread, -rows // 8)
    return ring.stack([errors, centred.sum(0), spread]).reshape(-1)
