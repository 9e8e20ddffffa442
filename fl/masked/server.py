"""The server's part of masked aggregation."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from extensions.errors import MessageError
from fl.masked.ciphers import KEY_BYTES, agree, fresh_key, private_key
from fl.masked.terms import ADVERT, SEALED, SIGNATURE_BYTES, Bytes, Roster, Terms, check_keys
from fl.masked.unmasking import Unmasking, by_dealer
from fl.round.machines import Aggregate, Machine, Output, Refusal, Timer
from fl.round.messages import SERVER, Message
from fl.round.quantization import RingVector

STAGE = "stage"
BEFORE_THE_SUM = ("advertise", "shares", "masked")
"""Stages in which a client that fails is left out of the sum."""


class MaskedServer(Machine):
    """Relays keys and sealed shares, adds masked values, and unmasks their sum.

    Each stage waits for one message from every client that is left. A client that sends a second
    one, or none in time, is left out from then on; values that were added before stay in the sum.
    The round fails if fewer than t clients complete a stage.

    Args:
        terms: of the round.
        timeout: seconds that clients have in each stage.
    """

    def __init__(self, terms: Terms, timeout: float) -> None:
        super().__init__(terms.round, SERVER)
        self._terms = terms
        self._timeout = timeout
        self._stage = ""
        self._waiting: set[int] = set()
        self._answers: dict[int, Any] = {}
        self._roster: Roster
        self._dealt: dict[int, Bytes] = {}
        self._disputed: set[tuple[int, int]] = set()
        self._total: RingVector
        self._unmasking: Unmasking

    def start(self, now: float) -> Iterable[Output]:
        """Yields the time until which clients may advertise their keys."""
        yield from self._open("advertise", self.round.clients, now)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        """Yields the refusal of a message that does not belong to the stage, or the stage's end."""
        client = message.sender
        if client not in self._waiting and client not in self._answers:
            return
        try:
            self.check_round(message)
            if message.kind != self._stage or client in self._answers:
                raise MessageError(f"a message of kind {message.kind!r} out of turn")
            self._answers[client] = self._read(message)
        except MessageError as error:
            self._answers.pop(client, None)
            yield Refusal(client, str(error))
        self._waiting.discard(client)
        if not self._waiting:
            yield from self._end_stage(now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        """Yields the end of the stage, without the clients that sent nothing."""
        if self._stage in BEFORE_THE_SUM:
            for client in sorted(self._waiting):
                yield Refusal(client, f"no {self._stage!r} within {self._timeout:g} s")
        self._waiting.clear()
        yield from self._end_stage(now)

    def _open(self, stage: str, clients: Iterable[int], now: float) -> Iterable[Output]:
        self._stage, self._waiting, self._answers = stage, set(clients), {}
        yield Timer(STAGE, now + self._timeout)

    def _end_stage(self, now: float) -> Iterable[Output]:
        answers = {client: self._answers[client] for client in sorted(self._answers)}
        if len(answers) < self._terms.threshold:
            raise self.failure(
                f"{len(answers)} of {len(self.round.clients)} clients have completed "
                f"{self._stage!r}, fewer than the threshold {self._terms.threshold}."
            )
        closes: dict[str, Callable[[dict[int, Any], float], Iterable[Output]]] = {
            "advertise": self._send_keys,
            "shares": self._send_shares,
            "masked": self._send_survivors,
            "consent": self._send_consents,
            "unmask": self._aggregate,
        }
        yield from closes[self._stage](answers, now)

    def _read(self, message: Message) -> Any:
        reads: dict[str, Callable[[Message], Any]] = {
            "advertise": self._read_advert,
            "shares": self._read_shares,
            "masked": self._read_masked,
            "consent": self._read_consent,
            "unmask": self._read_keys,
        }
        return reads[self._stage](message)

    def _read_advert(self, message: Message) -> tuple[Bytes, Bytes]:
        advert = message.array("advert", np.uint8, ADVERT)
        signature = message.array("signature", np.uint8, (SIGNATURE_BYTES,))
        client = message.sender
        self._terms.verify(client, signature, self._terms.advertised(advert))
        seen: dict[bytes, int] = {}
        for other, (earlier, _) in self._answers.items():
            check_keys(other, earlier, seen)
        check_keys(client, advert, seen)
        own = private_key(fresh_key())
        for public in advert[:2]:
            agree(own, public.tobytes(), client)
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
        yield from self._open("shares", answers, now)

    def _read_shares(self, message: Message) -> Bytes:
        return message.array("sealed", np.uint8, (len(self._roster.clients), *SEALED))

    def _send_shares(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        self._dealt = answers
        for holder in answers:
            column = self._roster.clients.index(holder)
            sealed = np.stack([dealt[column] for dealt in answers.values()])
            yield self.send(holder, "sealed", clients=_numbers(answers), sealed=sealed)
        yield from self._open("masked", answers, now)

    def _read_masked(self, message: Message) -> tuple[RingVector, list[int]]:
        unreadable = message.array("unreadable", np.int64, (-1,)).tolist()
        values = message.array("values", self._terms.fixed_point.dtype, (self.round.size,))
        if not set(unreadable) <= set(self._dealt):
            raise MessageError(f"it cannot open shares of clients {unreadable}, who dealt none")
        if len(set(unreadable)) < len(unreadable):
            raise MessageError(f"it lists a client twice in {unreadable}")
        return values, unreadable

    def _send_survivors(
        self, answers: dict[int, tuple[RingVector, list[int]]], now: float
    ) -> Iterable[Output]:
        self._total = np.zeros(self.round.size, dtype=self._terms.fixed_point.dtype)
        for holder, (values, unreadable) in answers.items():
            self._total += values
            self._disputed.update((dealer, holder) for dealer in unreadable)
        self._unmasking = Unmasking(
            roster=self._roster,
            threshold=self._terms.threshold,
            dealt=self._dealt,
            disputed=frozenset(self._disputed),
            survivors=tuple(answers),
        )
        for client in answers:
            yield self.send(client, "survivors", clients=_numbers(answers))
        yield from self._open("consent", answers, now)

    def _read_consent(self, message: Message) -> Bytes:
        signature = message.array("signature", np.uint8, (SIGNATURE_BYTES,))
        signed = self._roster.survivors(self._unmasking.survivors)
        self._terms.verify(message.sender, signature, signed)
        return signature

    def _send_consents(self, answers: dict[int, Bytes], now: float) -> Iterable[Output]:
        signatures = np.stack(list(answers.values()))
        for client in answers:
            yield self.send(client, "consents", clients=_numbers(answers), signatures=signatures)
        yield from self._open("unmask", answers, now)

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
        yield Aggregate(self._terms.fixed_point.decode(self._total, weight), included)


def _numbers(clients: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.array(list(clients), dtype=np.int64)
