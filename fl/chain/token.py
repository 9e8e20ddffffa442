"""The token of a chain: what it holds, the tag that binds it, and the mask that it starts from."""

import hmac
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from extensions.errors import MessageError
from fl.chain.state import ChainState
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party, Value, party_name
from fl.round.quantization import RingVector

KEY_BYTES = 32
LEAD = "lead."
"""Begins the kind of every message to or from a client as the leader of a round."""


class LinkKeys:
    """All keys of a round, one for each direction of each link; known to the server."""

    def __init__(self) -> None:
        self._root = os.urandom(KEY_BYTES)

    def key(self, sender: Party, receiver: Party) -> bytes:
        """Returns the key of the link from one party to another."""
        return hmac.digest(self._root, f"{sender} to {receiver}".encode(), "sha256")

    def for_clients(self, server: Machine, chain: ChainState) -> Iterator[Message]:
        """Yields for each client of a chain its members, its collector and the client's keys."""
        for client in chain.members:
            peers = sorted({*chain.members, SERVER, chain.collector} - {client})
            yield server.send(
                client,
                "chain",
                chain=chain.number,
                members=np.array(chain.members, dtype=np.int64),
                collector=chain.collector,
                time_limit=chain.time_limit,
                peers=np.array(peers, dtype=np.int64),
                sending=_rows([self.key(client, peer) for peer in peers]),
                receiving=_rows([self.key(peer, client) for peer in peers]),
            )

    def for_edge(self, server: Machine, edge: Party, feeding: list[int]) -> Message:
        """Returns the keys with which an edge node checks the sums of its clients."""
        peers = np.array(feeding, dtype=np.int64)
        keys = _rows([self.key(client, edge) for client in feeding])
        return server.send(edge, "edge", peers=peers, receiving=keys)


def link_keys(message: Message, name: str) -> Mapping[Party, bytes]:
    """Returns the keys of that name by the parties in `peers`, or raises MessageError."""
    peers = message.array("peers", np.int64, (-1,)).tolist()
    keys = message.array(name, np.uint8, (len(peers), KEY_BYTES))
    return {peer: key.tobytes() for peer, key in zip(peers, keys, strict=True)}


def _rows(keys: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)


@dataclass(frozen=True, kw_only=True, eq=False)
class Token:
    """The token (t, U, n_p, Time_limit) with its masked sum; t is the round of its message.

    Attributes:
        chain: number of the chain.
        mask: number of the mask of this chain that is in the sum.
        attempt: how often the server has sent this chain back to its last good hop.
        users: U, the clients whose updates are in the sum, in the order of their hops.
        participants: n_p, how many clients the chain has.
        time_limit: when the holder has to return the token, in seconds, on the clocks of all.
        values: the mask plus the encoded updates of the users, modulo 2^bits.
    """

    chain: int
    mask: int
    attempt: int
    users: tuple[int, ...]
    participants: int
    time_limit: float
    values: RingVector

    def message(self, sender: Machine, receiver: Party, kind: str, key: bytes) -> Message:
        """Returns the token as a message with its tag under the key of the link."""
        bare = sender.send(receiver, kind, **self._body())
        return replace(bare, body={**bare.body, "tag": tag(bare, key)})

    def _body(self) -> dict[str, Value]:
        return {
            "chain": self.chain,
            "mask": self.mask,
            "attempt": self.attempt,
            "users": np.array(self.users, dtype=np.int64),
            "participants": self.participants,
            "time_limit": self.time_limit,
            "values": self.values,
        }

    def kept(self, holder: Machine) -> bytes:
        """Returns the token for its holder's state, from which `of` makes it again."""
        return holder.send(holder.party, "token", **self._body()).encode()

    @classmethod
    def read(
        cls, message: Message, machine: Machine, key: bytes | None, dtype: np.dtype[Any]
    ) -> "Token":
        """Returns the token in a message of kind "token" or "sum".

        Raises MessageError if it is of another round, its sender has no link, its tag is wrong, or
        its sender is not the client that the token visited last.
        """
        name = party_name(message.sender)
        if message.round != machine.round.number:
            raise MessageError(f"a token of round {message.round} by {name}")
        if key is None:
            raise MessageError(f"a token by {name}, who is not in the chain")
        body = {name: value for name, value in message.body.items() if name != "tag"}
        given = message.body.get("tag")
        expected = tag(replace(message, body=body), key)
        if not isinstance(given, bytes) or not hmac.compare_digest(given, expected):
            raise MessageError(f"a token whose tag is not that of {name} for this link and round")
        token = cls.of(message, machine, dtype)
        if (token.users[-1] if token.users else SERVER) != message.sender:
            raise MessageError(f"a token by {name}, who is not its last user")
        return token

    @classmethod
    def of(cls, message: Message, machine: Machine, dtype: np.dtype[Any]) -> "Token":
        """Returns what a message holds, unchecked; raises MessageError if that is no token."""
        return cls(
            chain=message.integer("chain"),
            mask=message.integer("mask"),
            attempt=message.integer("attempt"),
            users=message.clients("users"),
            participants=message.integer("participants"),
            time_limit=message.real("time_limit"),
            values=message.array("values", dtype, (machine.round.size,)),
        )


def tag(message: Message, key: bytes) -> bytes:
    """Returns the HMAC-SHA256 of the message: round, sender, receiver, kind and all values."""
    return hmac.digest(key, message.encode(), "sha256")


def uniform(size: int, dtype: np.dtype[Any]) -> RingVector:
    """Returns uniform elements of the ring: ChaCha20 under a new key of the operating system."""
    cipher = Cipher(algorithms.ChaCha20(os.urandom(KEY_BYTES), bytes(16)), mode=None)
    stream = cipher.encryptor().update(bytes(size * dtype.itemsize))
    return np.frombuffer(stream, dtype=dtype)
