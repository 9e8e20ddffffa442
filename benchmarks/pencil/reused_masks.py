"""What Pencil's Algorithm 3 shows of a secret in each step, and how the secret follows from it.

Of a secret u_t the other party gets m scalars k_t and

    sent_t = u_t - sum over i of k_(t, i) mask_i   (mod 2^bits),

where the m masks are drawn once and serve in all steps. From one step to the next a model changes
little, so that the differences of what is sent lie next to a lattice of m dimensions, which the
scalars give: the closest point of it tells the masks, and these tell every u_t. Closest points are
found by lattice reduction (Lenstra, Lenstra and Lovász, 1982) and rounding (Babai, 1986).

Source:
    Liu et al., Pencil, Algorithm 3, lines 8 and 10.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from extensions.errors import ArgumentError
from extensions.ring.fixed_point import Integers, Reals

Exact = npt.NDArray[np.object_]
"""Arrays of Python's integers."""


class Seen(NamedTuple):
    """What the other party has after some steps.

    Attributes:
        scalars: k, (steps, masks).
        sent: (steps, values), modulo 2^bits.
    """

    scalars: Exact
    sent: Exact


def seen(secret: Integers, *, masks: int, scalar_bits: int, bits: int, fresh: bool = False) -> Seen:
    """Returns what Algorithm 3 shows of a secret, (steps, values), in a ring of so many bits.

    Fresh masks are drawn anew in every step, which is not the algorithm.
    """
    steps, values = secret.shape
    scalars = _drawn((steps, masks), scalar_bits)
    if fresh:
        hidden = np.stack([k @ _drawn((masks, values), bits) for k in scalars])
    else:
        hidden = scalars @ _drawn((masks, values), bits)
    return Seen(scalars, (secret.astype(object) - hidden) % (1 << bits))


def _drawn(shape: tuple[int, int], bits: int) -> Exact:
    return np.array([[secrets.randbits(bits) for _ in range(shape[1])] for _ in range(shape[0])])


def recovered(view: Seen, bits: int) -> Integers:
    """Returns the secrets of all steps, (steps, values), from what was seen of them.

    They are right if they change by less from step to step than the reduced lattice is wide, which
    takes some three steps for each mask.

    Raises:
        ArgumentError: too few steps; a mask that no combination of them isolates.
    """
    modulus = 1 << bits
    changes = np.diff(view.scalars, axis=0)
    columns, solution, pivots = _echelon(changes % modulus, modulus)
    others = sorted({*range(len(changes))} - {*pivots})
    basis = [*columns.T.tolist(), *(_unit(i, len(changes), modulus) for i in others)]
    reduced = _reduced(basis)
    points = _centred(-np.diff(view.sent, axis=0) % modulus, modulus)
    near = np.rint(np.linalg.solve(reduced.T.astype(float), points.astype(float)))
    closest = reduced.T @ np.vectorize(int, otypes=[object])(near)
    masks = solution @ closest[pivots] % modulus
    found = _centred((view.sent + view.scalars @ masks) % modulus, modulus)
    return found.astype(np.int64)


def _echelon(matrix: Exact, modulus: int) -> tuple[Exact, Exact, list[int]]:
    """Returns H = A U with unit rows at some places, U, and these places; all modulo 2^bits."""
    rows, width = matrix.shape
    columns, solution = matrix.copy(), np.array([_unit(i, width, 1) for i in range(width)]).T
    solution, pivots = solution.astype(object), []
    for column in range(width):
        odd = (row for row in range(rows) if columns[row, column] % 2 and row not in pivots)
        if (pivot := next(odd, None)) is None:
            rule = f"more, so that {width} masks can be told from each other"
            raise ArgumentError("steps", rows + 1, rule, code="range")
        inverse = pow(int(columns[pivot, column]), -1, modulus)
        for both in (columns, solution):
            both[:, column] = both[:, column] * inverse % modulus
        for other in range(width):
            if other != column and (factor := columns[pivot, other]):
                for both in (columns, solution):
                    both[:, other] = (both[:, other] - factor * both[:, column]) % modulus
        pivots.append(pivot)
    return columns, solution, pivots


def _unit(place: int, size: int, value: int) -> list[int]:
    return [value if i == place else 0 for i in range(size)]


def _reduced(basis: Sequence[Sequence[int]]) -> Exact:
    from sympy import ZZ
    from sympy.polys.matrices import DomainMatrix

    matrix = DomainMatrix([[ZZ(entry) for entry in row] for row in basis], (len(basis),) * 2, ZZ)
    return np.array([[int(entry) for entry in row] for row in matrix.lll().to_list()], dtype=object)


def _centred(words: Exact, modulus: int) -> Exact:
    centred: Exact = (words + modulus // 2) % modulus - modulus // 2
    return centred


def descent(x: Reals, y: Integers, *, steps: int, rate: float, frac_bits: int) -> Integers:
    """Returns the weights of a softmax regression before each step, (steps, features x classes).

    They are fixed point; steps descend over all records x, of classes y, from zero.
    """
    targets = np.eye(int(y.max()) + 1)[y]
    weights, found = np.zeros((x.shape[1], targets.shape[1])), []
    for _ in range(steps):
        found.append(np.rint(weights.reshape(-1) * 2.0**frac_bits).astype(np.int64))
        scores = np.exp(x @ weights)
        weights -= rate * x.T @ (scores / scores.sum(axis=1, keepdims=True) - targets) / len(x)
    return np.stack(found)
