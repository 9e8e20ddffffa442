"""The server's part of masked aggregation."""

from collections.abc import Container, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from extensions.errors import MessageError
from fl.masked.ciphers import KEY_BYTES, agree, fresh_key, private_key
from fl.masked.lanes import unpack
from fl.masked.stages import STAGE, Close, Read, StagedServer
from fl.masked.terms import ADVERT, SEALED, Bytes, Roster, Terms, check_keys
from fl.masked.unmasking import Unmasking, by_dealer
from fl.round.machines import Aggregate, Output, Timer
from fl.round.messages import Message
from fl.round.quantization import RingVector


class MaskedServer(StagedServer):
    """Relays keys and sealed shares, adds masked values as they come, and unmasks their sum."""

    def __init__(self, terms: Terms, timeout: float) -> None:
        super().__init__(terms, timeout)
        self._own_key = private_key(fresh_key())
        self._seen: dict[bytes, int] = {}
        self._roster: Roster
        self._dealt: Mapping[int, Bytes] = {}
        self._disputed: set[tuple[int, int]] = set()
        self._summed: list[int] = []
        self._total: RingVector
        self._unmasking: Unmasking

    def _stages(self) -> Mapping[str, tuple[Read, Close]]:
        return {
            "advertise": (self._read_advert, self._send_keys),
            "shares": (self._read_shares, self._send_shares),
            "masked": (self._read_masked, self._send_survivors),
            "consent": (self._read_consent, self._send_consents),
            "unmask": (self._read_keys, self._aggregate),
        }

    def _read_advert(self, message: Message) -> tuple[Bytes, Bytes]:
        advert = message.array("advert", np.uint8, ADVERT)
        signature = message.array("signature", np.uint8, (self._terms.signature_bytes,))
        client = message.sender
        self._terms.verify(client, signature, self._terms.advertised(advert))
        for public in advert[:2]:
            agree(self._own_key, public.tobytes(), client)
        check_keys(client, advert, self._seen)
        return advert, signature

    def _send_keys(self, answers: dict[int, tuple[Bytes, Bytes]], now: float) -> Iterable[Output]:
        adverts, signatures = (np.stack(parts) for parts in zip(*answers.values(), strict=True))
        self._roster = Roster.of(self._terms, list(answers), adverts)
        for client in answers:
            yield self.send(
                client,
                "keys",
                threshold=self._terms.threshold,
                clients=_numbers(answers),
                adverts=adverts,
                signatures=signatures,
            )
        yield from self._open_next(answers, now)

    def _read_shares(self, message: Message) -> Bytes:
        return message.array("sealed", np.uint8, (len(self._roster.clients), *SEALED))

    def _send_shares(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        self._dealt = answers
        self._total = np.zeros(self._terms.words, dtype=self._terms.fixed_point.dtype)
        for holder in answers:
            column = self._roster.place[holder]
            sealed = np.stack([dealt[column] for dealt in answers.values()])
            yield self.send(holder, "sealed", clients=_numbers(answers), sealed=sealed)
        yield from self._open_next(answers, now)

    def _read_masked(self, message: Message) -> None:
        self._add(message, self._dealt)

    def _add(self, message: Message, dealers: Container[int]) -> None:
        """Adds the values of a message to the sum, and keeps nothing else of them."""
        unreadable = message.array("unreadable", np.int64, (-1,)).tolist()
        values = message.array("values", self._terms.fixed_point.dtype, (self._terms.words,))
        if not all(dealer in dealers for dealer in unreadable):
            raise MessageError(f"it cannot open shares of clients {unreadable}, who dealt none")
        if len(set(unreadable)) < len(unreadable):
            raise MessageError(f"it lists a client twice in {unreadable}")
        self._total += values
        self._summed.append(message.sender)
        self._disputed.update((dealer, message.sender) for dealer in unreadable)

    def _send_survivors(self, answers: dict[int, None], now: float) -> Iterable[Output]:
        self._unmasking = Unmasking(
            roster=self._roster,
            threshold=self._terms.threshold,
            dealt=self._dealt,
            disputed=self._disputed,
            survivors=tuple(sorted(self._summed)),
        )
        for client in answers:
            listed = _numbers(self._unmasking.survivors)
            yield self.send(client, "survivors", clients=listed)
        yield from self._open_next(answers, now)

    def _read_consent(self, message: Message) -> Bytes:
        signature = message.array("signature", np.uint8, (self._terms.signature_bytes,))
        signed = self._roster.survivors(self._unmasking.survivors)
        self._terms.verify(message.sender, signature, signed)
        return signature

    def _send_consents(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        signers = list(answers)[: self._terms.threshold]
        signatures = np.stack([answers[client] for client in signers])
        for client in answers:
            yield self.send(client, "consents", clients=_numbers(signers), signatures=signatures)
        yield from self._open_next(answers, now)

    def _read_keys(self, message: Message) -> dict[int, bytes]:
        keys = message.array("keys", np.uint8, (len(self._dealt), KEY_BYTES))
        return self._unmasking.shares(message.sender, keys)

    def _aggregate(self, answers: dict[int, dict[int, bytes]], now: float) -> Iterable[Output]:
        self._stage, self._answers = "", {}
        try:
            secrets = {
                dealer: self._unmasking.secret(dealer, shares)
                for dealer, shares in by_dealer(self._dealt, answers).items()
            }
        except MessageError as error:
            raise self.failure(f"{error}.") from error
        self._unmasking.remove_masks(self._total, secrets)
        included = self._unmasking.survivors
        weight = sum(self.round.weights[client] for client in included)
        yield Timer(STAGE, None)
        total = unpack(self._total, self.round.size, self._terms.lanes)
        yield Aggregate(self._terms.fixed_point.decode(total, weight), included)


def _numbers(clients: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array(list(clients), dtype=np.int64)
