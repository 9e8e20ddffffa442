"""Noise drawn, timed, counted and opened, by each way to draw it in CrypTen and in ABY3."""

import math
import os
import time
from collections.abc import Callable
from typing import Any

PROTOCOL2 = "Protocol 2"
RANDN = "crypten.randn"
FLOATS = "a float Gaussian by each party"


Draw = Callable[[int], Any]
"""From a number to so many values of shared noise."""


def in_crypten(
    context: Any,
    *,
    method: str,
    sigma: float,
    frac_bits: int,
    draws: int,
    chunk: int,
    size: int,
    repeats: int,
) -> dict[str, Any]:
    """Returns opened draws, in ring units, and the cost of `size` values; runs in all parties.

    The noise is opened for this measurement alone.

    Args:
        context: the party's.
        method: PROTOCOL2, RANDN or FLOATS.
        sigma: what remains when a party subtracts what it knows.
        frac_bits: of the ring.
        draws: how many values to open.
        chunk: how many of them at once.
        size: values of the call that is timed.
        repeats: timed calls, after one that is not.
    """
    import crypten_ext
    from crypten_ext import dealer

    import crypten

    crypten_ext.enable()
    crypten.cfg.mpc.provider = "DEALER"
    crypten.cfg.encoder.precision_bits = frac_bits
    draw = _drawing(method, sigma)

    def dealt(count: int) -> Any:
        dealer.begin_step()
        return draw(count)

    return _measure(context, dealt, draws=draws, chunk=chunk, size=size, repeats=repeats)


def in_stock_crypten(
    context: Any, *, frac_bits: int, draws: int, chunk: int, size: int, repeats: int
) -> dict[str, Any]:
    """Returns the same of `crypten.randn` at sigma 1 in CrypTen as it is: its party 0 deals."""
    draw = _drawing(RANDN, 1.0)

    import crypten

    crypten.cfg.encoder.precision_bits = frac_bits
    return _measure(context, draw, draws=draws, chunk=chunk, size=size, repeats=repeats)


def _measure(
    context: Any, draw: Draw, *, draws: int, chunk: int, size: int, repeats: int
) -> dict[str, Any]:
    """Returns what `in_crypten` returns, of noise from `draw`."""
    import numpy as np

    from crypten_ext import dealer
    from crypten_ext.processes.meter import Meter

    draw(size)
    meter, before, seconds = Meter(), dealer.corrected_bytes(), []
    for _ in range(repeats):
        started = time.perf_counter()
        draw(size)
        seconds.append(time.perf_counter() - started)
    rounds, (carried,) = meter.read()
    corrected = dealer.corrected_bytes() - before
    opened = [draw(min(chunk, draws - at)).reveal().numpy() for at in range(0, draws, chunk)]
    return {
        "draws": np.concatenate(opened) if context.rank == 0 else None,
        "rounds": rounds // repeats,
        "bytes": carried.bytes / repeats / size,
        "dealt": corrected / repeats / size,
        "seconds": seconds,
    }


def _drawing(method: str, sigma: float) -> Draw:
    """Returns how a method draws shared noise; to be called in a party of CrypTen."""
    import torch

    import crypten_ext
    from extensions.protocols.noise import party_variance

    import crypten
    from crypten import communicator

    parties = communicator.get().get_world_size()
    if method == PROTOCOL2:
        return lambda count: crypten_ext.gaussian_noise((count,), sigma)
    if method == RANDN:
        return lambda count: crypten.randn((count,)) * sigma
    seed = int.from_bytes(os.urandom(8), "little") >> 1
    own = torch.Generator().manual_seed(seed)
    each = sigma * math.sqrt(party_variance(parties))

    def floats(count: int) -> Any:
        summands = [
            crypten.cryptensor(
                each * torch.randn(count, generator=own, dtype=torch.float64), src=party
            )
            for party in range(parties)
        ]
        return sum(summands[1:], start=summands[0])

    return floats


def in_aby3(
    *, sigmas: list[float], frac_bits: int, draws: int, size: int, repeats: int
) -> list[dict[str, Any]]:
    """Returns, for each sigma, opened draws of Protocol 2, in ring units, and its cost."""
    import tensorflow as tf

    import tfe_ext
    from tfe_ext.aby3.encoding import fixed64
    from tfe_ext.costs.cost import cost_of_graph

    import tf_encrypted as tfe

    tfe.set_config(tfe_ext.local_config())
    tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config=fixed64(frac_bits)))
    found = []
    for sigma in sigmas:

        def noise(count: int, sigma: float = sigma) -> Any:
            return tfe.gaussian_noise((count,), sigma)

        timed = tf.function(
            lambda: tf.nest.flatten(noise(size).flatten_to_native()), autograph=False
        ).get_concrete_function()
        cost = cost_of_graph(timed.graph)
        timed()
        seconds = []
        for _ in range(repeats):
            started = time.perf_counter()
            [part.numpy() for part in timed()]
            seconds.append(time.perf_counter() - started)
        opened = tf.function(lambda: noise(draws).reveal().to_native(), autograph=False)()
        found.append(
            {
                "draws": (opened.numpy() * 2.0**frac_bits).round().astype(int).tolist(),
                "rounds": cost.rounds,
                "bytes": (cost.traffic.mean or 0) / size,
                "largest": (cost.traffic.largest or 0) / size,
                "dealt": 0.0,
                "seconds": seconds,
            }
        )
    return found
