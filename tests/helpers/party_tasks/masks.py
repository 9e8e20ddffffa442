"""What the parties of the mask tests draw, after every one of them seeded torch alike."""

from typing import Any

import torch

import crypten_ext
from crypten_ext.masks import key_agreement as masks
from crypten_ext.masks.install import CPU
from crypten_ext.masks.keystream import Keystream
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


def seeded(context: Context) -> dict[str, Any]:
    """Returns what seeds are before and after a script sets them, and what is drawn then."""
    crypten_ext.disable()
    crypten_ext.enable()
    seeds = (10 + context.rank, 20 + context.rank)
    result: dict[str, Any] = {"seeds": seeds, "before": _initial_seeds(), "shares": []}
    try:
        crypten.manual_seed(*seeds, 3)
    except ValueError as error:
        result["otherwise"] = str(error)
    with crypten.cfg.temp_override({"debug.debug_mode": True}):
        for added in (0, 0, 1):
            crypten.manual_seed(seeds[0] + added, seeds[1], 3)
            result["shares"].append(ArithmeticSharedTensor.PRZS((8,)).share.tolist())
        crypten.manual_seed(*seeds, 3)
    result["after"] = _initial_seeds()
    result["drawn by torch"] = [
        torch.randint(2**62, (1,), generator=crypten.generators[name][CPU]).item()
        for name in ("prev", "next")
    ]
    crypten_ext.disable()
    return result


def _initial_seeds() -> dict[str, int]:
    return {name: devices[CPU].initial_seed() for name, devices in crypten.generators.items()}


def pairwise(context: Context) -> tuple[list[int], list[list[int]], list[int]]:
    """Returns a mask, the words of each key that this party has, and a mask of another shape."""
    keys: list[bytes] = []

    def recorded(key: bytes) -> Keystream:
        keys.append(key)
        return Keystream(key)

    before, masks.Keystream = masks.Keystream, recorded
    try:
        drawn = masks.PairwiseMasks()
    finally:
        masks.Keystream = before
    first, second = drawn.draw((8,)), drawn.draw((2, 3))
    known = [Keystream(key).words((8,)).tolist() for key in keys]
    return first.tolist(), known, second.reshape(-1).tolist()
