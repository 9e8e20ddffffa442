"""What the parties of a masked round agree on beforehand, and the keys that they advertise."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidSignature

from extensions.errors import MessageError
from fl.masked import shamir
from fl.masked.ciphers import KEY_BYTES, TAG_BYTES
from fl.masked.lanes import words
from fl.round.identities import ED25519_BYTES, Verifier
from fl.round.machines import Round
from fl.round.messages import Message
from fl.round.quantization import FixedPoint

Bytes = npt.NDArray[np.uint8]

ADVERT = (3, KEY_BYTES)
"""Shape of what a client advertises: public key for masks, one for shares, commitment to a seed."""

MASK_KEY, SEED = "mask key", "seed"
SECRETS = (MASK_KEY, SEED)
"""What a client deals shares of. Nobody may get both of one client."""

SEALED = (len(SECRETS), shamir.SHARE_BYTES + TAG_BYTES)
"""Shape of what one client deals another: a sealed share of each secret."""


def as_bytes(data: bytes) -> Bytes:
    """Returns the bytes as an array of shape (number,)."""
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(frozen=True)
class Terms:
    """What all parties know before they exchange keys.

    It holds no secret. Machines in one process may share it: then each signature is verified once
    for all of them.

    Attributes:
        round: its number, size, clients and weights.
        threshold: t, how many clients' shares are needed.
        fixed_point: how updates become integers of a ring.
        identities: by client, the public key that it is known by.
        lanes: values in an element of the ring.
        signature_bytes: of a client's signature.
    """

    round: Round
    threshold: int
    fixed_point: FixedPoint
    identities: Mapping[int, Verifier]
    lanes: int = field(default=1, kw_only=True)
    signature_bytes: int = field(default=ED25519_BYTES, kw_only=True)

    @property
    def words(self) -> int:
        """Elements of the ring that a client sends masked."""
        return words(self.round.size, self.lanes)

    @cached_property
    def context(self) -> bytes:
        """SHA-256 of number, size, weights, threshold, fixed point and context of the round.

        Every signature covers it, so that parties with different terms refuse each other.
        """
        stated = json.dumps(["masked aggregation", self._stated()])
        return hashlib.sha256(stated.encode()).digest()

    def _stated(self) -> list[Any]:
        fixed = asdict(self.fixed_point)
        weights = [[client, int(self.round.weights[client])] for client in self.round.clients]
        own = self.round.context.hex()
        sizes = [self.round.number, self.round.size, self.lanes]
        return [*sizes, weights, self.threshold, fixed, own]

    def advertised(self, advert: Bytes) -> bytes:
        """Returns what a client signs to advertise its keys."""
        return b"keys" + self.context + advert.tobytes()

    def verify(self, client: int, signature: Bytes, signed: bytes) -> None:
        """Raises MessageError unless the signature is that of the client under these bytes.

        A right one is remembered, with all that it depends on, and a wrong one is not.
        """
        try:
            self._verify(client, signature.tobytes(), signed)
        except InvalidSignature as error:
            raise MessageError(f"a signature that is not client {client}'s") from error

    def verify_enough(self, signers: Iterable[int], signatures: Bytes, signed: bytes) -> None:
        """Checks that the first t signatures are these clients': more would prove nothing more."""
        rows = zip(signers, signatures, strict=True)
        for client, signature in islice(rows, self.threshold):
            self.verify(client, signature, signed)

    @cached_property
    def _verify(self) -> Callable[[int, bytes, bytes], None]:
        """Verifies a signature that is not among the last two right ones a client."""

        @lru_cache(maxsize=2 * len(self.round.clients))
        def verify(client: int, signature: bytes, signed: bytes) -> None:
            self.identities[client].verify(signature, signed)

        return verify

    def listed(self, message: Message, allowed: Collection[int], *needed: int) -> tuple[int, ...]:
        """Returns the clients that a message lists in its array "clients".

        Raises MessageError if they are not in ascending order, one of them is not allowed, one that
        is needed is missing, or they are fewer than the threshold.
        """
        clients = tuple(message.array("clients", np.int64, (-1,)).tolist())
        given = f"{message.kind!r} lists clients {clients}"
        if list(clients) != sorted(set(clients)):
            raise MessageError(f"{given}, not ascending and distinct")
        if strangers := sorted(set(clients) - set(allowed)):
            raise MessageError(f"{given}, of which {strangers} are not among {sorted(allowed)}")
        if missing := sorted(set(needed) - set(clients)):
            raise MessageError(f"{given}, without {missing}")
        if len(clients) < self.threshold:
            few = f"{message.kind!r} lists {len(clients)} clients"
            raise MessageError(f"{few}, fewer than the threshold {self.threshold}")
        return clients


@dataclass(frozen=True, eq=False)
class Roster:
    """The clients that advertised keys, and their keys.

    Attributes:
        clients: in ascending order.
        adverts: of each, (clients, 3, 32).
        session: digest of the terms and of all adverts: fresh in every round, since every client
            adds fresh keys.
    """

    clients: tuple[int, ...]
    adverts: Bytes
    session: bytes

    @classmethod
    def of(cls, terms: Terms, clients: Sequence[int], adverts: Bytes) -> "Roster":
        """Returns the roster of clients and adverts whose signatures were verified.

        Raises MessageError, with the name of the client, if a key occurs twice.
        """
        seen: dict[bytes, int] = {}
        for client, advert in zip(clients, adverts, strict=True):
            check_keys(client, advert, seen)
        digest = hashlib.sha256(terms.context + np.array(clients, dtype="<i8").tobytes())
        digest.update(adverts.tobytes())
        return cls(tuple(clients), adverts, digest.digest())

    @classmethod
    def read(cls, terms: Terms, message: Message, reader: int) -> "Roster":
        """Returns the roster in the server's message, which lists its reader.

        Raises MessageError if it names another threshold, its list of clients breaks a rule of
        `Terms.listed`, or a signature or a key is wrong; names whose.
        """
        if message.integer("threshold") != terms.threshold:
            raise MessageError(f"the server names a threshold that is not {terms.threshold}")
        clients = terms.listed(message, terms.round.clients, reader)
        adverts = message.array("adverts", np.uint8, (len(clients), *ADVERT))
        signatures = message.array("signatures", np.uint8, (len(clients), terms.signature_bytes))
        for client, advert, signature in zip(clients, adverts, signatures, strict=True):
            terms.verify(client, signature, terms.advertised(advert))
        return cls.of(terms, clients, adverts)

    @cached_property
    def place(self) -> Mapping[int, int]:
        """From a client to its row."""
        return {client: row for row, client in enumerate(self.clients)}

    def pair(self, one: int, other: int) -> bytes:
        """Returns what the keys of two clients are derived for: the session."""
        return self.session

    def advert(self, client: int) -> Bytes:
        """Returns what the client advertised."""
        advert: Bytes = self.adverts[self.place[client]]
        return advert

    def mask_key(self, client: int) -> bytes:
        """Returns the client's public key for masks."""
        return self._row(client, 0)

    def share_key(self, client: int) -> bytes:
        """Returns the client's public key for shares."""
        return self._row(client, 1)

    def commitment(self, client: int) -> bytes:
        """Returns the client's commitment to its seed."""
        return self._row(client, 2)

    def _row(self, client: int, row: int) -> bytes:
        data: bytes = self.advert(client)[row].tobytes()
        return data

    def survivors(self, clients: Sequence[int]) -> bytes:
        """Returns what clients sign to consent to a list of survivors, in this session alone."""
        return b"survivors" + self.session + np.array(clients, dtype="<i8").tobytes()


def check_keys(client: int, advert: Bytes, seen: dict[bytes, int]) -> None:
    """Adds a client's two public keys to those seen; raises MessageError if one was seen before."""
    for public in (row.tobytes() for row in advert[:2]):
        if public in seen:
            raise MessageError(f"client {client} advertises a key that client {seen[public]} has")
        seen[public] = client
