"""What clients sign binds all that they were told, and messages out of turn get no answer."""

import dataclasses

import numpy as np
import pytest

from fl.masked.terms import Roster, Terms, as_bytes
from fl.protocols import SERVER, Machine, Message, Refusal, Round
from tests.helpers.federated.masked_rounds import SMALL, check_exact, half, run, tamper, updates

WEIGHTS = {0: 1, 1: 2, 4: 3}
ROUND = Round(number=3, size=5, weights=WEIGHTS)
TERMS = Terms(ROUND, 2, SMALL, {})
GIVEN = np.zeros(5)
LATE = ("consent", "unmask")
"""Messages after which a client's values are in the sum, whatever becomes of it."""
OTHERS = {
    "number": Terms(Round(number=4, size=5, weights=WEIGHTS), 2, SMALL, {}),
    "size": Terms(Round(number=3, size=6, weights=WEIGHTS), 2, SMALL, {}),
    "weight": Terms(Round(number=3, size=5, weights={**WEIGHTS, 1: 1}), 2, SMALL, {}),
    "client": Terms(Round(number=3, size=5, weights={0: 1, 1: 2, 5: 3}), 2, SMALL, {}),
    "threshold": Terms(ROUND, 3, SMALL, {}),
    **{
        name: Terms(ROUND, 2, dataclasses.replace(SMALL, **{name: value}), {})
        for name, value in {
            "bits": 64,
            "frac_bits": 15,
            "clip": 3.0,
            "saturation": "clip",
        }.items()
    },
}


def adverts(changed: tuple[int, ...] = ()) -> np.ndarray:
    """Returns three adverts of three rows each, with one byte changed."""
    made = np.random.default_rng(1).integers(0, 256, (3, 3, 32), dtype=np.uint8)
    if changed:
        made[changed] ^= 1
    return made


@pytest.mark.parametrize("name", OTHERS)
def test_whoever_was_told_other_terms_signs_something_else(name):
    other, (advert, *_) = OTHERS[name], adverts()
    assert other.advertised(advert) != TERMS.advertised(advert)
    rosters = [Roster.of(terms, (0, 1, 4), adverts()) for terms in (TERMS, other)]
    assert rosters[0].session != rosters[1].session
    assert rosters[0].survivors([0, 1]) != rosters[1].survivors([0, 1])


def test_signed_bytes_differ_with_every_key_client_and_survivor():
    signed = [TERMS.advertised(advert) for advert in adverts()]
    for changed in [(), *((i, row, 7) for i in range(3) for row in range(3))]:
        roster = Roster.of(TERMS, (0, 1, 4), adverts(changed))
        signed += [roster.survivors(clients) for clients in ((0, 1), (0, 1, 4), (0, 4))]
    signed.append(Roster.of(TERMS, (0, 1, 2), adverts()).survivors((0, 1)))
    signed.append(TERMS.advertised(as_bytes(adverts((0, 2, 31))[0].tobytes())))
    assert len(set(signed)) == len(signed)


@pytest.mark.parametrize(
    ("kind", "early"),
    [("keys", "survivors"), ("keys", "consents"), ("sealed", "keys"), ("survivors", "consents")],
)
def test_a_message_before_its_turn_gets_no_answer(kind, early):
    def change(message: Message, machines: dict[int, Machine]) -> list[Message]:
        return [dataclasses.replace(message, kind=early, body={}), message]

    given = updates(6)
    outcome, _ = run(half(), given, tamper(kind, change, SERVER))
    assert outcome.refusals == ()
    check_exact(half(), given, outcome, range(6))


def test_clients_answer_the_server_alone():
    client = half().client(Round(number=1, size=5, weights=dict.fromkeys(range(6), 1)), 0, GIVEN)
    list(client.start(0.0))
    nonsense = Message(round=1, sender=2, receiver=0, kind="keys", body={})
    for sender in (2, 0, -2):
        assert list(client.receive(dataclasses.replace(nonsense, sender=sender), 0.0)) == []
    (refusal,) = client.receive(dataclasses.replace(nonsense, sender=SERVER), 0.0)
    assert isinstance(refusal, Refusal)


@pytest.mark.parametrize("kind", ["advertise", "shares", "masked", "consent", "unmask"])
def test_the_server_refuses_a_message_under_another_name(kind):
    def change(message: Message, machines: dict[int, Machine]) -> Message:
        return dataclasses.replace(message, kind="other")

    given = updates(6)
    outcome, _ = run(half(), given, tamper(kind, change, 2))
    assert outcome.refusals == (Refusal(2, "a message of kind 'other' out of turn"),)
    check_exact(half(), given, outcome, [c for c in given if c != 2 or kind in LATE])
