"""How often a shared model is right: of the rows, one number is left to be opened."""

from extensions.errors import ArgumentError
from extensions.ring import Ring, Share

MAX_CLASSES = 62


def count_wrong(ring: Ring, logits: Share, targets: Share) -> Share:
    """Returns shares of the number of rows in which some logit exceeds that of the true class.

    Args:
        ring: the host.
        logits: shares of (rows, classes), 2 to 62 classes.
        targets: shares of one-hot rows of the same shape, f fractional bits.

    **Cost.** The rounds of a product, a truncation, a comparison, a suffix-or and a conversion.

    **Raises.** ArgumentError for other shapes.
    """
    shape = tuple(logits.shape)
    if shape != tuple(targets.shape) or len(shape) != 2 or not 2 <= shape[1] <= MAX_CLASSES:
        raise ArgumentError(
            "targets", tuple(targets.shape), f"the logits' shape, 2..{MAX_CLASSES} classes"
        )
    rows, classes = shape
    (product,) = ring.mul([(logits, targets)])
    (own,) = ring.truncate([(product.sum(1), ring.frac_bits)])
    slack = 1
    exceeded = ring.less_than(own.reshape(rows, 1) - logits, [-slack])[0]
    word = exceeded[:, 0]
    for i in range(1, classes):
        word = word ^ (exceeded[:, i] << i)
    return ring.bits_to_arithmetic(ring.suffix_or(word), [0])[0].sum(0)
