"""What parties make tuples of, alone: encrypted products, oblivious transfers, own products."""

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np

from benchmarks.benchmark import STEPS, Benchmark, Result
from benchmarks.tables import Table
from extensions.options import Option
from extensions.rules import Whole
from extensions.two_party.lattice.plan import Convolution, matrices
from extensions.two_party.lattice.product import KeyOwner, Multiplier
from extensions.two_party.oblivious_transfer.blocks import Hash
from extensions.two_party.oblivious_transfer.extension import Receiver, Sender, message_bytes
from extensions.two_party.oblivious_transfer.values import receive_correlated, send_correlated

MB = 1e6
CHEETAH_MB = 0.4
"""Of a 128 x 512 by 512 x 10 product in SecretFlow SPU's Cheetah, one round."""
WEIGHT_BITS = {"weights of 20 bits": 20, "weights of 32 bits": 32, "shares": 64}


def _seconds(act: Callable[[], Any], repeats: int) -> float:
    """Returns the median of the processor's seconds."""
    taken = []
    for _ in range(repeats):
        started = time.process_time()
        act()
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def _products(sizes: tuple[int, int, int], repeats: int) -> list[dict[str, Any]]:
    """Returns rows of one product of both ways to encrypt, by the size of the other's entries."""
    owner = KeyOwner()
    multiplier, draws = Multiplier(owner.public_key()), np.random.default_rng(0)
    rows, inner, columns = sizes
    found = []
    for name, bits in WEIGHT_BITS.items():
        both = [
            matrices(rows, inner, columns, weight_bits=bits),
            matrices(columns, inner, rows, weight_bits=bits),
        ]
        plan = min(both, key=_bytes)
        x = draws.integers(-(2**62), 2**62, plan.input_shape)
        weights = draws.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, plan.weight_shape)

        def act(plan: Convolution = plan, x: Any = x, weights: Any = weights) -> None:
            answer, _ = multiplier.multiply(plan, weights, owner.encrypt(plan, x))
            owner.decrypt(plan, answer)

        seconds = _seconds(act, repeats)
        found.append(
            {
                "tool": "lattice",
                "work": f"{rows} x {inner} by {inner} x {columns}, {name}",
                "MB": _bytes(plan) / MB,
                "CPU s": seconds,
                "million a CPU s": "-",
                "Cheetah MB": CHEETAH_MB if sizes == (128, 512, 10) else "-",
                "NumPy's CPU s / ours": "-",
            }
        )
    return found


def _bytes(plan: Convolution) -> int:
    return plan.cut.request_bytes(plan) + plan.cut.answer_bytes(plan)


def _transfers(count: int, repeats: int) -> dict[str, Any]:
    """Returns the row of correlated transfers of words, both parties' work together."""
    receiver = Receiver()
    sender = Sender(receiver.begin())
    sender.finish(receiver.trees(sender.answer()))
    hashed = Hash(bytes(16))
    choices = np.random.default_rng(0).integers(0, 2, count).astype(np.uint8)
    words = np.arange(count, dtype=np.uint64)

    def act() -> None:
        message, received = receiver.extend(choices)
        blocks = sender.extend(count, message)
        sent, _ = send_correlated(hashed, blocks, sender.delta, words)
        receive_correlated(hashed, received, choices, sent)

    seconds = _seconds(act, repeats)
    return {
        "tool": "oblivious transfer",
        "work": f"{count} correlated words",
        "MB": (message_bytes(count) + 8 * count) / MB,
        "CPU s": seconds,
        "million a CPU s": count / seconds / 1e6,
        "Cheetah MB": "-",
        "NumPy's CPU s / ours": "-",
    }


def _own_products(repeats: int) -> list[dict[str, Any]]:
    """Returns rows of a party's products x w and d x of its own words in a linear layer's step."""
    import torch

    from crypten_ext.ring.matmul import matmul

    draws, found, rows = np.random.default_rng(0), [], 3000
    shapes = ((rows, 1024), (10, 1024), (rows, 10), (1, 1024), (rows, 1))
    x, w, d, one, other = (draws.integers(-(2**62), 2**62, shape) for shape in shapes)
    for left, right in ((x, w.T), (d.T, x), (x, one.T), (other.T, x)):
        words = torch.from_numpy(left), torch.from_numpy(right)
        seconds = _seconds(partial(matmul, *words), repeats)
        by_numpy = _seconds(partial(np.matmul, left, right), repeats)
        found.append(
            {
                "tool": "words at hand",
                "work": " by ".join(f"{m} x {n}" for m, n in (left.shape, right.shape)),
                "MB": 0.0,
                "CPU s": seconds,
                "million a CPU s": "-",
                "Cheetah MB": "-",
                "NumPy's CPU s / ours": by_numpy / seconds,
            }
        )
    return found


@Benchmark(
    STEPS,
    "pairwise",
    "Products and transfers of two parties",
    minutes=1,
    results=[
        Result(
            "pairwise-tools",
            "What parties make tuples of, alone. Cheetah's published bytes are for a plaintext "
            "matrix by a shared one.",
            columns="*",
        )
    ],
)
def main(
    rows: int = 128,
    inner: int = 512,
    columns: int = 10,
    transfers: int = 1 << 20,
    repeats: Annotated[int, Option(help="Of which the median is told."), Whole(1)] = 5,
) -> Iterator[Table]:
    """Products of matrices and correlated transfers of two parties, and own products."""
    table = [
        *_products((rows, inner, columns), repeats),
        _transfers(transfers, repeats),
        *_own_products(repeats),
    ]
    yield Table(
        "pairwise-tools",
        table,
        repeats=repeats,
        bytes="of both parties' messages, without their session's keys",
        seconds="of one processor, both parties' work together",
        cheetah="published for a plaintext matrix by a shared one, without noise for a whole run",
    )
