"""What the parties of the mask tests draw, after every one of them seeded torch alike."""

import torch

import crypten_ext
from crypten_ext.processes.worker import Context

import crypten
from crypten.common import rng
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor


def draw(context: Context, *, enable: bool) -> tuple[str, list[int], list[int], list[int]]:
    """Returns the kind of generator, a share of zero of each kind, and words of one's own."""
    torch.manual_seed(7)
    crypten_ext.disable()
    if enable:
        crypten_ext.enable()
    return (
        type(crypten.generators["prev"][torch.device("cpu")]).__name__,
        ArithmeticSharedTensor.PRZS((8,)).share.tolist(),
        BinarySharedTensor.PRZS((8,)).share.tolist(),
        rng.generate_random_ring_element((8,)).tolist(),
    )
