"""Machines of one process verify each signature once, and each of them refuses a wrong one."""

import re

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import fl
from extensions.errors import MessageError
from fl.masked.terms import Terms, as_bytes
from fl.protocols import SERVER, Message, Refusal, Round
from fl.simulation import DropOut
from tests.helpers.federated.masked_rounds import (
    SMALL,
    altered,
    check_exact,
    run,
    tamper,
    updates,
)

Verified = tuple[int, bytes, bytes]


class Counting(fl.MaskedAggregator):
    """Notes every signature that is verified: whose, the signature, and what is signed."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.verified: list[Verified] = []

    def _terms(self, round: Round) -> Terms:
        terms = super()._terms(round)
        for client, public in terms.identities.items():
            if isinstance(public, Ed25519PublicKey):
                terms.identities[client] = Noted(client, public, self.verified)  # type: ignore[index]
        return terms


class Noted:
    """A public key that notes what it verifies."""

    def __init__(self, client: int, public: Ed25519PublicKey, verified: list[Verified]) -> None:
        self.client, self.public, self.verified = client, public, verified

    def verify(self, signature: bytes, signed: bytes) -> None:
        self.verified.append((self.client, signature, signed))
        self.public.verify(signature, signed)


def counting() -> Counting:
    return Counting(threshold=0.5, fixed_point=SMALL)


def test_a_round_verifies_each_signature_once_and_none_twice():
    aggregator = counting()
    for rounds in (1, 2):  # equal rounds, with other keys
        run(aggregator, updates(6))
        assert len(aggregator.verified) == len(set(aggregator.verified)) == rounds * 2 * 6


def test_so_does_a_run_whose_parties_learn_the_round_from_messages():
    draws = np.random.default_rng(5)
    x, y = draws.normal(size=(48, 6)).astype(np.float32), draws.integers(0, 3, 48)
    aggregator = counting()
    averaging = fl.FederatedAveraging(
        model=fl.models.mlp(6, hidden=8, classes=3),
        clients=fl.partition((x, y), 8, scheme="iid"),
        aggregator=aggregator,
        client_fraction=1.0,
        drop_outs=lambda number: [DropOut(3, "masked")],
    )
    averaging.fit(rounds=2, progress=False)
    assert len(aggregator.verified) == len(set(aggregator.verified)) == 2 * (8 + 7)


LIED_TO = (0, 3)


def lie(message: Message, rows: list[int], flip: int) -> Message:
    """Returns the message with other signatures for two clients."""
    signatures = message.body["signatures"]
    signatures = signatures[rows[: len(signatures)]]
    signatures[1, 0] ^= flip
    return altered(message, signatures=signatures) if message.receiver in LIED_TO else message


@pytest.mark.parametrize("kind", ["keys", "consents"])
@pytest.mark.parametrize(
    ("rows", "flip", "whose"), [([0, 1, 2, 3, 4, 5], 1, 1), ([1, 0, 2, 3, 4, 5], 0, 0)]
)
def test_a_wrong_signature_after_a_right_one_is_refused_by_every_client_that_gets_it(
    kind, rows, flip, whose
):
    """The server has verified the right ones; each client finds a wrong one by itself."""
    aggregator, given = counting(), updates(6)
    lies = tamper(kind, lambda message, machines: lie(message, rows, flip), SERVER)
    outcome, _ = run(aggregator, given, lies)
    reason = f"a signature that is not client {whose}'s"
    assert outcome.refusals[:2] == tuple(Refusal(client, reason) for client in LIED_TO)
    check_exact(aggregator, given, outcome, (1, 2, 4, 5) if kind == "keys" else range(6))
    clients = (6, 4 if kind == "keys" else 6)
    wrong = sum(clients) + len(LIED_TO)
    assert len(aggregator.verified) == wrong
    assert len(set(aggregator.verified)) == wrong - 1


def test_what_is_remembered_is_right_and_of_two_signatures_a_client():
    """Key, signature and signed bytes all count; a client that signs much fills no memory."""
    keys = {client: Ed25519PrivateKey.generate() for client in (3, 8)}
    verified: list[Verified] = []
    public = {k: Noted(k, key.public_key(), verified) for k, key in keys.items()}
    terms = Terms(Round(number=1, size=5, weights={3: 1, 8: 1}), 2, SMALL, public)  # type: ignore[arg-type]
    words = [b"%d" % word for word in range(5)]
    signed = {(k, word): as_bytes(key.sign(word)) for k, key in keys.items() for word in words}

    def ask(client: int, signer: int, word: bytes, other: bytes | None = None) -> int:
        """Returns how many verifications it takes."""
        before = len(verified)
        terms.verify(client, signed[signer, word], other or word)
        return len(verified) - before

    assert [ask(3, 3, words[0]) for _ in range(3)] == [1, 0, 0]
    for wrong in [(8, 3, words[0]), (3, 8, words[0]), (3, 3, words[0], words[1])]:
        for _ in range(2):
            with pytest.raises(MessageError, match=re.escape(f"client {wrong[0]}'s")):
                ask(*wrong)
    assert len(verified) == 1 + 6
    assert [ask(3, 3, word) for word in words[1:]] == [1] * 4
    assert [ask(3, 3, word) for word in [*words[1:], words[0]]] == [0, 0, 0, 0, 1]
