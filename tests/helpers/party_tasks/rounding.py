"""By which coins a party's ring truncates."""

from collections.abc import Sequence
from io import BytesIO

import numpy as np
import torch

from crypten_ext.processes.worker import Context
from crypten_ext.registry import enable
from crypten_ext.ring.crypten_ring import CrypTenRing
from tests.helpers.trajectories import keep_coins

import crypten


def truncated(
    context: Context, *, z: np.ndarray, shifts: Sequence[int]
) -> tuple[list[np.ndarray], bytes]:
    """Returns what z is truncated to, one shift after the other, and the coins."""
    enable()
    with crypten.cfg.temp_override({"mpc.provider": "INSECURE_TFP"}):
        ring, file = CrypTenRing(16), BytesIO()
        keep_coins(ring, file)
        share = torch.from_numpy(z if context.rank == 0 else np.zeros_like(z))
        found = [ring.truncate([(share, shift)])[0] for shift in shifts]
        return [opened.numpy() for opened in ring.open_sum(found)], file.getvalue()
