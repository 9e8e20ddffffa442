"""What party 1 sees while three parties use CrypTen's replicated protocol, and what we refuse."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

import crypten_ext
from crypten_ext.processes.worker import Context
from crypten_ext.ring.crypten_ring import CrypTenRing
from extensions.ring.fixed_point import Integers
from tests.helpers.party_tasks.protocols import Outcome, outcome

import crypten
from crypten import communicator
from crypten.mpc.primitives import ArithmeticSharedTensor

SETTING = {"mpc.protocol": "replicated"}


@contextmanager
def received() -> Iterator[list[torch.Tensor]]:
    """Yields a list that gets every tensor which this party receives in the block."""
    host, log = communicator.get(), []

    def wrap(name: str) -> Callable[..., Any]:
        original = getattr(host, name)

        def call(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            result = original(tensor, *arguments, **options)
            log.append(tensor if name == "irecv" else result)
            return result

        return call

    try:
        vars(host).update({name: wrap(name) for name in ("irecv", "recv")})
        yield log
    finally:
        del host.irecv, host.recv


def square(context: Context, x: Integers) -> dict[str, list[torch.Tensor]]:
    """Returns what this party knows after ``x.square()``, where only party 0 knows x."""
    with crypten.cfg.temp_override(SETTING):
        (secret,) = _share(context, [x])
        tensor = crypten.mpc.MPCTensor.from_shares(secret.share, precision=16)
        with received() as log:
            tensor.square()
    return {"shares": [secret.share], "received": [each.clone() for each in log]}


def multiply_three(context: Context, factors: list[Integers]) -> dict[str, list[torch.Tensor]]:
    """Returns what this party knows after the product of three integers of party 0."""
    with crypten.cfg.temp_override(SETTING):
        x, y, w = _share(context, factors)
        with received() as log:
            (x * y) * w
    return {"shares": [x.share, y.share], "received": [each.clone() for each in log]}


def _share(context: Context, values: list[Integers]) -> list[ArithmeticSharedTensor]:
    return [
        ArithmeticSharedTensor(
            torch.from_numpy(value if context.rank == 0 else np.zeros_like(value)), precision=0
        )
        for value in values
    ]


def refused(context: Context) -> dict[str, Outcome]:
    """Returns what happens where the protocol is chosen before `enable`, and after it."""
    results = {}
    crypten_ext.disable()
    try:
        with crypten.cfg.temp_override(SETTING):
            results["before"] = outcome(crypten_ext.enable)
        crypten_ext.enable()
        x = crypten.cryptensor(torch.ones(3))
        with crypten.cfg.temp_override(SETTING):
            results["after"] = outcome(lambda: x.inverse_sqrt())
            results["ring"] = outcome(lambda: CrypTenRing(16))
    finally:
        crypten_ext.disable()
    return results
