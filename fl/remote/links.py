"""Messages between clients, sealed past the server that carries them.

Guarantees:
    A server that follows the protocol learns of such a message its kind, its length and who is in
    its sum, as it does of a link of their own. Keys are new in every round. One that puts a key of
    its own in place of a client's reads all: `ChainAggregator`, whose clients alone send each other
    anything, promises nothing against a server that lies.

Source:
    X25519 (RFC 7748), HKDF-SHA256 (RFC 5869), ChaCha20-Poly1305 (RFC 8439).
"""

import os
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from extensions.errors import MessageError
from fl.round.messages import Message, Party, Value, party_name

LINK_BYTES = 32
NONCE_BYTES = 12
PUBLIC = ("chain", "mask", "attempt", "users")
"""What the server knows of a message between clients: it follows the chain by it."""


class Link:
    """One client's end of its links to all others, for one round.

    Args:
        private: 32 bytes, its secret.
        peers: public keys of the others.

    Raises:
        MessageError: a secret of another length.
    """

    def __init__(self, private: bytes, peers: Mapping[int, bytes]) -> None:
        if len(private) != LINK_BYTES:
            raise MessageError(f"{len(private)} bytes of a link's key, not {LINK_BYTES}")
        self.private = private
        self.peers = dict(peers)
        self._key = X25519PrivateKey.from_private_bytes(private)

    @classmethod
    def fresh(cls) -> "Link":
        """Returns one with a new secret, that knows nobody yet."""
        return cls(os.urandom(LINK_BYTES), {})

    @property
    def public(self) -> bytes:
        """What others are told."""
        return self._key.public_key().public_bytes_raw()

    def seal(self, message: Message) -> Message:
        """Returns the message for its receiver alone.

        Raises:
            MessageError: the receiver's key is not known, or is none.
        """
        nonce, head = os.urandom(NONCE_BYTES), _head(message)
        cipher = self._cipher(message.receiver, message)
        sealed = nonce + cipher.encrypt(nonce, message.encode(), head.encode())
        return _with(head, {"sealed": sealed})

    def open(self, message: Message) -> Message:
        """Returns what was sealed.

        Raises:
            MessageError: it is from somebody else, or for another party or round, or was changed.
        """
        sealed, head = message.body.get("sealed"), _head(message)
        if not isinstance(sealed, bytes) or len(sealed) < NONCE_BYTES:
            raise MessageError(f"nothing is sealed in {message.kind!r}")
        cipher = self._cipher(message.sender, message)
        try:
            data = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], head.encode())
        except InvalidTag as error:
            given = f"{message.kind!r} of {party_name(message.sender)}"
            raise MessageError(f"{given} was not sealed by it for this link") from error
        opened = Message.decode(data)
        if _head(opened).encode() != head.encode():
            raise MessageError(f"{message.kind!r} holds another message than it says")
        return opened

    def _cipher(self, peer: Party, message: Message) -> ChaCha20Poly1305:
        ends = sorted((message.sender, message.receiver))
        try:
            theirs = X25519PublicKey.from_public_bytes(self.peers[peer])
            shared = self._key.exchange(theirs)
        except (KeyError, ValueError) as error:
            raise MessageError(f"no key of a link to {party_name(peer)}") from error
        info = f"PEA link of {ends[0]} and {ends[1]} in round {message.round}".encode()
        return ChaCha20Poly1305(HKDF(SHA256(), LINK_BYTES, None, info).derive(shared))


def _head(message: Message) -> Message:
    """Returns the message with what the server may read of it."""
    return _with(message, {name: message.body[name] for name in PUBLIC if name in message.body})


def _with(message: Message, more: Mapping[str, Value]) -> Message:
    known = {name: value for name, value in message.body.items() if name in PUBLIC}
    return Message(
        round=message.round,
        sender=message.sender,
        receiver=message.receiver,
        kind=message.kind,
        body={**known, **more},
    )
