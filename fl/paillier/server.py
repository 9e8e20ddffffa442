"""The server's part: it passes on keys that it cannot open and adds what it cannot read."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from gmpy2 import mpz

from extensions.errors import CiphertextError, MessageError
from fl.paillier.keys import PublicKey
from fl.paillier.packing import Packing, Signed, as_integers, as_rows, is_modulus
from fl.paillier.scheme import check_ciphertext
from fl.paillier.sealing import EXCHANGE_BYTES, is_exchange_key
from fl.round.machines import Aggregate, Machine, Output, Refusal, Round, Timer
from fl.round.messages import SERVER, Message, Value
from fl.round.quantization import FixedPoint


class PaillierServer(Machine):
    """Goes from stage to stage, each named after the kind of message that it waits for."""

    def __init__(
        self,
        round: Round,
        key_bits: int,
        packing: Packing,
        fixed_point: FixedPoint,
        min_clients: int,
        timeout: float,
    ) -> None:
        super().__init__(round, SERVER)
        self._bits = key_bits
        self._packing = packing
        self._fixed_point = fixed_point
        self._min_clients = min_clients
        self._timeout = timeout
        self._stage = ""
        self._waiting: set[int] = set()
        self._answered: set[tuple[int, str]] = set()
        self._members = set(round.clients)
        self._moduli: dict[int, int] = {}
        self._exchanges: dict[int, bytes] = {}
        self._lacking: list[int] = []
        self._dealer = SERVER
        self._key: PublicKey | None = None
        self._sealed: dict[int, bytes] = {}
        self._sums = [mpz(1)] * packing.count(round.size)
        self._included: set[int] = set()
        self._failed: dict[int, str] = {}
        self._silent: set[int] = set()
        self._total: Signed | None = None

    def start(self, now: float) -> Iterable[Output]:
        yield self._wait("hello", self.round.clients, now)

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        answer = message.sender, message.kind
        if message.sender not in self._waiting or answer in self._answered:
            return
        self._answered.add(answer)
        self._waiting.remove(message.sender)
        try:
            self._take(message)
        except (MessageError, CiphertextError) as error:
            yield from self._drop(message.sender, str(error))
        if not self._waiting:
            yield from self._go_on(now)

    def expire(self, timer: str, now: float) -> Iterable[Output]:
        for client in sorted(self._waiting):
            yield from self._drop(client, f"no {self._stage} within {self._timeout:g} s")
        self._silent |= self._waiting
        self._waiting.clear()
        yield from self._go_on(now)

    def _wait(self, stage: str, clients: Iterable[int], now: float) -> Timer:
        self._stage, self._waiting = stage, set(clients)
        return Timer("answers", now + self._timeout)

    def _drop(self, client: int, reason: str) -> Iterable[Output]:
        """Leaves a client out; one whose update is in the sum is only not asked to decrypt."""
        if client in self._included:
            self._failed[client] = reason
            return
        self._members.discard(client)
        yield Refusal(client, reason)

    def _take(self, message: Message) -> None:
        self.check_round(message)
        if message.kind == "withdraw":
            raise MessageError(message.text("reason", "no reason given"))
        if message.kind != self._stage:
            raise MessageError(f"a message of kind {message.kind!r}, not {self._stage!r}")
        takes: dict[str, Callable[[Message], None]] = {
            "hello": self._take_hello,
            "keys": self._take_keys,
            "update": self._take_update,
            "sum": self._take_sum,
        }
        takes[self._stage](message)

    def _go_on(self, now: float) -> Iterable[Output]:
        if len(self._members) < self._min_clients:
            left = f"{len(self._members)} clients are left, of at least {self._min_clients}."
            raise self.failure(left)
        if self._total is not None:
            for client in sorted(self._failed.keys() - self._silent):
                yield Refusal(client, self._failed[client])
            yield self._aggregate(self._total)
        elif self._included:
            yield from self._ask_to_decrypt(now)
        else:
            yield from self._prepare(now)

    def _prepare(self, now: float) -> Iterable[Output]:
        """Yields what leads to the clients' updates."""
        if self._key is not None:
            yield from self._pass_keys_on(now)
        else:
            yield from self._ask_to_deal(now)

    def _take_hello(self, message: Message) -> None:
        exchange, modulus = message.body.get("exchange"), message.body.get("modulus")
        if not isinstance(exchange, bytes) or not is_exchange_key(exchange):
            raise MessageError("a greeting without an X25519 key")
        if not isinstance(modulus, int) or (modulus and not is_modulus(modulus, self._bits)):
            raise MessageError(f"a greeting with a key that has not {self._bits} bits")
        self._exchanges[message.sender] = exchange
        self._moduli[message.sender] = modulus

    def _ask_to_deal(self, now: float) -> Iterable[Output]:
        members = sorted(self._members)
        wanted = self._wanted()
        self._dealer = next(k for k in members if self._moduli[k] == wanted)
        self._lacking = [k for k in members if self._moduli[k] != wanted]
        if not wanted:
            self._lacking = members[1:]
        if not self._lacking:
            self._key = PublicKey(wanted)
            yield from self._pass_keys_on(now)
            return
        exchange = b"".join(self._exchanges[client] for client in self._lacking)
        yield self.send(
            self._dealer,
            "deal",
            modulus=wanted,
            clients=np.array(self._lacking, dtype=np.int64),
            exchange=np.frombuffer(exchange, dtype=np.uint8).reshape(-1, EXCHANGE_BYTES),
        )
        yield self._wait("keys", [self._dealer], now)

    def _wanted(self) -> int:
        """Returns n of the key that most clients have; 0 if none has any."""
        held = Counter(self._moduli[k] for k in sorted(self._members) if self._moduli[k])
        return max(held, key=lambda n: held[n]) if held else 0

    def _take_keys(self, message: Message) -> None:
        modulus, sealed = message.body.get("modulus"), message.body.get("sealed")
        exchange = message.body.get("exchange")
        if not is_modulus(modulus, self._bits):
            raise MessageError(f"it dealt no key of {self._bits} bits")
        if self._moduli[self._dealer] not in (0, modulus):
            raise MessageError("it dealt another key than the one that it holds")
        if not isinstance(exchange, bytes) or exchange != self._exchanges[self._dealer]:
            raise MessageError("it dealt a key by another X25519 key than its own")
        if not isinstance(sealed, list) or len(sealed) != len(self._lacking):
            raise MessageError(f"it did not deal to the {len(self._lacking)} clients without key")
        contents = [content for content in sealed if isinstance(content, bytes) and content]
        self._sealed = dict(zip(self._lacking, contents, strict=False))
        if len(contents) != len(sealed):
            raise MessageError("it dealt a message that is not a sealed key")
        self._key = PublicKey(modulus)

    def _pass_keys_on(self, now: float) -> Iterable[Output]:
        assert self._key is not None
        for client in sorted(self._members):
            yield self.send(
                client,
                "key",
                modulus=self._key.n,
                dealer=self._dealer,
                exchange=self._exchanges[self._dealer],
                sealed=self._sealed.get(client, b""),
                **self._beside_key(),
            )
        yield self._wait("update", self._members, now)

    def _beside_key(self) -> dict[str, Value]:
        """Returns what goes out with the key; here nothing."""
        return {}

    def _take_update(self, message: Message) -> None:
        key = self._key
        assert key is not None
        given = message.text("fingerprint", "none")
        if given != key.fingerprint:
            raise CiphertextError(f"ciphertexts under key {given[:32]}, not {key.fingerprint}")
        shape = (len(self._sums), self._bits // 4)
        ciphertexts = as_integers(message.array("ciphertexts", np.uint8, shape))
        for ciphertext in ciphertexts:
            check_ciphertext(key, ciphertext)
        square = key.n_squared
        pairs = zip(self._sums, ciphertexts, strict=True)
        self._sums = [total * ciphertext % square for total, ciphertext in pairs]
        self._included.add(message.sender)

    def _ask_to_decrypt(self, now: float) -> Iterable[Output]:
        candidates = sorted(self._included - self._failed.keys())
        if not candidates:
            reasons = "; ".join(f"client {k}: {why}" for k, why in self._failed.items())
            raise self.failure(
                f"no client decrypted the sum of clients {sorted(self._included)}: {reasons}. If "
                "all found it out of range, one of them broke the protocol."
            )
        rows = as_rows([int(total) for total in self._sums], self._bits // 4)
        yield self.send(candidates[0], "decrypt", ciphertexts=rows)
        yield self._wait("sum", candidates[:1], now)

    def _take_sum(self, message: Message) -> None:
        assert self._key is not None
        rows = message.array("plaintexts", np.uint8, (len(self._sums), self._bits // 8))
        plaintexts = as_integers(rows)
        self._total = self._packing.unpack(plaintexts, self.round.size, self._key.n)

    def _aggregate(self, total: Signed) -> Aggregate:
        included = tuple(sorted(self._included))
        weight = sum(self.round.weights[client] for client in included)
        ring = total.astype(self._fixed_point.dtype)
        return Aggregate(self._fixed_point.decode(ring, weight), included)
