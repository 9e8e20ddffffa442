"""Accuracy of an encrypted model on encrypted data: one number is opened, nothing else."""

import torch

from crypten_ext.opening import open_sum
from crypten_ext.ring import ring_of
from extensions.errors import ArgumentError

from crypten.mpc import MPCTensor


def count_correct(logits: MPCTensor, targets: MPCTensor) -> int:
    """Returns in how many rows no logit exceeds that of the true class; opens that number only.

    Args:
        logits: encrypted (rows, classes), at most 62 classes.
        targets: encrypted one-hot rows of the same shape.

    **Cost.** 9 rounds and the opening.
    """
    ring = ring_of(logits)
    rows, classes = logits.size()
    if logits.size() != targets.size() or not 2 <= classes <= 62:
        raise ArgumentError("targets", tuple(targets.size()), "the logits' shape, 2..62 classes")
    (product,) = ring.mul([(logits.share, targets.share)])
    (own,) = ring.truncate([(product.sum(1), ring.frac_bits)])
    slack = 1
    exceeded = ring.less_than(own.reshape(rows, 1) - logits.share, [-slack])[0]
    word = exceeded[:, 0]
    for i in range(1, classes):
        word = word ^ (exceeded[:, i] << i)
    wrong = ring.bits_to_arithmetic(ring.suffix_or(word), [0])[0]
    (count,) = open_sum([wrong.sum().reshape(1)])
    return int(rows - torch.as_tensor(count).item())
