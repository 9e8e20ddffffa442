"""Long-lived keys of clients, by which others know them: made here, or read from files."""

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)

from extensions.errors import ArgumentError

ED25519_BYTES = 64
_KEYGEN = "Type: ssh-keygen -t ecdsa -b 384 -N '' -f 0"
_HASH = ec.ECDSA(hashes.SHA256())


class Signer(Protocol):
    """A private key."""

    def sign(self, data: bytes, /) -> bytes:
        """Returns the signature under the data."""


class Verifier(Protocol):
    """A public key."""

    def verify(self, signature: bytes, data: bytes, /) -> None:
        """Checks that that is the signature under the data; else raises InvalidSignature."""


class Identities(ABC):
    """The public keys of all clients, and the private ones of those whose parts run here.

    Attributes:
        signature_bytes: of every client's signature.
    """

    signature_bytes: int = ED25519_BYTES

    @abstractmethod
    def signer(self, client: int) -> Signer:
        """Returns the private key of a client whose part runs here."""

    @abstractmethod
    def verifier(self, client: int) -> Verifier:
        """Returns the public key of a client."""


class FreshIdentities(Identities):
    """Ed25519 keys that are made when they are first asked for, and stay.

    They stand for a public-key infrastructure where all parties run in one process.
    """

    def __init__(self) -> None:
        self._keys: dict[int, Ed25519PrivateKey] = {}

    def signer(self, client: int) -> Ed25519PrivateKey:
        if client not in self._keys:
            self._keys[client] = Ed25519PrivateKey.generate()
        return self._keys[client]

    def verifier(self, client: int) -> Ed25519PublicKey:
        return self.signer(client).public_key()


class EllipticSigner:
    """A private key on a NIST curve, that signs with ECDSA and SHA-256 (FIPS 186-5).

    A signature is r and s, each as long as the key, in big-endian bytes. Whoever uses the key for
    another protocol as well must sign nothing there that a message of this one could be: ours begin
    with a word, "keys", "survivors" or "node".
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key

    def sign(self, data: bytes, /) -> bytes:
        length = _length(self._key.curve)
        pair = decode_dss_signature(self._key.sign(data, _HASH))
        return b"".join(number.to_bytes(length) for number in pair)


class EllipticVerifier:
    """The public key of an `EllipticSigner`."""

    def __init__(self, key: ec.EllipticCurvePublicKey) -> None:
        self._key = key

    def verify(self, signature: bytes, data: bytes, /) -> None:
        length = _length(self._key.curve)
        if len(signature) != 2 * length:
            raise InvalidSignature
        r, s = int.from_bytes(signature[:length]), int.from_bytes(signature[length:])
        self._key.verify(encode_dss_signature(r, s), data, _HASH)


class KeyFolder(Identities):
    """The keys of a run's clients, read from files as ``ssh-keygen`` writes them.

    Args:
        folder: has ``<client>.pub`` for every client, all Ed25519 or all on one NIST curve, and no
            two alike: public keys that their owners gave each other. Whoever can change one can
            pretend to be that client.
        private: file of the private key of the client whose part runs here; None: of the server,
            which has none, or `folder` has ``<client>`` as well, as where one host has all.

    Raises:
        ArgumentError: a file is missing, or is no such key, or keys are of several kinds.
    """

    def __init__(self, folder: Path, private: Path | None = None) -> None:
        self.folder = folder
        self.private = private
        self._verifiers: dict[int, Verifier] = {}
        self._public: dict[int, bytes] = {}
        kinds = {self._read(path) for path in _numbered(folder)}
        if len(kinds) != 1:
            rule = "a folder of files 0.pub, 1.pub, ..., all of one kind"
            raise ArgumentError("keys", str(folder), rule, _KEYGEN, code="file")
        (self.signature_bytes,) = kinds

    def _read(self, path: Path) -> int:
        key = _public(path)
        client = int(path.stem)
        self._public[client] = raw_public(key)
        if (first := self.client_of(self._public[client])) != client:
            rule = f"a key other than that of client {first}"
            raise ArgumentError("keys", str(path), rule, code="file")
        if isinstance(key, Ed25519PublicKey):
            self._verifiers[client] = key
            return ED25519_BYTES
        self._verifiers[client] = EllipticVerifier(key)
        return 2 * _length(key.curve)

    @property
    def clients(self) -> tuple[int, ...]:
        """Those whose public keys are in the folder, in ascending order."""
        return tuple(sorted(self._public))

    def client_of(self, public: bytes) -> int | None:
        """Returns who has that public key, PEM of its SubjectPublicKeyInfo; None: nobody."""
        return next((k for k, known in self._public.items() if known == public), None)

    def own(self) -> int:
        """Returns the client whose private key this is, and whose public key is in the folder."""
        if self.private is None:
            raise ArgumentError("private", None, "", code="missing")
        client = self.client_of(raw_public(_private(self.private).public_key()))
        if client is None:
            rule = f"one whose public key is in {self.folder}"
            raise ArgumentError("private", str(self.private), rule, code="file")
        return client

    def signer(self, client: int) -> Signer:
        path = self.private or self.folder / str(client)
        key = _private(path)
        if self.client_of(raw_public(key.public_key())) != client:
            raise ArgumentError("private", str(path), f"the key of client {client}", code="file")
        return key if isinstance(key, Ed25519PrivateKey) else EllipticSigner(key)

    def verifier(self, client: int) -> Verifier:
        if client not in self._verifiers:
            raise ArgumentError(
                "keys", str(self.folder), f"a folder with {client}.pub", code="file"
            )
        return self._verifiers[client]


def raw_public(key: Ed25519PublicKey | ec.EllipticCurvePublicKey) -> bytes:
    """Returns the PEM of its SubjectPublicKeyInfo, by which two keys are compared."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _numbered(folder: Path) -> list[Path]:
    return [
        path for path in sorted(folder.glob("*.pub")) if re.fullmatch("0|[1-9][0-9]*", path.stem)
    ]


def _length(curve: ec.EllipticCurve) -> int:
    return (curve.key_size + 7) // 8


def _public(path: Path) -> Ed25519PublicKey | ec.EllipticCurvePublicKey:
    try:
        key = serialization.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "public") from error
    if not isinstance(key, Ed25519PublicKey | ec.EllipticCurvePublicKey):
        raise _no_key(path, "public")
    return key


def _private(path: Path) -> Ed25519PrivateKey | ec.EllipticCurvePrivateKey:
    try:
        data = path.read_bytes()
        ssh = b"OPENSSH" in data[:40]
        read = serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key
        key = read(data, password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _no_key(path, "private") from error
    if not isinstance(key, Ed25519PrivateKey | ec.EllipticCurvePrivateKey):
        raise _no_key(path, "private")
    return key


def _no_key(path: Path, kind: str) -> ArgumentError:
    rule = f"a file with a {kind} key, Ed25519 or of a NIST curve, without a password"
    return ArgumentError("keys", str(path), rule, _KEYGEN, code="file")
