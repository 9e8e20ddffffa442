"""How the server unmasks a sum: it opens shares, reconstructs secrets and checks them."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from extensions.errors import MessageError
from fl.masked import shamir
from fl.masked.ciphers import (
    add_pair_mask,
    agree,
    commit,
    derive,
    mask,
    private_key,
    public_key,
    unseal,
)
from fl.masked.terms import MASK_KEY, SECRETS, SEED, Bytes, Roster
from fl.round.quantization import RingVector


@dataclass(frozen=True, eq=False)
class Unmasking:
    """What the server knows when clients send it keys of shares.

    Attributes:
        roster: of the keys.
        threshold: t, how many shares are needed.
        dealt: of each dealer in ascending order, the shares that it sealed for the roster's
            clients, (clients, 2, 49).
        disputed: pairs (dealer, holder) whose share the holder said it cannot open.
        survivors: clients whose values are in the sum.
    """

    roster: Roster
    threshold: int
    dealt: Mapping[int, Bytes]
    disputed: Set[tuple[int, int]]
    survivors: tuple[int, ...]

    @cached_property
    def summed(self) -> frozenset[int]:
        """The survivors."""
        return frozenset(self.survivors)

    def shares(self, holder: int, keys: Bytes) -> dict[int, bytes]:
        """Returns the shares that the holder's keys open, by dealer.

        Raises MessageError if a key does not open a share that the holder had not disputed.
        """
        opened = {}
        for dealer, key in zip(self.dealers(holder), keys, strict=True):
            cell = self._row(dealer, holder)[SECRETS.index(self._kind(dealer))]
            share = unseal(key.tobytes(), cell.tobytes())
            if share is not None:
                opened[dealer] = share
            elif (dealer, holder) not in self.disputed:
                raise MessageError(f"it does not open the share that client {dealer} dealt it")
        return opened

    def dealers(self, holder: int) -> Sequence[int]:
        """Returns the dealers of whose shares the client holds one, in ascending order."""
        return tuple(self.dealt)

    def _row(self, dealer: int, holder: int) -> Bytes:
        """Returns the two sealed shares that the dealer dealt the holder, (2, 49)."""
        row: Bytes = self.dealt[dealer][self.roster.place[holder]]
        return row

    def _masked_with(self, lost: int) -> Iterable[int]:
        """Returns the survivors whose values have a mask that they share with a lost client."""
        return self.survivors

    def _kind(self, dealer: int) -> str:
        return SEED if dealer in self.summed else MASK_KEY

    def secret(self, dealer: int, shares: Mapping[int, bytes]) -> bytes:
        """Returns the seed of a survivor, or the mask key of a client that is gone, of t shares.

        Raises MessageError if there are fewer, or the secret is not what the dealer advertised.
        """
        if len(shares) < self.threshold:
            few = f"{len(shares)} shares of client {dealer}'s {self._kind(dealer)} can be opened"
            doubt = sorted(holder for other, holder in self.disputed if other == dealer)
            why = f"; clients {doubt} said that it dealt them none" if doubt else ""
            raise MessageError(f"{few}, of the {self.threshold} that are needed{why}")
        taken = sorted(shares)[: self.threshold]
        secret = shamir.reconstruct({holder + 1: shares[holder] for holder in taken})
        if secret is None or not self._advertised(dealer, secret):
            raise MessageError(
                f"client {dealer} dealt shares of another {self._kind(dealer)} than it advertised"
            )
        return secret

    def _advertised(self, dealer: int, secret: bytes) -> bool:
        if self._kind(dealer) == SEED:
            return commit(secret) == self.roster.commitment(dealer)
        return public_key(private_key(secret)) == self.roster.mask_key(dealer)

    def remove_masks(self, total: RingVector, secrets: Mapping[int, bytes]) -> None:
        """Subtracts all remaining masks from the sum of the survivors' values, in place."""
        session = self.roster.session
        for dealer, secret in secrets.items():
            if self._kind(dealer) == SEED:
                key = derive(secret, session, "individual mask", dealer)
                total -= mask(key, total.size, total.dtype)
            else:
                self._remove_pair_masks(total, dealer, secret)

    def _remove_pair_masks(self, total: RingVector, lost: int, secret: bytes) -> None:
        private = private_key(secret)
        for client in self._masked_with(lost):
            pair = agree(private, self.roster.mask_key(client), client)
            add_pair_mask(total, pair, self.roster.pair(client, lost), client, lost, sign=-1)


def by_dealer(
    dealers: Iterable[int], opened: Mapping[int, Mapping[int, bytes]]
) -> dict[int, dict[int, bytes]]:
    """Returns shares by dealer and holder, from shares by holder and dealer."""
    return {
        dealer: {holder: own[dealer] for holder, own in opened.items() if dealer in own}
        for dealer in dealers
    }
