"""A private key on its way from the client that dealt it to another, past the server.

Guarantees:
    Without one of the two X25519 keys nothing is learned but the length of what is sealed, and
    every change is noticed. Owners of X25519 keys are not authenticated: parties are assumed to
    follow the protocol (`PaillierAggregator`).

Source:
    X25519 (RFC 7748), HKDF-SHA256 (RFC 5869), ChaCha20-Poly1305 (RFC 8439).
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from extensions.errors import MessageError
from fl.round.messages import Party, party_name

EXCHANGE_BYTES = 32
NONCE = bytes(12)
"""One nonce is enough: a key is agreed on for one message in one round, to one receiver."""


def public_bytes(own: X25519PrivateKey) -> bytes:
    """Returns the 32 bytes of the public key."""
    return own.public_key().public_bytes_raw()


def is_exchange_key(theirs: bytes) -> bool:
    """Returns whether a secret can be agreed on with this public key: it has no small order."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:
        return False
    return True


def seal(
    content: bytes, own: X25519PrivateKey, peer: Party, theirs: bytes, context: bytes
) -> bytes:
    """Returns the content for the owner of the peer's X25519 key alone, 16 bytes longer.

    Both keys are new in the round, and seal once; both sides must agree on the context. Raises
    MessageError, with the name of the peer, if its key is none.
    """
    sender = public_bytes(own)
    return _cipher(own, peer, theirs, sender + theirs + context).encrypt(NONCE, content, context)


def unseal(
    sealed: bytes, own: X25519PrivateKey, peer: Party, theirs: bytes, context: bytes
) -> bytes:
    """Returns what the peer sealed for the owner of `own`.

    Raises MessageError, with the name of the peer, if keys or context are others, or it changed.
    """
    cipher = _cipher(own, peer, theirs, theirs + public_bytes(own) + context)
    try:
        return cipher.decrypt(NONCE, sealed, context)
    except InvalidTag as error:
        raise MessageError(f"the key sealed by {party_name(peer)} cannot be opened") from error


def _cipher(own: X25519PrivateKey, peer: Party, theirs: bytes, info: bytes) -> ChaCha20Poly1305:
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError as error:
        raise MessageError(f"{party_name(peer)} gave no X25519 key") from error
    return ChaCha20Poly1305(HKDF(SHA256(), 32, None, b"PEA Paillier key" + info).derive(shared))
