"""Paillier: the textbook's operations beside phe's, a packed model, encrypted training."""

import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import phe
import torch

import fl
from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.tables import Table
from extensions.data.datasets import load_raw
from extensions.options import Option
from fl import paillier
from fl.protocols import Vector

KEY_BITS = (1024, 2048, 3072)
PLAINTEXT_BITS = (10, 100, 1000)
OURS, PHE = "ours", "phe"
CLIENTS = 10
"""Of the packed model and of training."""

Act = Callable[[], object]
Given = TypeVar("Given")


def milliseconds(act: Act, times: int) -> float:
    """Returns the median over calls of the wall time, in ms."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        found.append(1000 * (time.perf_counter() - began))
    return statistics.median(found)


def textbook_acts(private: paillier.PrivateKey, a: int, b: int) -> dict[str, Act]:
    """Returns our operations on the integers, by name."""
    public = private.public
    one, two = (paillier.encrypt(public, m) for m in (a, b))
    return {
        "encrypt": lambda: paillier.encrypt(public, a),
        "decrypt": lambda: paillier.decrypt(private, one),
        "add": lambda: paillier.enc_add(public, one, two),
        "add constant": lambda: paillier.enc_add_const(public, one, b),
        "times constant": lambda: paillier.enc_mul_const(public, one, b),
    }


def phe_keys(
    private: paillier.PrivateKey,
) -> tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey]:
    """Returns the same key for phe."""
    public = phe.PaillierPublicKey(private.public.n)
    return public, phe.PaillierPrivateKey(public, private.p, private.q)


def phe_acts(private: paillier.PrivateKey, a: int, b: int) -> dict[str, Act]:
    """Returns phe's operations on the integers, by name, without its encoding of reals."""
    public, secret = phe_keys(private)
    one, two = (phe.EncryptedNumber(public, public.raw_encrypt(m)) for m in (a, b))
    return {
        "encrypt": lambda: public.raw_encrypt(a),
        "decrypt": lambda: secret.raw_decrypt(one.ciphertext(False)),
        "add": lambda: one + two,
        "add constant": lambda: one + b,
        "times constant": lambda: one * b,
    }


def operation_rows(private: paillier.PrivateKey, times: int) -> list[dict[str, Any]]:
    """Returns the ms of each operation, for both libraries and integers of each length."""
    key_bits = private.public.n.bit_length()
    rows = []
    for bits in PLAINTEXT_BITS:
        a, b = (secrets.randbits(bits) | 1 << bits - 1 for _ in range(2))
        for library, acts in ((OURS, textbook_acts), (PHE, phe_acts)):
            row: dict[str, Any] = {"key bits": key_bits, "integer bits": bits, "library": library}
            for name, act in acts(private, a, b).items():
                row[f"{name}, ms"] = milliseconds(act, times)
            rows.append(row)
    return rows


def cnn_updates(clients: Iterable[int]) -> dict[int, Vector]:
    """Returns updates of the size of the CNN, as small as one round of training makes them."""
    size = sum(p.numel() for p in fl.models.cnn_mnist().parameters())
    draws = np.random.default_rng(0)
    return {client: draws.normal(0.0, 0.05, size) for client in clients}


def seconds(act: Callable[[], Given]) -> tuple[float, Given]:
    """Returns how long a call took, and what it returned."""
    began = time.perf_counter()
    found = act()
    return time.perf_counter() - began, found


def packed_row(private: paillier.PrivateKey) -> dict[str, Any]:
    """Returns what the CNN costs packed: encryption by a client, the sum of all, decryption."""
    public, fixed_point = private.public, fl.PaillierAggregator().fixed_point
    n, square = public.n, public.n_squared
    updates = cnn_updates(range(CLIENTS))
    packing = paillier.Packing.of_round(n.bit_length(), fixed_point, [1] * CLIENTS)
    of_table, short = seconds(lambda: paillier.ShortRandomness(public))

    def encrypt(update: Vector) -> list[int]:
        values = fixed_point.encode(update).view(np.int64)
        return [short.encrypt(plaintext) for plaintext in packing.pack(values, n)]

    of_encryption, first = seconds(lambda: encrypt(updates[0]))
    others = [encrypt(update) for client, update in updates.items() if client]

    def add() -> list[int]:
        total = first
        for other in others:
            total = [int(a * b % square) for a, b in zip(total, other, strict=True)]
        return total

    of_addition, total = seconds(add)

    def decrypt() -> Vector:
        plaintexts = [paillier.decrypt(private, ciphertext) for ciphertext in total]
        signed = packing.unpack(plaintexts, updates[0].size, n)
        return fixed_point.decode(signed.astype(fixed_point.dtype), CLIENTS)

    of_decryption, mean = seconds(decrypt)
    exact = np.mean(list(updates.values()), axis=0)
    return {
        "key bits": n.bit_length(),
        "library": "ours, packed",
        "values a ciphertext": packing.slots,
        "ciphertexts": len(first),
        "MB of an update": len(first) * n.bit_length() / 4e6,
        "table, s": of_table,
        "encryption, s": of_encryption,
        "addition of 10, s": of_addition,
        "decryption, s": of_decryption,
        "largest error": float(np.max(np.abs(mean - exact))),
    }


def phe_row(private: paillier.PrivateKey, values: int) -> dict[str, Any]:
    """Returns what the CNN costs by phe, value by value, extrapolated from some values."""
    public, secret = phe_keys(private)
    updates = cnn_updates(range(CLIENTS))
    size = updates[0].size
    share = size / values

    def encrypt(update: Vector) -> list[Any]:
        return [public.encrypt(value) for value in update[:values].tolist()]

    of_encryption, first = seconds(lambda: encrypt(updates[0]))
    second = encrypt(updates[1])
    of_addition, _ = seconds(lambda: [a + b for a, b in zip(first, second, strict=True)])
    of_decryption, decrypted = seconds(lambda: [secret.decrypt(c) for c in first])
    bits = private.public.n.bit_length()
    return {
        "key bits": bits,
        "library": f"phe, from {values} values",
        "values a ciphertext": 1,
        "ciphertexts": size,
        "MB of an update": size * bits / 4e6,
        "table, s": 0.0,
        "encryption, s": share * of_encryption,
        "addition of 10, s": (CLIENTS - 1) * share * of_addition,
        "decryption, s": share * of_decryption,
        "largest error": float(np.max(np.abs(np.array(decrypted) - updates[0][:values]))),
    }


def training_rows(data_dir: Path | None, rounds: int, records: int) -> list[dict[str, Any]]:
    """Returns training of the CNN on MNIST, or of a small MLP on digits, plain and encrypted."""
    name = "digits" if data_dir is None else "MNIST"
    split = load_raw(name.lower(), data_dir, 0)
    shape = (-1, 64) if data_dir is None else (-1, 1, 28, 28)
    train, test = (
        (np.asarray(x, dtype=np.float32).reshape(shape) / 255, y)
        for x, y in (
            (split.train_x[:records], split.train_y[:records]),
            (split.test_x, split.test_y),
        )
    )
    rows = []
    for aggregator in (fl.PlainAggregator(), fl.PaillierAggregator()):
        torch.manual_seed(0)
        model = fl.models.mlp(64, 32) if data_dir is None else fl.models.cnn_mnist()
        run = fl.FederatedAveraging(
            model=model,
            clients=fl.partition(train, CLIENTS),
            aggregator=aggregator,
            client_fraction=0.5,
        )
        history = run.fit(rounds, test, evaluate_every=rounds, progress=False)
        rows.append(
            {
                "data": name,
                "parameters": sum(p.numel() for p in model.parameters()),
                "aggregator": type(aggregator).__name__,
                "accuracy, %": 100 * (history.accuracy or 0.0),
                "s a round": statistics.median(report.seconds for report in history),
                "MB up a round": history[rounds - 1].bytes_up / 1e6,
            }
        )
        print(rows[-1], flush=True)
    return rows


@Benchmark(
    FEDERATED,
    "paillier",
    "Paillier",
    minutes=30,
    needs="--data-dir MNIST for its CNN",
    results=[
        Result(
            "paillier-cnn",
            "Size and time of one update of a CNN of 21,840 values, packed, and value by value "
            "with phe.",
            columns="key bits | library | ciphertexts | MB of an update | encryption, s | "
            "addition of 10, s | decryption, s",
        ),
        Result(
            "paillier-training",
            "A round of ten clients, encrypted and in plaintext.",
            columns="*",
        ),
        Result("paillier-operations", "Each operation on integers, beside phe's on the same key."),
    ],
)
def main(
    times: Annotated[int, Option(help="Timed calls of each operation.")] = 20,
    values: Annotated[int, Option(help="Values that phe encrypts one by one.")] = 100,
    rounds: Annotated[int, Option(help="Of each training.")] = 5,
    records: Annotated[int, Option(help="Training records, of MNIST above all.")] = 6000,
    data_dir: Annotated[
        Path | None, Option(help="Folder of MNIST's files; only digits without.")
    ] = None,
) -> Iterator[Table]:
    """Paillier: the operations, a packed CNN beside phe's, training encrypted and plain."""
    operations: list[dict[str, Any]] = []
    packed: list[dict[str, Any]] = []
    for bits in KEY_BITS:
        private = paillier.keygen(bits, insecure_small_key=bits < 2048)
        operations += operation_rows(private, times)
        packed += [packed_row(private), phe_row(private, values)]
    yield Table("paillier-operations", operations, times=times, statistic="median")
    yield Table("paillier-cnn", packed, clients=CLIENTS, values=values)
    trained = training_rows(None, rounds, records)
    if data_dir is not None:
        trained += training_rows(data_dir, rounds, records)
    yield Table(
        "paillier-training",
        trained,
        clients=CLIENTS,
        client_fraction=0.5,
        rounds=rounds,
        records=records,
        key_bits=2048,
        one_process="all clients of a round encrypt one after another",
    )
