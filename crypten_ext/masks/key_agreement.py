"""Keys that two processes share after they told each other 32 public bytes: X25519 and HKDF."""

from collections.abc import Sequence

import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from crypten_ext.masks.keystream import Keystream, derive_key

from crypten import communicator


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


class PairwiseMasks:
    """This party's masks, which cancel over all parties, from a key for each pair of them.

    CrypTen's zero sharings have only neighbours' keys: of four or more parties, the two neighbours
    of one know its mask. These masks only all others together know. Every party makes its own, and
    draws the same shapes in turn.

    Making them takes one round of 32 public words.
    """

    def __init__(self) -> None:
        world = communicator.get()
        rank, parties = world.get_rank(), world.get_world_size()
        own = KeyPair()
        everybody = world.all_gather(own.public)
        self._streams = []
        for other in range(parties):
            if other != rank:
                low, high = sorted((rank, other))
                key = own.agree(everybody[other], f"pairwise masks {low}-{high} of {parties}")
                self._streams.append((1 if rank == low else -1, Keystream(key)))

    def draw(self, shape: Sequence[int]) -> torch.Tensor:
        """Returns this party's words, which add up to zero with those of all others."""
        mask = torch.zeros(tuple(shape), dtype=torch.int64)
        for sign, stream in self._streams:
            mask += sign * stream.words(shape)
        return mask
