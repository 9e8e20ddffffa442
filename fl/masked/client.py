"""A client's part of masked aggregation."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

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
    ADVERT,
    MASK_KEY,
    SEALED,
    SECRETS,
    SEED,
    Bytes,
    Roster,
    Terms,
    as_bytes,
)
from fl.round.identities import Signer
from fl.round.machines import Machine, Output, Refusal
from fl.round.messages import SERVER, Message, Value
from fl.round.quantization import RingVector
from fl.round.state import keyed, keyed_of, numbers, octets, texts

Step = Callable[[Message], Message]
"""From a message of the server to the answer; raises MessageError to withdraw."""


class MaskedClient(Machine):
    """Advertises keys, deals shares of two of them, masks its values, and helps to unmask the sum.

    It answers each of the server's messages once, and withdraws from the round if one is wrong.
    Its values are its encoded update, packed, (words,); it signs with `identity`.
    """

    def __init__(self, terms: Terms, client: int, values: RingVector, identity: Signer) -> None:
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
        self._due = list(self._steps())

    def _steps(self) -> Mapping[str, Step]:
        """Returns what answers each of the server's messages, in their order, by kind."""
        return {
            "keys": self._deal,
            "sealed": self._mask,
            "survivors": self._consent,
            "consents": self._open,
        }

    def state(self) -> dict[str, Value]:
        return {
            "due": list(self._due),
            "secrets": [self._secrets[kind] for kind in SECRETS],
            "share key": self._share_key.private_bytes_raw(),
            "advert": self._advert,
            "dealers": numbers(self._dealers),
            "survivors": numbers(self._survivors),
            **keyed(self._agreed, "agreed"),
            **self._known(),
        }

    def _known(self) -> dict[str, Value]:
        """Returns what a state has of the roster, once there is one."""
        if "_roster" not in vars(self):
            return {}
        roster = self._roster
        kept: dict[str, Value] = {"adverts": roster.adverts, "session": roster.session}
        return kept | {"clients": numbers(roster.clients)}

    def restore(self, state: Message) -> None:
        self._due = texts(state, "due")
        secrets = state.body.get("secrets")
        if not isinstance(secrets, list) or len(secrets) != len(SECRETS):
            raise MessageError("a state without secrets")
        pairs = zip(SECRETS, secrets, strict=True)
        self._secrets = {kind: secret for kind, secret in pairs if isinstance(secret, bytes)}
        self._mask_key = private_key(self._secrets[MASK_KEY])
        self._share_key = private_key(octets(state, "share key"))
        self._advert = state.array("advert", np.uint8, ADVERT)
        self._dealers, self._survivors = state.clients("dealers"), state.clients("survivors")
        self._agreed = keyed_of(state, "agreed")
        if "clients" in state.body:
            clients = state.clients("clients")
            adverts = state.array("adverts", np.uint8, (len(clients), *ADVERT))
            self._roster = self._roster_of(clients, adverts, octets(state, "session"))

    def _roster_of(self, clients: tuple[int, ...], adverts: Bytes, session: bytes) -> Roster:
        """Returns the roster that was kept, of keys that were verified."""
        return Roster(clients, adverts, session)

    def start(self, now: float) -> Iterable[Output]:
        publics = (public_key(self._mask_key), public_key(self._share_key))
        advert = as_bytes(b"".join((*publics, commit(self._secrets[SEED]))))
        self._advert = advert.reshape(-1, KEY_BYTES)
        signature = self._sign(self._terms.advertised(self._advert))
        yield self.send(SERVER, "advertise", advert=self._advert, signature=signature)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        if message.sender != SERVER or message.kind not in self._due[:1]:
            return
        try:
            yield self._steps()[self._due.pop(0)](message)
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
        self._agree(roster.clients)
        sealed = self._sealed(roster.clients, self._terms.threshold)
        return self.send(SERVER, "shares", sealed=sealed)

    def _agree(self, peers: Iterable[int]) -> None:
        """Agrees with each of these on the secret from which keys of sealed shares are derived."""
        for peer in peers:
            self._agreed[peer] = agree(self._share_key, self._roster.share_key(peer), peer)

    def _sealed(self, holders: Sequence[int], threshold: int) -> Bytes:
        """Returns shares of both secrets for each holder, sealed, (holders, 2, 49)."""
        points = [client + 1 for client in holders]
        shares = {
            kind: shamir.share(secret, threshold, points) for kind, secret in self._secrets.items()
        }
        sealed = np.empty((len(holders), *SEALED), dtype=np.uint8)
        for row, holder in zip(sealed, holders, strict=True):
            for cell, kind in zip(row, SECRETS, strict=True):
                key = self._sealing_key(kind, self.party, holder)
                cell[:] = as_bytes(seal(key, shares[kind][holder + 1]))
        return sealed

    def _sealing_key(self, kind: str, dealer: int, holder: int) -> bytes:
        """Returns the key of one sealed share, which its dealer and its holder alone derive."""
        peer = holder if dealer == self.party else dealer
        return derive(self._agreed[peer], self._roster.pair(dealer, holder), kind, dealer, holder)

    def _mask(self, message: Message) -> Message:
        """Returns the masked values (the paper's y_u), and whose shares cannot be opened."""
        self._dealers = self._terms.listed(message, self._roster.clients, self.party)
        rows = message.array("sealed", np.uint8, (len(self._dealers), *SEALED))
        unreadable = self._unreadable(rows)
        values = self._masked(peer for peer in self._dealers if peer != self.party)
        return self.send(SERVER, "masked", values=values, unreadable=unreadable)

    def _unreadable(self, rows: Bytes) -> npt.NDArray[np.int64]:
        """Returns the dealers of whose two shares in these rows one cannot be opened."""
        found = [
            dealer
            for dealer, row in zip(self._dealers, rows, strict=True)
            if not all(self._readable(dealer, *pair) for pair in zip(SECRETS, row, strict=True))
        ]
        return np.array(found, dtype=np.int64)

    def _masked(self, peers: Iterable[int]) -> RingVector:
        """Returns the values with the client's own mask, and those that it has with these peers."""
        size, dtype, roster = self._values.size, self._values.dtype, self._roster
        seed_key = derive(self._secrets[SEED], roster.session, "individual mask", self.party)
        masked: RingVector = self._values + mask(seed_key, size, dtype)
        for peer in peers:
            secret = agree(self._mask_key, roster.mask_key(peer), peer)
            add_pair_mask(masked, secret, roster.pair(self.party, peer), self.party, peer)
        return masked

    def _readable(self, dealer: int, kind: str, sealed: Bytes) -> bool:
        return unseal(self._sealing_key(kind, dealer, self.party), sealed.tobytes()) is not None

    def _consent(self, message: Message) -> Message:
        """Returns the client's signature under the list of survivors."""
        self._survivors = self._terms.listed(message, self._dealers, self.party)
        signature = self._sign(self._roster.survivors(self._survivors))
        return self.send(SERVER, "consent", signature=signature)

    def _open(self, message: Message) -> Message:
        """Returns the key of one share of each dealer: of a survivor's seed, else of its mask key.

        Raises MessageError if fewer than t survivors signed the list that this client signed.
        """
        signers = self._terms.listed(message, self._survivors)
        signatures = message.array(
            "signatures", np.uint8, (len(signers), self._terms.signature_bytes)
        )
        self._terms.verify_enough(signers, signatures, self._roster.survivors(self._survivors))
        return self.send(SERVER, "unmask", keys=self._keys())

    def _keys(self) -> Bytes:
        """Returns the keys of one share of each dealer, (dealers, 32)."""
        summed = frozenset(self._survivors)
        kinds = (SEED if dealer in summed else MASK_KEY for dealer in self._dealers)
        pairs = zip(kinds, self._dealers, strict=True)
        keys = (self._sealing_key(kind, dealer, self.party) for kind, dealer in pairs)
        return as_bytes(b"".join(keys)).reshape(-1, KEY_BYTES)
