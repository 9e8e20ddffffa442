"""One SecAgg+ round of Flower's own functions, without its engine: run by a Python that has flwr.

    python flower_round.py CLIENTS VALUES SHARES THRESHOLD

prints, as JSON, the mean processor seconds and bytes of a client, the server's processor seconds,
and the largest error of the mean. Client functions are those of `secaggplus_mod`, the server's
arithmetic that of `SecAggPlusWorkflow`; messages are counted by the bytes strings in them.
"""

import json
import random
import sys
import time
from typing import Any

import numpy as np
from flwr.client.mod.secure_aggregation.secaggplus_mod import (
    SecAggPlusState,
    _collect_masked_vectors,
    _setup,
    _share_keys,
    _unmask,
)
from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.ndarrays_arithmetic import (
    factor_extract,
    get_parameters_shape,
    parameters_addition,
    parameters_mod,
    parameters_subtraction,
)
from flwr.common.secure_aggregation.quantization import dequantize
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

CLIP, TARGET, MODULUS = 8.0, 2**22, 2**32
WEIGHT = 1000.0


def size_of(value: Any) -> int:
    """Returns the bytes of what a message holds; 8 for a number."""
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(size_of, value))
    return len(value) if isinstance(value, bytes | str) else 8


class Clients:
    """All clients, with what they compute and send."""

    def __init__(self, numbers: list[int]) -> None:
        self.states = {k: SecAggPlusState() for k in numbers}
        self.seconds = 0.0
        self.bytes = 0

    def ask(self, act: Any, client: int, told: dict[str, Any], *more: Any) -> dict[str, Any]:
        """Returns what a client answers in a stage."""
        began = time.process_time()
        answer: dict[str, Any] = act(self.states[client], told, *more)
        self.seconds += time.process_time() - began
        self.bytes += size_of(told) + size_of(answer)
        return answer


def neighbours(order: list[int], shares: int) -> dict[int, set[int]]:
    """Returns whom each client shares keys with, itself among them: a ring in this order."""
    half, count = shares >> 1, len(order)
    return {
        k: {order[(i + o) % count] for o in range(-half, half + 1)} for i, k in enumerate(order)
    }


def shared(
    clients: Clients, near: dict[int, set[int]], terms: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """Returns what each client is told of the shares that others dealt it."""
    keys = {k: clients.ask(_setup, k, terms) for k in near}
    public = {k: [v[Key.PUBLIC_KEY_1], v[Key.PUBLIC_KEY_2]] for k, v in keys.items()}
    told: dict[int, dict[str, Any]] = {
        k: {Key.SOURCE_LIST: [], Key.CIPHERTEXT_LIST: []} for k in near
    }
    for source, own in near.items():
        answer = clients.ask(_share_keys, source, {str(n): public[n] for n in own})
        pairs = zip(answer[Key.DESTINATION_LIST], answer[Key.CIPHERTEXT_LIST], strict=True)
        for to, sealed in pairs:
            told[to][Key.SOURCE_LIST].append(source)
            told[to][Key.CIPHERTEXT_LIST].append(sealed)
    return told


def opened(clients: Clients, near: dict[int, set[int]]) -> dict[int, list[bytes]]:
    """Returns the shares of each client's seed."""
    found: dict[int, list[bytes]] = {k: [] for k in near}
    for client, own in near.items():
        told = {Key.ACTIVE_NODE_ID_LIST: list(own), Key.DEAD_NODE_ID_LIST: []}
        answer = clients.ask(_unmask, client, told)
        for owner, share in zip(answer[Key.NODE_ID_LIST], answer[Key.SHARE_LIST], strict=True):
            found[owner].append(share)
    return found


def unmasked(total: Any, shares: dict[int, list[bytes]], count: int) -> Any:
    """Returns the mean in a sum of masked updates."""
    total = parameters_mod(total, MODULUS)
    for rows in shares.values():
        mask = pseudo_rand_gen(combine_shares(rows), MODULUS, get_parameters_shape(total))
        total = parameters_subtraction(total, mask)
    ratio, total = factor_extract(parameters_mod(total, MODULUS))
    (mean,) = dequantize(total, CLIP, TARGET)
    return (mean - (count - 1) * CLIP) * (TARGET / ratio)


def main(count: int, values: int, shares: int, threshold: int) -> dict[str, float]:
    """Returns what a round of so many clients takes."""
    order = list(range(1, count + 1))
    random.shuffle(order)
    near, clients = neighbours(order, shares), Clients(order)
    for client, state in clients.states.items():
        state.nid = client
    draws = np.random.default_rng(0)
    updates = {k: draws.uniform(-1, 1, values).astype(np.float32) for k in order}
    terms = {
        Key.SAMPLE_NUMBER: count,
        Key.SHARE_NUMBER: min(shares, count),
        Key.THRESHOLD: threshold,
        Key.CLIPPING_RANGE: CLIP,
        Key.TARGET_RANGE: TARGET,
        Key.MOD_RANGE: MODULUS,
        Key.MAX_WEIGHT: WEIGHT,
    }
    server, total = 0.0, None
    for client, told in shared(clients, near, terms).items():
        own = ndarrays_to_parameters([updates[client]])
        answer = clients.ask(_collect_masked_vectors, client, told, int(WEIGHT), own)
        began = time.process_time()
        masked = [bytes_to_ndarray(b) for b in answer[Key.MASKED_PARAMETERS]]
        total = masked if total is None else parameters_addition(total, masked)
        server += time.process_time() - began
    collected = opened(clients, near)
    began = time.process_time()
    mean = unmasked(total, collected, count)
    server += time.process_time() - began
    return {
        "client": clients.seconds / count,
        "server": server,
        "bytes": clients.bytes / count,
        "error": float(np.abs(mean - np.mean(list(updates.values()), axis=0)).max()),
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
