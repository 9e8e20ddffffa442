"""Products with a model that one of two parties has: Algorithms 1 and 2 of Pencil.

Rank `MODEL` has the weights in the clear and multiplies by them under the key of rank `DATA`, who
has the records (`two_party.lattice.product`). `extensions.protocols.pencil.step` says what for.

Source:
    Liu et al., Pencil, NDSS 2024, Algorithms 1 and 2.

Deviation:
    Algorithm 3 is left out, since it tells a data owner the weights (`benchmarks.pencil`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extensions.ring.fixed_point import RING_BITS, Integers
from extensions.ring.integer_matmul import matmul
from extensions.two_party.lattice.plan import PUBLIC_KEY_BYTES, Convolution, matrices
from extensions.two_party.lattice.product import KeyOwner, Multiplier
from extensions.two_party.pairwise.peers import FLOODING, told_by
from extensions.two_party.pairwise.rounds import Making, Round, together

MODEL, DATA = 0, 1
"""Ranks: who has the model, and who has the records."""


@dataclass(frozen=True)
class ProductParty:
    """One party's end of the products: the data owner decrypts, the model's owner multiplies."""

    owner: KeyOwner | None = None
    multiplier: Multiplier | None = None


def meet(rank: int) -> Making[ProductParty]:
    """Returns this party's end, with a key that is drawn for it.

    Cost:
        One round; 451 kB from the data owner.

    Raises CiphertextError if the key is of other parameters, MissingExtraError without SEAL.
    """
    if rank == DATA:
        owner = KeyOwner()
        yield Round({MODEL: owner.public_key()})
        return ProductParty(owner=owner)
    came = yield Round({}, {DATA: PUBLIC_KEY_BYTES})
    with told_by(DATA):
        return ProductParty(multiplier=Multiplier(came[DATA], FLOODING))


class Product(NamedTuple):
    """The public facts of a product x w: DATA has x, (rows, inner), MODEL has w, (inner, columns).

    Entries of w have so many `bits`.
    """

    rows: int
    inner: int
    columns: int
    bits: int = RING_BITS

    @property
    def plan(self) -> Convolution:
        """How ciphertexts hold it."""
        return matrices(
            self.rows, self.inner, self.columns, weight_bits=self.bits, flooding=FLOODING
        )


def crossed(end: ProductParty, product: Product, own: Integers) -> Making[Integers]:
    """Returns shares of x w, (rows, columns), given what this party has of the two.

    Cost:
        Two rounds, of the bytes that `product.plan.cut` says.

    Raises CiphertextError, which names the party, if what came is no such ciphertext.
    """
    plan = product.plan
    if end.owner is not None:
        yield Round({MODEL: end.owner.encrypt(plan, own.reshape(plan.input_shape))})
        came = yield Round({}, {MODEL: plan.cut.answer_bytes(plan)})
        with told_by(MODEL):
            share = end.owner.decrypt(plan, came[MODEL])
    else:
        assert end.multiplier is not None
        came = yield Round({}, {DATA: plan.cut.request_bytes(plan)})
        with told_by(DATA):
            weights = own.T.reshape(plan.weight_shape)
            answer, share = end.multiplier.multiply(plan, weights, came[DATA])
        yield Round({DATA: answer})
    return share.reshape(product.rows, product.columns)


def weighed(
    end: ProductParty,
    x: Integers,
    weight: Integers | None,
    columns: int,
    *,
    bits: int,
    whole: bool = False,
) -> Making[Integers]:
    """Returns shares of x w for a weight w that MODEL has in the clear: Algorithm 1.

    Args:
        end: this party's.
        x: this party's share, (rows, inner).
        weight: w, (inner, columns), at MODEL only.
        columns: of w.
        bits: of the entries of w.
        whole: whether the data owner has all of x, so that MODEL's share of it is 0.

    Cost:
        That of one product.
    """
    product = Product(x.shape[0], x.shape[1], columns, bits)
    share = yield from crossed(end, product, x if weight is None else weight)
    if weight is not None and not whole:
        share = share + matmul(x, weight)
    return share


def multiplied(
    end: ProductParty, d: Integers, x: Integers, *, whole: bool = False
) -> Making[Integers]:
    """Returns shares of d x, given shares of both: Algorithm 2, but for what is opened of it.

    `d` is (outputs, rows), `x` is (rows, inputs); `whole` is as in `weighed`.

    Cost:
        That of two products, at once; of one if the data owner has x.
    """
    (outputs, rows), inputs = d.shape, x.shape[1]
    is_data = end.owner is not None
    products = [crossed(end, Product(inputs, rows, outputs), x.T if is_data else d.T)]
    if not whole:
        products.append(crossed(end, Product(outputs, rows, inputs), d if is_data else x))
    first, *second = yield from together(products)
    own = matmul(d, x) if is_data or not whole else np.zeros((outputs, inputs), dtype=np.int64)
    total: Integers = first.T + own
    return total + second[0] if second else total


def told_to_model(rank: int, parts: Sequence[Integers]) -> Making[list[Integers] | None]:
    """Returns to MODEL, and only to it, what the parties' shares add up to.

    Cost:
        One round; 8 bytes a value from the data owner.
    """
    if rank == DATA:
        yield Round({MODEL: b"".join(np.ascontiguousarray(part).tobytes() for part in parts)})
        return None
    size = 8 * sum(part.size for part in parts)
    came = yield Round({}, {DATA: size})
    left = np.frombuffer(came[DATA], dtype="<i8").astype(np.int64, copy=False)
    opened = []
    for part in parts:
        opened.append(part + left[: part.size].reshape(part.shape))
        left = left[part.size :]
    return opened
