"""All but one of sixteen seeds, 32 times, from 128 base transfers: punctured trees.

Goldreich, Goldwasser and Micali's trees, whose path to a leaf is hidden by a base transfer a level
(Schoppmann et al., CCS 2019; Roy, CRYPTO 2022): for each level one party sends the xor of all left
children under one key, that of all right ones under the other.
"""

from functools import cache

import numpy as np

from extensions.two_party.oblivious_transfer.blocks import BITS, BLOCK, Bytes, Hash, check_size

DEPTH = 4
"""Of a tree. One more halves what is sent and doubles what is computed."""
TREES, LEAVES = BITS // DEPTH, 1 << DEPTH
SUMS_BYTES = BITS * 2 * BLOCK


def grow(roots: Bytes, keys: Bytes) -> tuple[Bytes, bytes]:
    """Returns all leaves, and the message that gives the other party all but one of each tree.

    Roots, (32, 16), are uniform; keys are both of each base transfer, (128, 2, 16). There are
    leaves, (32, 16, 16), and 4,096 bytes.
    """
    nodes, sums = roots[:, None], np.empty((TREES, DEPTH, 2, BLOCK), dtype=np.uint8)
    for level in range(DEPTH):
        nodes = _children(nodes)
        for side in (0, 1):
            sums[:, level, side] = np.bitwise_xor.reduce(nodes[:, side::2], axis=1)
    return nodes, (sums.reshape(BITS, 2, BLOCK) ^ keys).tobytes()


def puncture(choices: Bytes, keys: Bytes, message: bytes) -> tuple[Bytes, Bytes]:
    """Returns the numbers of the leaves that stay unknown, and the leaves with zeros there.

    `choices` of the base transfers, (128,), are the side that is known at each level; `keys` are
    theirs, (128, 16). Numbers, (32,), are in 0..15, leaves are (32, 16, 16).

    Raises TransferError if the message of `grow` has another size.
    """
    check_size("trees", message, SUMS_BYTES)
    hidden = np.frombuffer(message, dtype=np.uint8).reshape(BITS, 2, BLOCK)
    sums = (hidden[np.arange(BITS), choices] ^ keys).reshape(TREES, DEPTH, BLOCK)
    sides = choices.reshape(TREES, DEPTH)
    tree, path = np.arange(TREES), np.zeros(TREES, dtype=np.intp)
    nodes = np.zeros((TREES, 1, BLOCK), dtype=np.uint8)
    for level in range(DEPTH):
        nodes = _children(nodes)
        nodes[tree, 2 * path] = nodes[tree, 2 * path + 1] = 0
        halves = nodes.reshape(TREES, -1, 2, BLOCK)
        known = np.bitwise_xor.reduce(halves, axis=1)[tree, sides[:, level]]
        nodes[tree, 2 * path + sides[:, level]] = sums[:, level] ^ known
        path = 2 * path + 1 - sides[:, level]
    return path.astype(np.uint8), nodes


def _children(nodes: Bytes) -> Bytes:
    """Returns the two children of each node, next to each other: (trees, 2 nodes, 16)."""
    both = np.stack([side(nodes) for side in _sides()], axis=2)
    return both.reshape(len(nodes), -1, BLOCK)


@cache
def _sides() -> tuple[Hash, Hash]:
    return Hash(b"pea tree 1: left"), Hash(b"pea tree 1:right")
