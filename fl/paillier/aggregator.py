"""The aggregator in which the server adds ciphertexts, and clients hold the key to the sum."""

from collections.abc import Collection
from dataclasses import dataclass, field

from extensions.checks import check_positive
from fl.paillier.client import Held, PaillierClient
from fl.paillier.keys import SECURE_BITS, PrivateKey, check_bits
from fl.paillier.packing import Packing
from fl.paillier.server import PaillierServer
from fl.round.aggregator import Aggregator, Leaks, inherent_leaks
from fl.round.machines import Machine, Round, Vector
from fl.round.messages import SERVER, Message, Value
from fl.round.quantization import FixedPoint
from fl.round.state import texts
from fl.round.view import Coalition, Outcome

FIXED_POINT = FixedPoint(frac_bits=16, clip=4.0)
"""Of updates, unless another one is given: 19 bits with their sign."""


@dataclass(kw_only=True, eq=False)
class PaillierAggregator(Aggregator):
    """The server adds updates that it cannot read: it has ciphertexts, clients the private key.

    **All clients share one private key.** The server together with any single client that holds it,
    even one of another round, reads the update of every client. `leaks_to` says so.

    Who holds what:

    - The server asks one client, the lowest-numbered, to make a key. That client seals it for each
      of the others (`fl.paillier.sealing`); the server passes on what it cannot open.
    - A client keeps its key for later rounds. Where only some clients of a round have a key, the
      lowest-numbered owner of the commonest one deals it to the others.
    - The server asks one client that sent an update to decrypt the sum: that client learns the
      mean, as everybody does from the next model. If it does not answer, the next one is asked.

    | kind | from | holds |
    | --- | --- | --- |
    | hello | client to server | X25519 key; n of the key it holds, or 0 |
    | deal | server to dealer | n, or 0 for a new one; the clients without it, their X25519 keys |
    | keys | dealer to server | n; its X25519 key; the private key, sealed for each of those |
    | key | server to client | n, dealer, its X25519 key, the private key sealed for the client |
    | update | client to server | fingerprint of n; ciphertexts |
    | decrypt, sum | server to one client, and back | ciphertexts of the sum; their plaintexts |
    | withdraw | client to server | why it takes no further part |

    Guarantees:
        The server alone learns the mean of those included and nothing more of an update
        (`fl.paillier.short` has the assumptions). No slot overflows: a round in which one could is
        refused before it begins. The mean differs from that of the updates by at most half a unit
        (`FixedPoint`). A client whose ciphertexts are malformed, late, or under another key by
        their fingerprint is left out. Parties are assumed to follow the protocol: a server that
        does not could have a single update decrypted, or put its own X25519 key in place of a
        client's; a client that does not can spoil the sum, which is then refused without naming it.
        A client that decrypts wrongly is named once another client's plaintexts are in range.

    Cost:
        Two messages up and one down a client, two more in all for the sum, and two where a key is
        dealt. An update is ceil(size / slots) ciphertexts of key_bits / 4 bytes: 226 of 512 bytes
        for 21,840 values of 3 clients of equal weight at 2048 bits, with 97 slots of 21 bits.

    Args:
        key_bits: of n.
        packing: put as many values into a ciphertext as there is room for; else one.
        fixed_point: how updates become integers; the fewer bits, the more slots.
        timeout: seconds that the server waits in each stage for the clients' messages.
        insecure_small_key: allow keys below 2048 bits.

    Raises:
        ArgumentError: a setting out of range.

    Source:
        Paillier, EUROCRYPT 1999; packing after BatchCrypt (Zhang et al., USENIX ATC 2020).
    """

    key_bits: int = SECURE_BITS
    packing: bool = True
    fixed_point: FixedPoint = FIXED_POINT
    timeout: float = 60.0
    insecure_small_key: bool = False
    _held: dict[int, Held] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_bits(self.key_bits, insecure_small_key=self.insecure_small_key)
        check_positive("timeout", self.timeout)
        self._packing([1, 1])

    def _packing(self, weights: Collection[int]) -> Packing:
        return Packing.of_round(self.key_bits, self.fixed_point, weights, packed=self.packing)

    def server(self, round: Round) -> Machine:
        """Returns the machine that adds ciphertexts."""
        packing = self._packing(round.weights.values())
        return PaillierServer(
            round, self.key_bits, packing, self.fixed_point, self.min_clients, self.timeout
        )

    def client(self, round: Round, client: int, update: Vector) -> Machine:
        """Returns the machine that encrypts the update, and may deal the key or decrypt the sum."""
        held = self._held.setdefault(client, Held())
        packing = self._packing(round.weights.values())
        values = self.fixed_point.encode(update, round.weights[client])
        return PaillierClient(round, client, values, packing, self.key_bits, held)

    def check_weights(self, weights: Collection[int]) -> None:
        """Returns only if no slot of a sum can overflow."""
        super().check_weights(weights)
        self._packing(weights)

    def kept(self, client: int) -> dict[str, Value]:
        """Returns the key that the client holds, and the fingerprints of those that it has had."""
        held = self._held.get(client, Held())
        key = {} if held.key is None else {"p": held.key.p, "q": held.key.q}
        return {**key, "ever": sorted(held.ever)}

    def keep(self, client: int, state: Message) -> None:
        """Goes on from what `kept` returned."""
        held = self._held[client] = Held(ever=set(texts(state, "ever")))
        p, q = (state.body.get(name) for name in ("p", "q"))
        if isinstance(p, int) and isinstance(q, int):
            held.hold(PrivateKey(p, q))

    def held_by(self, client: int) -> PrivateKey | None:
        """Returns the private key that a client holds now; for experiments on what it reads."""
        return self._held[client].key if client in self._held else None

    def leaks_to(self, coalition: Coalition, outcome: Outcome) -> Leaks:
        """Returns every single client to the server with a client that ever held the key.

        A server that lies needs no client: it asks one to decrypt a single update, or has the key
        sealed for itself.
        """
        received = outcome.transcript.received(SERVER, "update")
        senders = {message.sender for message in received}
        used = {message.text("fingerprint", "") for message in received}
        holders = {k for k, held in self._held.items() if held.ever & used}
        holders |= {k for k in coalition.clients if outcome.transcript.received(k, "key")}
        if coalition.server and (coalition.lying or holders & coalition.clients):
            return frozenset(frozenset({client}) for client in senders - coalition.clients)
        return inherent_leaks(coalition, outcome.included)
