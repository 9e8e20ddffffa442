"""One SecAgg+ round of Flower's own functions, without its engine: run by a Python that has flwr.

    python flower_round.py CLIENTS VALUES SHARES THRESHOLD

prints, as JSON, the mean processor seconds and bytes of a client, the server's processor seconds,
and the largest error of the mean. Client functions are those of `secaggplus_mod`, the server's
arithmetic that of `SecAggPlusWorkflow`; messages are counted by the bytes strings in them.
"""

import importlib
import json
import random
import sys
import time
from typing import Any

import numpy as np
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

# The package has a function of the module's name, which hides it from an import statement.
mod: Any = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")

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
        self.states = {k: mod.SecAggPlusState() for k in numbers}
        self.seconds = 0.0
        self.bytes = 0

    def ask(self, act: Any, client: int, told: dict[str, Any], *more: Any) -> dict[str, Any]:
        """Returns what a client answers in a stage."""
        began = time.process_time()
        answer: dict[str, Any] = act(self.states[client], told, *more)
        self.seconds += time.process_time() - began
        self.bytes += size_of(told) + size_of(answer)
        return answer


def main(count: int, values: int, shares: int, threshold: int) -> dict[str, float]:
    """Returns what a round of so many clients takes."""
    order = list(range(1, count + 1))
    random.shuffle(order)
    half = shares >> 1
    near = {
        k: {order[(i + o) % count] for o in range(-half, half + 1)} for i, k in enumerate(order)
    }
    clients = Clients(order)
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
    keys = {k: clients.ask(mod._setup, k, terms) for k in order}
    public = {k: [v[Key.PUBLIC_KEY_1], v[Key.PUBLIC_KEY_2]] for k, v in keys.items()}
    sent = {k: clients.ask(mod._share_keys, k, {str(n): public[n] for n in near[k]}) for k in order}
    waiting: dict[int, tuple[list[int], list[bytes]]] = {k: ([], []) for k in order}
    for source, answer in sent.items():
        pairs = zip(answer[Key.DESTINATION_LIST], answer[Key.CIPHERTEXT_LIST], strict=True)
        for to, sealed in pairs:
            waiting[to][0].append(source)
            waiting[to][1].append(sealed)
    server, total = 0.0, None
    for client in order:
        told = dict(zip((Key.SOURCE_LIST, Key.CIPHERTEXT_LIST), waiting[client], strict=True))
        own = ndarrays_to_parameters([updates[client]])
        answer = clients.ask(mod._collect_masked_vectors, client, told, int(WEIGHT), own)
        began = time.process_time()
        masked = [bytes_to_ndarray(b) for b in answer[Key.MASKED_PARAMETERS]]
        total = masked if total is None else parameters_addition(total, masked)
        server += time.process_time() - began
    collected: dict[int, list[bytes]] = {k: [] for k in order}
    for client in order:
        told = {Key.ACTIVE_NODE_ID_LIST: list(near[client]), Key.DEAD_NODE_ID_LIST: []}
        answer = clients.ask(mod._unmask, client, told)
        for owner, share in zip(answer[Key.NODE_ID_LIST], answer[Key.SHARE_LIST], strict=True):
            collected[owner].append(share)
    began = time.process_time()
    total = parameters_mod(total, MODULUS)
    for rows in collected.values():
        mask = pseudo_rand_gen(combine_shares(rows), MODULUS, get_parameters_shape(total))
        total = parameters_subtraction(total, mask)
    ratio, total = factor_extract(parameters_mod(total, MODULUS))
    (mean,) = dequantize(total, CLIP, TARGET)
    mean = (mean - (count - 1) * CLIP) * (TARGET / ratio)
    server += time.process_time() - began
    error = float(np.abs(mean - np.mean(list(updates.values()), axis=0)).max())
    of_client = clients.bytes / count
    return {
        "client": clients.seconds / count,
        "server": server,
        "bytes": of_client,
        "error": error,
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
