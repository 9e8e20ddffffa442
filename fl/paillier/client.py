"""A client's part: it gets or deals the key, encrypts its update, and may decrypt the sum."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from extensions.errors import ArgumentError, CiphertextError, MessageError
from fl.paillier.keys import PrivateKey, PublicKey, keygen
from fl.paillier.packing import Packing, as_integers, as_rows, is_modulus
from fl.paillier.scheme import decrypt
from fl.paillier.sealing import EXCHANGE_BYTES, public_bytes, seal, unseal
from fl.paillier.short import ShortRandomness
from fl.round.encoding import readable
from fl.round.machines import Machine, Output, Round
from fl.round.messages import SERVER, Message, Value
from fl.round.quantization import RingVector
from fl.round.state import octets, texts


@dataclass
class Held:
    """What one client keeps from round to round.

    Attributes:
        key: the private key that it has now.
        ever: fingerprints of all keys that it has had.
        model: the last model that it has, where the server has none (`fl.paillier.hidden`).
    """

    key: PrivateKey | None = None
    ever: set[str] = field(default_factory=set)
    model: npt.NDArray[np.float32] | None = None

    def hold(self, key: PrivateKey) -> None:
        """Replaces the key."""
        self.key = key
        self.ever.add(key.public.fingerprint)


class PaillierClient(Machine):
    """Answers each of the server's requests once: deal, key, decrypt."""

    def __init__(
        self,
        round: Round,
        client: int,
        values: RingVector,
        packing: Packing,
        key_bits: int,
        held: Held,
    ) -> None:
        super().__init__(round, client)
        self._values = values.view(f"i{values.itemsize}").astype(np.int64)
        self._packing = packing
        self._bits = key_bits
        self._held = held
        self._exchange = X25519PrivateKey.generate()
        self._due = {"deal", "key", "decrypt"}

    def state(self) -> dict[str, Value]:
        return {"due": sorted(self._due), "exchange": self._exchange.private_bytes_raw()}

    def restore(self, state: Message) -> None:
        self._due = set(texts(state, "due"))
        self._exchange = X25519PrivateKey.from_private_bytes(octets(state, "exchange"))

    def start(self, now: float) -> Iterable[Output]:
        modulus = 0 if self._held.key is None else self._held.key.public.n
        yield self.send(SERVER, "hello", exchange=public_bytes(self._exchange), modulus=modulus)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if message.sender != SERVER or message.kind not in self._due:
            return
        self._due.remove(message.kind)
        try:
            yield self._answer(message, now)
        except (MessageError, CiphertextError, ArgumentError) as error:
            yield self._withdraw(error)

    def _answer(self, message: Message, now: float) -> Output:
        answers = {"deal": self._deal, "key": self._encrypt, "decrypt": self._decrypt}
        return answers[message.kind](message)

    def _withdraw(self, error: Exception) -> Message:
        return self.send(SERVER, "withdraw", reason=readable(str(error)))

    def _deal(self, message: Message) -> Message:
        clients = message.clients("clients")
        if strangers := set(clients) - set(self._known()):
            raise MessageError(f"the server asked for keys of strangers {sorted(strangers)}")
        theirs = message.array("exchange", np.uint8, (len(clients), EXCHANGE_BYTES))
        wanted = message.body.get("modulus")
        if not isinstance(wanted, int):
            raise MessageError("the server asked for no key")
        if not wanted:
            self._held.hold(keygen(self._bits, insecure_small_key=True))
        key = self._key(wanted)
        half = self._bits // 16
        content = key.p.to_bytes(half, "big") + key.q.to_bytes(half, "big")
        sealed: list[Value] = [
            seal(content, self._exchange, client, row.tobytes(), self._context(key.public, client))
            for client, row in zip(clients, theirs, strict=True)
        ]
        exchange = public_bytes(self._exchange)
        return self.send(SERVER, "keys", modulus=key.public.n, exchange=exchange, sealed=sealed)

    def _known(self) -> Iterable[int]:
        """Returns the clients to whom this one deals its key."""
        return self.round.clients

    def _encrypt(self, message: Message) -> Message:
        return self._sent(self._taken(message))

    def _taken(self, message: Message) -> PublicKey:
        """Takes the key that the server passed on, and returns its public part."""
        modulus, sealed = message.body.get("modulus"), message.body.get("sealed")
        if not is_modulus(modulus, self._bits) or not isinstance(sealed, bytes):
            raise MessageError("the server passed on no key")
        if sealed:
            self._held.hold(self._opened(message, PublicKey(modulus), sealed))
        return self._key(modulus).public

    def _sent(self, public: PublicKey) -> Message:
        """Returns the update as ciphertexts."""
        encrypt = ShortRandomness(public).encrypt
        ciphertexts = [encrypt(row) for row in self._packing.pack(self._values, public.n)]
        rows = as_rows(ciphertexts, self._bits // 4)
        return self.send(SERVER, "update", fingerprint=public.fingerprint, ciphertexts=rows)

    def _opened(self, message: Message, public: PublicKey, sealed: bytes) -> PrivateKey:
        dealer, exchange = message.integer("dealer"), message.body.get("exchange")
        if not isinstance(exchange, bytes):
            raise MessageError("the server passed on a sealed key without its dealer")
        context = self._context(public, self.party)
        content = unseal(sealed, self._exchange, dealer, exchange, context)
        half = self._bits // 16
        p, q = (int.from_bytes(part, "big") for part in (content[:half], content[half:]))
        if len(content) != 2 * half or p * q != public.n:
            raise MessageError(f"client {dealer} dealt a key that is not {public.fingerprint}")
        return PrivateKey(p, q)

    def _decrypt(self, message: Message) -> Message:
        plaintexts = as_rows(self._plaintexts(message, "ciphertexts"), self._bits // 8)
        return self.send(SERVER, "sum", plaintexts=plaintexts)

    def _plaintexts(self, message: Message, name: str) -> list[int]:
        """Returns what the ciphertexts of that name hold."""
        key, count = self._held.key, self._packing.count(self.round.size)
        if key is None:
            raise MessageError("no key to decrypt with")
        rows = message.array(name, np.uint8, (count, self._bits // 4))
        return [decrypt(key, ciphertext) for ciphertext in as_integers(rows)]

    def _key(self, modulus: int) -> PrivateKey:
        key = self._held.key
        if key is None or key.public.n.bit_length() != self._bits:
            raise MessageError(f"no key of {self._bits} bits")
        if modulus not in (0, key.public.n):
            raise MessageError(f"the key here is {key.public.fingerprint}, not the requested one")
        return key

    def _context(self, public: PublicKey, client: int) -> bytes:
        return f"{public.fingerprint} round {self.round.number} for {client}".encode()
