"""A client's part of masked aggregation."""

from collections.abc import Callable, Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from extensions.errors import MessageError
from fl.masked import shamir
from fl.masked.ciphers import (
    KEY_BYTES,
    add_pair_mask,
    agree,
    commit,
    derive,
    fresh_key,
    mask,
    private_key,
    public_key,
    seal,
    unseal,
)
from fl.masked.terms import (
    MASK_KEY,
    SEALED,
    SECRETS,
    SEED,
    SIGNATURE_BYTES,
    Bytes,
    Roster,
    Terms,
    as_bytes,
)
from fl.round.machines import Machine, Output, Refusal
from fl.round.messages import SERVER, Message
from fl.round.quantization import RingVector


class MaskedClient(Machine):
    """Advertises keys, deals shares of two of them, masks its values, and helps to unmask the sum.

    It answers each of the server's messages once, and withdraws from the round if one is wrong.

    Args:
        terms: of the round.
        client: whose part it is.
        values: its encoded update, (size,).
        identity: the key that it signs with.
    """

    def __init__(
        self, terms: Terms, client: int, values: RingVector, identity: Ed25519PrivateKey
    ) -> None:
        super().__init__(terms.round, client)
        self._terms = terms
        self._values = values
        self._identity = identity
        self._secrets = {MASK_KEY: fresh_key(), SEED: fresh_key()}
        self._mask_key = private_key(self._secrets[MASK_KEY])
        self._share_key = private_key(fresh_key())
        self._advert: Bytes
        self._roster: Roster
        self._agreed: dict[int, bytes] = {}
        self._dealers: tuple[int, ...] = ()
        self._survivors: tuple[int, ...] = ()
        self._due = ["keys", "sealed", "survivors", "consents"]

    def start(self, now: float) -> Iterable[Output]:
        """Yields the advertisement of fresh keys."""
        publics = (public_key(self._mask_key), public_key(self._share_key))
        advert = as_bytes(b"".join((*publics, commit(self._secrets[SEED]))))
        self._advert = advert.reshape(-1, KEY_BYTES)
        signature = self._sign(self._terms.advertised(self._advert))
        yield self.send(SERVER, "advertise", advert=self._advert, signature=signature)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        """Yields the answer to the message that is due from the server; ignores all others."""
        if message.sender != SERVER or message.kind not in self._due[:1]:
            return
        steps: dict[str, Callable[[Message], Message]] = {
            "keys": self._deal,
            "sealed": self._mask,
            "survivors": self._consent,
            "consents": self._open,
        }
        try:
            yield steps[self._due.pop(0)](message)
        except MessageError as error:
            self._due.clear()
            yield Refusal(self.party, str(error))

    def _sign(self, data: bytes) -> Bytes:
        return as_bytes(self._identity.sign(data))

    def _deal(self, message: Message) -> Message:
        """Returns a share of the mask key and one of the seed, sealed for each client."""
        roster = self._roster = Roster.read(self._terms, message, self.party)
        if not np.array_equal(roster.advert(self.party), self._advert):
            raise MessageError(f"the server advertises other keys of client {self.party}")
        points = [client + 1 for client in roster.clients]
        shares = {
            kind: shamir.share(secret, self._terms.threshold, points)
            for kind, secret in self._secrets.items()
        }
        sealed = np.empty((len(roster.clients), *SEALED), dtype=np.uint8)
        for row, holder in zip(sealed, roster.clients, strict=True):
            self._agreed[holder] = agree(self._share_key, roster.share_key(holder), holder)
            for cell, kind in zip(row, SECRETS, strict=True):
                key = self._sealing_key(kind, self.party, holder)
                cell[:] = as_bytes(seal(key, shares[kind][holder + 1]))
        return self.send(SERVER, "shares", sealed=sealed)

    def _sealing_key(self, kind: str, dealer: int, holder: int) -> bytes:
        """Returns the key of one sealed share, which its dealer and its holder alone derive."""
        peer = holder if dealer == self.party else dealer
        return derive(self._agreed[peer], self._roster.session, kind, dealer, holder)

    def _mask(self, message: Message) -> Message:
        """Returns the masked values (the paper's y_u), and whose shares cannot be opened.

        There is a mask for each pair with another dealer, and one of the client's own.
        """
        self._dealers = self._terms.listed(message, self._roster.clients, self.party)
        rows = message.array("sealed", np.uint8, (len(self._dealers), *SEALED))
        unreadable = [
            dealer
            for dealer, row in zip(self._dealers, rows, strict=True)
            if not all(self._readable(dealer, *pair) for pair in zip(SECRETS, row, strict=True))
        ]
        dtype, session = self._values.dtype, self._roster.session
        seed_key = derive(self._secrets[SEED], session, "individual mask", self.party)
        masked = self._values + mask(seed_key, self.round.size, dtype)
        for peer in self._dealers:
            if peer != self.party:
                secret = agree(self._mask_key, self._roster.mask_key(peer), peer)
                add_pair_mask(masked, secret, session, self.party, peer)
        return self.send(
            SERVER, "masked", values=masked, unreadable=np.array(unreadable, dtype=np.int64)
        )

    def _readable(self, dealer: int, kind: str, sealed: Bytes) -> bool:
        return unseal(self._sealing_key(kind, dealer, self.party), sealed.tobytes()) is not None

    def _consent(self, message: Message) -> Message:
        """Returns the client's signature under the list of survivors."""
        self._survivors = self._terms.listed(message, self._dealers, self.party)
        signature = self._sign(self._roster.survivors(self._survivors))
        return self.send(SERVER, "consent", signature=signature)

    def _open(self, message: Message) -> Message:
        """Returns the key of one share of each dealer: of a survivor's seed, else of its mask key.

        Raises:
            MessageError: fewer than t survivors signed the list that this client signed.
        """
        signers = self._terms.listed(message, self._survivors)
        signatures = message.array("signatures", np.uint8, (len(signers), SIGNATURE_BYTES))
        signed = self._roster.survivors(self._survivors)
        for client, signature in zip(signers, signatures, strict=True):
            self._terms.verify(client, signature, signed)
        kinds = (SEED if dealer in self._survivors else MASK_KEY for dealer in self._dealers)
        keys = [
            as_bytes(self._sealing_key(kind, dealer, self.party))
            for kind, dealer in zip(kinds, self._dealers, strict=True)
        ]
        return self.send(SERVER, "unmask", keys=np.stack(keys))
