"""What the parties of test_factors.py multiply, send and open."""

from typing import Any

import numpy as np
import torch

from crypten_ext.dealer import corrected_bytes
from crypten_ext.processes.meter import Meter
from crypten_ext.processes.worker import Context
from crypten_ext.ring import factors
from crypten_ext.ring.crypten_ring import CrypTenRing
from crypten_ext.ring.exchange import open_sum
from crypten_ext.ring.factors import Factor, share_rows
from extensions.protocols.host import Carried
from extensions.ring.fixed_point import Integers
from tests.helpers.party_tasks.dealer import use

import crypten
from crypten import communicator


def _shared(rows: list[int], own: Integers, others: list[Integers], rank: int) -> list[Any]:
    x = share_rows(rows, [own])[0]
    each = []
    for value in others:
        zero = share_rows([0] * len(rows), [np.zeros((0, *value.shape), dtype=np.int64)])[0].sum(0)
        each.append(zero + torch.from_numpy(value) if rank == 0 else zero)
    return [x, *each]


def products(
    context: Context, *, provider: str, owners: bool, rows: list[int], seed: int
) -> dict[str, Any]:
    """Returns products of a factor beside the clear ones, and what each of them took.

    x w, then d x, then both again, and d x in another shape.
    """
    use(provider)
    draws = np.random.default_rng(seed)
    inputs, outputs = 5, 3

    def drawn(*shape: int) -> Integers:
        return draws.integers(-(2**63), 2**63, shape, dtype=np.int64)

    x, w, d = drawn(sum(rows), inputs), drawn(inputs, outputs), drawn(outputs, sum(rows))
    wide = drawn(outputs + 1, sum(rows))
    start = sum(rows[: context.rank])
    own = x[start : start + rows[context.rank]]
    shares = _shared(rows, own, [w, d, wide], context.rank)
    ring = CrypTenRing(16)
    factor = Factor.of_owners(shares[0], rows, own) if owners else ring.factor(shares[0])
    orders = {
        "x w": (x @ w, lambda: (factor, shares[1])),
        "d x, wide": (wide @ x, lambda: (shares[3], factor)),
        "d x": (d @ x, lambda: (shares[2], factor)),
        "x w again": (x @ w, lambda: (factor, shares[1])),
        "d x again": (d @ x, lambda: (shares[2], factor)),
    }
    found: dict[str, Any] = {}
    with crypten.cfg.temp_override({"communicator.verbose": True}):
        for name, (expected, pair) in orders.items():
            communicator.get().reset_communication_stats()
            dealt = corrected_bytes()
            (result,) = ring.matmul([pair()])
            cost = communicator.get().get_communication_stats()
            (opened,) = open_sum([result])
            right = np.array_equal(opened.numpy(), expected)
            found[name] = (right, cost["rounds"], cost["bytes"], corrected_bytes() - dealt)
    return found


def products_ahead(
    context: Context, *, provider: str, rows: list[int], outputs: int
) -> list[tuple[bool, int]]:
    """Returns products of two factors beside the clear ones, and the payload that each sent.

    The rows of the second one begin to travel with the first product.

    Args:
        context: this party's.
        provider: who deals.
        rows: of each party.
        outputs: columns that the second factor is masked for; the products have 3.
    """
    source: Any = use(provider)
    draws = np.random.default_rng(7)
    inputs = 5
    x, y = (draws.integers(-(2**63), 2**63, (sum(rows), inputs)) for _ in range(2))
    w = draws.integers(-(2**63), 2**63, (inputs, 3))
    block = slice(sum(rows[: context.rank]), sum(rows[: context.rank + 1]))
    ring, group = CrypTenRing(16), communicator.get().main_group
    shares = [_shared(rows, one[block], [w], context.rank) for one in (x, y)]
    first, second = (
        Factor.of_owners(share, rows, one[block])
        for (share, _), one in zip(shares, (x, y), strict=True)
    )
    found = []
    for factor, of_w, expected in (
        (first, shares[0][1], x @ w),
        (second, shares[1][1], y @ w),
    ):
        before = group.mesh.payload[0]
        if factor is first:
            second.mask(outputs, source)
            second.travel()
        (result,) = ring.matmul([(factor, of_w)])
        after = group.mesh.payload[0]
        (opened,) = open_sum([result])
        found.append((np.array_equal(opened.numpy(), expected), after - before))
    return found


def carried_by_owners(context: Context, *, rows: list[int], inputs: int) -> Carried:
    """Returns what a product of owners' rows took, once all have sent everything."""
    use("DEALER")
    own = np.zeros((rows[context.rank], inputs), dtype=np.int64)
    x = share_rows(rows, [own])[0]
    meter = Meter()
    communicator.get().barrier()  # nobody sends to one who does not count yet
    CrypTenRing(16).matmul(
        [(Factor.of_owners(x, rows, own), torch.zeros((inputs, 1), dtype=torch.int64))]
    )
    communicator.get().barrier()
    (carried,) = meter.read().carried
    return carried


def sent_by_owners(context: Context, *, count: int, unmasked: bool) -> Integers:
    """Returns all rows of zeros that owners send to everybody, twice, in words.

    Args:
        context: this party's.
        count: rows of each party.
        unmasked: whether owners know zeros instead of masks.
    """
    source: Any = use("DEALER")
    seen: list[torch.Tensor] = []
    host, deal = factors.OwnersRows.all, type(source).deal_layer

    def all_rows(self: factors.OwnersRows) -> torch.Tensor:
        rows = host(self)
        seen.append(rows.clone())
        return rows

    def zeros(self: Any, *shape: Any) -> factors.LayerMasks:
        masks = deal(self, *shape)
        return masks._replace(x=torch.zeros_like(masks.x))

    factors.OwnersRows.all = all_rows  # type: ignore[method-assign]
    if unmasked:
        type(source).deal_layer = zeros
    try:
        ring, rows = CrypTenRing(16), [count] * context.world_size
        for _ in range(2):
            own = np.zeros((count, 1), dtype=np.int64)
            x = share_rows(rows, [own])[0]
            w = torch.zeros((1, 1), dtype=torch.int64)
            ring.matmul([(Factor.of_owners(x, rows, own), w)])
    finally:
        factors.OwnersRows.all = host  # type: ignore[method-assign]
        type(source).deal_layer = deal
    return np.concatenate([rows.numpy().reshape(-1, count) for rows in seen])
