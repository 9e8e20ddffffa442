"""Keys of a chain's links: the server makes them for one round and sends each party its own."""

import hmac
import os
from collections.abc import Iterator, Mapping

import numpy as np

from fl.chain.state import ChainState
from fl.round.machines import Machine
from fl.round.messages import SERVER, Message, Party

KEY_BYTES = 32


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
    """Returns the keys of that name in a message, by the parties in `peers`.

    Raises:
        MessageError: the message holds none.
    """
    peers = message.array("peers", np.int64, (-1,)).tolist()
    keys = message.array(name, np.uint8, (len(peers), KEY_BYTES))
    return {peer: key.tobytes() for peer, key in zip(peers, keys, strict=True)}


def _rows(keys: list[bytes]) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, KEY_BYTES)
