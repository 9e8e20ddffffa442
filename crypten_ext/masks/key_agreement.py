"""Keys that two processes share after they told each other 32 public bytes: X25519 and HKDF."""

import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from crypten_ext.masks.keystream import derive_key


class KeyPair:
    """One process's half of an X25519 exchange (RFC 7748), for one use.

    Public values are not authenticated here: an eavesdropper learns nothing, but somebody who can
    alter messages can take the other side's place. `private` is for tests' vectors.
    """

    def __init__(self, private: bytes | None = None) -> None:
        generate, load = X25519PrivateKey.generate, X25519PrivateKey.from_private_bytes
        self._private = generate() if private is None else load(private)

    @property
    def public_bytes(self) -> bytes:
        """What the other side must know: 32 bytes."""
        return self._private.public_key().public_bytes_raw()

    @property
    def public(self) -> torch.Tensor:
        """The same, one byte in each element of an int64 tensor."""
        return torch.tensor(list(self.public_bytes))

    def agree(self, theirs: bytes | torch.Tensor, purpose: str) -> bytes:
        """Returns the key that only the holder of the other private half derives too."""
        public = theirs if isinstance(theirs, bytes) else bytes(theirs.tolist())
        peer = X25519PublicKey.from_public_bytes(public)
        return derive_key(self._private.exchange(peer), purpose)
