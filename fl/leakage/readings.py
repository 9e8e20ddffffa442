"""Readings of a client's update by somebody who saw some of a round's messages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from fl.chain.equations import names_of
from fl.chain.token import LEAD
from fl.paillier import Packing, PrivateKey, PublicKey, decrypt
from fl.paillier.packing import as_integers
from fl.round.machines import Vector
from fl.round.messages import Message, Party
from fl.round.view import Outcome


def vectors_sent(
    view: Iterable[Message], client: Party, size: int, *, frac_bits: int = 24
) -> list[Vector]:
    """Returns every vector of that size that the client sent, as numbers.

    Floating-point arrays are taken as they are, ring elements as signed fixed point.

    Args:
        view: of a coalition, `outcome.transcript.view(coalition)`.
        client: who is attacked.
        size: number of values of the model.
        frac_bits: fractional bits of ring elements.

    Examples:
        >>> import fl.leakage
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.PlainAggregator(), updates)
        >>> view = outcome.transcript.view(fl.Coalition(server=True))
        >>> fl.leakage.vectors_sent(view, client=1, size=2)
        [array([3., 4.])]
    """
    return [
        _as_numbers(row, frac_bits)
        for message in view
        if message.sender == client
        for row in _rows(message, size)
    ]


def running_sums(
    view: Iterable[Message], client: Party, size: int, *, frac_bits: int = 24
) -> list[Vector]:
    """Returns the sums of a chain that contain the client's update, smallest first.

    These are all sums in the view, each with its mask, and the differences of two sums under one
    mask where the first contains the second. Who is in which sum is public.

    Args:
        view: of a coalition in a round of `ChainAggregator`.
        client: who is attacked.
        size: number of values of the model.
        frac_bits: fractional bits of ring elements.

    Examples:
        >>> import fl.leakage
        >>> updates = {k: np.full(2, float(k)) for k in range(4)}
        >>> outcome = fl.protocols.aggregate(fl.ChainAggregator(), updates)
        >>> view = outcome.transcript.view(fl.Coalition(server=True))
        >>> len(fl.leakage.running_sums(view, client=1, size=2)) > 0
        True
    """
    seen: dict[frozenset[object], npt.NDArray[Any]] = {
        frozenset(names_of(message)): row
        for message in view
        if message.kind.removeprefix(LEAD) in ("token", "sum")
        for row in _rows(message, size)
    }
    found = dict(seen)
    for more, row in seen.items():
        found |= {more - less: row - other for less, other in seen.items() if less < more}
    holding = [names for names in found if client in names]
    return [_as_numbers(found[names], frac_bits) for names in sorted(holding, key=len)]


def ciphertexts(
    view: Iterable[Message],
    client: Party,
    size: int,
    packing: Packing,
    key: PrivateKey | PublicKey,
    *,
    frac_bits: int = 16,
) -> list[Vector]:
    """Returns what the client's ciphertexts hold: its update, with the private key.

    With the public key alone, c = (1 + n m) r^n mod n^2 is read as if it had no blinding r, as
    (c - 1) / n, which is m only for r = 1.

    Args:
        view: of a coalition in a round of `PaillierAggregator`.
        client: who is attacked.
        size: number of values of the model.
        packing: of the round.
        key: the private key, or the public one if the coalition has no more.
        frac_bits: fractional bits of the values.
    """
    found = []
    for message in view:
        if (message.sender, message.kind) == (client, "update"):
            rows = as_integers(message.array("ciphertexts", np.uint8, (-1, -1)))
            if isinstance(key, PrivateKey):
                n, plaintexts = key.public.n, [decrypt(key, row) for row in rows]
            else:
                n, plaintexts = key.n, [(row - 1) // key.n for row in rows]
            values = packing.slots_of(plaintexts, n)[:size]
            found.append(np.ldexp(values.astype(np.float64), -frac_bits))
    return found


def rest_of_mean(outcome: Outcome, own: Mapping[int, Vector]) -> Vector:
    """Returns the other clients' mean update, computed from the mean and the coalition's own.

    Args:
        outcome: of a round of equal weights; its mean is known to everybody by the next model.
        own: updates of members of the coalition, by client.

    Raises:
        ArgumentError: the mean is of the coalition alone.

    Examples:
        >>> import fl.leakage
        >>> updates = {0: np.array([1.0, 2.0]), 1: np.array([3.0, 4.0])}
        >>> outcome = fl.protocols.aggregate(fl.MaskedAggregator(), updates)
        >>> fl.leakage.rest_of_mean(outcome, {0: updates[0]}).tolist()
        [3.0, 4.0]
    """
    members = [own[client] for client in outcome.included if client in own]
    others = len(outcome.included) - len(members)
    if not others:
        raise ArgumentError("own", sorted(own), f"fewer than all clients {outcome.included}")
    total = outcome.aggregate.mean * len(outcome.included) - np.sum(members, axis=0)
    rest: Vector = total / others
    return rest


def _rows(message: Message, size: int) -> Iterator[npt.NDArray[Any]]:
    """Yields the arrays of shape (size,) in a message, and those sent as places and values."""
    yield from _filled(message, size)
    for value in message.body.values():
        if isinstance(value, np.ndarray) and value.shape == (size,):
            yield value


def _filled(message: Message, size: int) -> Iterator[npt.NDArray[Any]]:
    places, values = message.body.get("places"), message.body.get("values")
    if not isinstance(places, np.ndarray) or not isinstance(values, np.ndarray):
        return
    if places.shape == values.shape and np.all(places < size):
        row = np.zeros(size)
        row[places] = values
        yield row


def _as_numbers(array: npt.NDArray[Any], frac_bits: int) -> Vector:
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    signed = array.view(array.dtype.str.replace("u", "i"))
    return np.ldexp(signed.astype(np.float64), -frac_bits)
