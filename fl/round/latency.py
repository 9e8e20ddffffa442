"""Latency of a round by formula: a star of clients, a chain, and chains side by side.

All times are in seconds. A transfer of b bytes on a link takes delay + b / bandwidth. What a client
does with a token takes no time beside training and transfers.

Source:
    the comparison of Li et al., IEEE IoT J. 8(8), 2021, (9)-(11), in terms of links and bytes.
"""

from collections.abc import Collection, Sequence

from extensions.errors import ArgumentError
from extensions.rules import Whole
from fl.round.network import Link

Transfer = tuple[Link, float]
"""A link, and how many bytes go over it."""


def transfer_seconds(transfer: Transfer) -> float:
    """Returns the delay of the link and the time of the bytes at its bandwidth."""
    link, size = transfer
    return link.delay + size / link.bandwidth


def star_seconds(uploads: Sequence[Transfer], training: Sequence[float] | None = None) -> float:
    """Returns when the server has the last of the updates that all clients send it by themselves.

        T = max_k (train_k + up_k)

    Args:
        uploads: of each client to the server.
        training: seconds of each client; 0 unless given.

    Raises:
        ArgumentError: no client, or other numbers of them.
    """
    times = _training(training, len(uploads))
    return max(own + transfer_seconds(up) for own, up in zip(times, uploads, strict=True))


def chain_seconds(hops: Sequence[Transfer], training: Sequence[float] | None = None) -> float:
    """Returns when the server has the sum of a chain.

        T = max_i (train_i + hop_i + ... + hop_n, hop_0 + ... + hop_n)

    It is hop_0 + ... + hop_n where all have trained before: linear in the number of clients, where
    a star's latency is that of its slowest client.

    Args:
        hops: to the first client, between clients in the order of the chain, back from the last.
        training: seconds of each client, in the order of the chain; 0 unless given.

    Raises:
        ArgumentError: no client, or other numbers of them.
    """
    issued, *following = hops
    now = transfer_seconds(issued)
    for own, hop in zip(_training(training, len(following)), following, strict=True):
        now = max(now, own) + transfer_seconds(hop)
    return now


def time_limit(participants: int, hop: Transfer, upload: Transfer, training: float = 0.0) -> float:
    """Returns the Time_limit of a chain for so many clients to take part.

        training + (participants - 1) hop + upload

    `ChainAggregator` counts from the token's first hop on, when all have trained: there training is
    0, and the first hop takes the place of the last one in the formula. So exactly as many take
    part where the links to and from the server are alike.

    Args:
        participants: at least 2: the sum of one is its update.
        hop: of the token, from one client to another.
        upload: of the sum, from the last client to the server.
        training: seconds of the first client.

    Raises:
        ArgumentError: fewer than 2.

    Source:
        Li et al., section IV-C, at the end.
    """
    Whole(2).check("participants", participants)
    return training + (participants - 1) * transfer_seconds(hop) + transfer_seconds(upload)


def chains_seconds(chains: Collection[float], upload: Transfer | None = None) -> float:
    """Returns when the server has the sum of all chains, which run side by side.

        T = max_c T_c, and with an edge node that merges them the time of its upload besides

    `ChainAggregator` adds to the latter a short word of the edge node and the server's answer.

    Args:
        chains: seconds until the collector has the sum of each chain (`chain_seconds`).
        upload: of the total, from the edge node to the server.

    Raises:
        ArgumentError: no chain.
    """
    if not chains:
        raise ArgumentError("chains", chains, "", code="missing")
    return max(chains) + (transfer_seconds(upload) if upload is not None else 0.0)


def _training(training: Sequence[float] | None, clients: int) -> Sequence[float]:
    Whole(1).check("clients", clients)
    if training is None:
        return [0.0] * clients
    if len(training) != clients:
        rule = f"a time for each of {clients} clients"
        raise ArgumentError("training", len(training), rule, code="shape")
    return training
