"""What the parties of CrypTen open between them, by every provider of tuples."""

import numpy as np
import torch

from crypten_ext import dealer
from crypten_ext.processes.worker import Context
from crypten_ext.ring import hosts_tuples
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.ring.fixed_point import Integers
from tests.helpers.openings import COUNT, noting, record_openings
from tests.helpers.party_tasks.dealer import use

import crypten
from crypten.mpc.primitives import ArithmeticSharedTensor


def opened(context: Context, provider: str = "", alias: str = "", unmasked: str = "") -> Integers:
    """Returns all opened words, by opening; also those with which tuples are built.

    Args:
        context: this party's.
        provider: whom to ask for tuples, by default the first party.
        alias: name under which it goes meanwhile.
        unmasked: as in `record_openings`.
    """
    seen: list[torch.Tensor] = []
    if provider:
        use(provider)
    dealer.install()
    with crypten.cfg.temp_override({"mpc.provider": provider or "INSECURE_TFP"}):
        dealing = type(crypten.mpc.get_default_provider())
        kept = dealing.NAME, hosts_tuples.open_xor
        dealing.NAME = alias or dealing.NAME
        hosts_tuples.open_xor = noting(hosts_tuples.open_xor, seen)
        try:
            zeros = ArithmeticSharedTensor.PRZS(torch.Size((COUNT,))).share
            record_openings(CrypTenRing(20), zeros, unmasked, seen)
        finally:
            dealing.NAME, hosts_tuples.open_xor = kept
    return np.concatenate([words.numpy().reshape(-1, COUNT) for words in seen])
