"""How often a shared model is right: of the rows, one number is left to be opened."""

from extensions.errors import ArgumentError
from extensions.ring.interface import Ring, Share

MAX_CLASSES = 62


def count_wrong(ring: Ring, logits: Share, targets: Share) -> Share:
    """Returns shares of the number of rows in which some logit exceeds that of the true class.

    Args:
        ring: the host.
        logits: shares of (rows, classes), up to 62 classes; a single one is compared with 0.
        targets: shares of one-hot rows of the same shape, f fractional bits; 0 or 1 for a single
            class.

    Cost:
        The rounds of a product, a truncation, a comparison, a suffix-or and a conversion.

    Raises:
        ArgumentError: other shapes.
    """
    shape = tuple(logits.shape)
    if shape != tuple(targets.shape) or len(shape) != 2 or not 1 <= shape[1] <= MAX_CLASSES:
        raise ArgumentError(
            "targets", tuple(targets.shape), f"the logits' shape, 1..{MAX_CLASSES} classes"
        )
    if shape[1] == 1:
        logits, targets = _as_two_classes(ring, logits[:, 0], targets[:, 0])
    rows, classes = tuple(logits.shape)
    (product,) = ring.mul([(logits, targets)])
    (own,) = ring.truncate([(product.sum(1), ring.frac_bits)])
    slack = 1
    exceeded = ring.less_than(own.reshape(rows, 1) - logits, [-slack])[0]
    word = exceeded[:, 0]
    for i in range(1, classes):
        word = word ^ (exceeded[:, i] << i)
    return ring.bits_to_arithmetic(ring.suffix_or(word), [0])[0].sum(0)


def _as_two_classes(ring: Ring, logit: Share, target: Share) -> tuple[Share, Share]:
    opposite = ring.add_public(-target, 1 << ring.frac_bits)
    return ring.stack([logit - logit, logit]).T, ring.stack([opposite, target]).T
