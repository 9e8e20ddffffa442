"""Nothing that a party sends crashes or stalls another, or makes it say what cannot be printed."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

import fl
from extensions.errors import MessageError, RoundError
from fl.protocols import SERVER, Message, Round, Value
from fl.round.encoding import (
    COUNT_BITS,
    DIMENSIONS,
    INTEGER_BYTES,
    NESTING,
    SHOWN,
    TEXT_BYTES,
    Reader,
    readable,
)
from fl.round.machines import MOST_EARLY
from fl.simulation import InProcessTransport
from tests.helpers.claims import claim
from tests.helpers.federated.fuzzing import AGGREGATORS, LONG, SIZE, fuzz, machines
from tests.helpers.federated.masked_rounds import altered, tamper
from tests.helpers.refused import refused

FEW, MANY = 1_150, 115_000
"""Of each of nine aggregators: 10^4 in all, and 10^6."""


@claim("Forged messages are sent to every handler, and they stop or crash only their sender.")
@pytest.mark.parametrize("name", AGGREGATORS)
def test_forged_messages_crash_nobody(name):
    """Rounds end with a mean, or fail as rounds do."""
    ended, failed = fuzz(name, FEW, seed=1)
    assert ended > 0
    assert failed > 0


@pytest.mark.long
@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_million_forged_messages_crash_nobody(name):
    fuzz(name, MANY, seed=2)


# --- bounds ---------------------------------------------------------------------------------------


def message(**body: Value) -> Message:
    return Message(round=1, sender=2, receiver=SERVER, kind="x", body=body)


def nested(depth: int) -> Value:
    value: Value = []
    for _ in range(depth):
        value = [value]
    return value


LIMITS: dict[str, tuple[Callable[[int], Message], int]] = {
    "round": (lambda n: replace(message(), round=2**n - 1), COUNT_BITS),
    "party": (lambda n: replace(message(), sender=2 ** (n - 1) - 1), COUNT_BITS),
    "integer": (lambda n: message(v=2 ** (8 * n - 1) - 1), INTEGER_BYTES),
    "negative": (lambda n: message(v=-(2 ** (8 * n - 1)) + 1), INTEGER_BYTES),
    "text": (lambda n: message(v="x" * n), TEXT_BYTES),
    "kind": (lambda n: replace(message(), kind="x" * n), TEXT_BYTES),
    "name": (lambda n: message(**{"x" * n: 1}), TEXT_BYTES),
    "dimensions": (lambda n: message(v=np.zeros((1,) * n)), DIMENSIONS),
    "nesting": (lambda n: message(v=nested(n - 1)), NESTING),
}


@pytest.mark.parametrize("field", LIMITS)
def test_every_field_is_sent_up_to_its_bound_and_refused_beyond_it(field):
    make, most = LIMITS[field]
    data = make(most).encode()
    assert Message.decode(data).encode() == data
    with pytest.raises(MessageError):
        make(most + 1).encode()


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\x01" + b"\x80" * 400_000, "a count of more than 63 bits"),
        (message().encode()[:-1] + b"\x01\x01vi" + b"\x81\x0c" + bytes(1537), "1537 bytes of inte"),
        (message().encode()[:-1] + b"\x01\x01vs" + b"\x81\x20" + bytes(4097), "4097 bytes of text"),
        (message().encode()[:-1] + b"\x01\x01va\x00\x05" + b"\x01" * 6, "an array of 5 dimensions"),
        (
            message().encode()[:-1] + b"\x01\x01v" + b"l\x01" * 17 + b"l\x00",
            "in more than 16 others",
        ),
    ],
)
def test_what_is_beyond_a_bound_does_not_decode(data, rule):
    with pytest.raises(MessageError, match=rule):
        Message.decode(data)


def test_a_long_count_is_refused_after_nine_bytes():
    reader = Reader(b"\xff" * 400_000)
    with pytest.raises(ValueError, match="63 bits"):
        reader.count()
    assert reader.left == 400_000 - 9


def test_largest_integer_of_a_message_can_be_printed():
    assert len(str(-(2 ** (8 * INTEGER_BYTES - 1)))) < 4300
    with refused("key_bits", "range", value=12288):
        fl.PaillierAggregator(key_bits=12288)


def test_text_of_others_is_printable_and_short():
    assert readable("client 1: 3 ≤ 5") == "client 1: 3 ≤ 5"
    assert readable("a\x1b[31mb\nc\u202ed") == "a\ufffd[31mb\ufffdc\ufffdd"
    assert readable("x" * SHOWN) == "x" * SHOWN
    assert readable("x" * (SHOWN + 1)) == "x" * (SHOWN - 3) + "..."
    assert readable("x" * 3_000_000) == "x" * (SHOWN - 3) + "..."


# --- what each handler refuses by name ------------------------------------------------------------


def reasons(name: str, kind: str, sender: int, **body: Value) -> dict[int, str]:
    """Returns why clients were first left out of a round in which a party's messages differ."""
    made = machines(AGGREGATORS[name](), 1)
    tamper(kind, lambda m, _: altered(m, **body), sender)(made)
    transport = InProcessTransport()
    with suppress(RoundError):
        transport.run(made)
    return {refusal.client: refusal.reason for refusal in reversed(transport.refusals)}


@pytest.mark.parametrize("value", [np.arange(2), 2**70, "2", 2.0, [2]])
def test_threshold_that_is_no_number_is_refused(value):
    found = reasons("masked", "keys", SERVER, threshold=value)
    assert found[0] == "'keys' of the server must hold an integer 'threshold' of 64 bits"


@pytest.mark.parametrize("sums", [np.array([[9, 9, 9]]), np.array([[2**62, -1, 0]])])
def test_edge_node_refuses_to_merge_a_sum_that_it_does_not_have(sums):
    made = machines(AGGREGATORS["chains"](), 1)
    tamper("merge", lambda m, _: altered(m, sums=sums), SERVER)(made)
    transport = InProcessTransport()
    with pytest.raises(RoundError):
        transport.run(made)
    (complaint,) = transport.transcript.received(SERVER, "refused")
    assert complaint.sender == -2
    assert "the server asks for a sum" in complaint.body["reason"]


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"members": np.array([0, 1, 2, 3, 4, 99])}, "a chain of clients who take no part"),
        ({"members": np.array([], dtype=np.int64)}, "a chain of clients who take no part"),
        ({"collector": -77}, "a chain that ends at party -77"),
        ({"peers": np.arange(90, 95)}, "a chain without keys for all"),
    ],
)
def test_client_refuses_a_chain_on_which_it_could_not_hand_on(body, rule):
    made = machines(AGGREGATORS["chain"](), 1)
    tamper("chain", lambda m, _: altered(m, **body), SERVER)(made)
    transport = InProcessTransport()
    with pytest.raises(RoundError):
        transport.run(made)
    complaints = transport.transcript.received(SERVER, "refused")
    assert rule in complaints[0].body["reason"]


@pytest.mark.parametrize("number", [2**62, -(2**62), 2**12000], ids=["large", "low", "long"])
@pytest.mark.parametrize(("kind", "field"), [("passed", "receiver"), ("token", "attempt")])
def test_huge_number_in_a_report_names_its_sender(number, kind, field):
    found = reasons("chain", kind, 2, **{field: number})
    assert set(found) <= {2}


def test_reason_of_megabytes_with_control_sequences_is_cut():
    made = machines(AGGREGATORS["masked"](), 1)

    def withdraws(ready: Message, _: object) -> Message:
        return replace(ready, kind="withdraw", body={"reason": LONG})

    tamper("ready", withdraws, 2)(made)
    outcome = InProcessTransport().run(made)
    (refusal,) = outcome.refusals
    assert (refusal.client, len(refusal.reason)) == (2, SHOWN)
    assert refusal.reason.isprintable()


@pytest.mark.parametrize("value", [2**20000, "x" * 3_000_000, True], ids=["int", "text", "bool"])
def test_client_that_sends_what_nobody_can_read_is_left_out_by_name(value):
    found = reasons("plain", "update", 2, more=value)
    assert list(found) == [2]
    assert "has no encoding" in found[2]
    made = machines(AGGREGATORS["masked"](), 1)
    tamper("keys", lambda m, _: altered(m, more=value), SERVER)(made)
    with pytest.raises(RoundError, match="has no encoding"):
        InProcessTransport().run(made)


def test_messages_before_their_turn_are_kept_up_to_a_number():
    client = AGGREGATORS["chain"]().client(
        Round(number=1, size=SIZE, weights={0: 1, 1: 1}), 0, 0.0 * np.ones(SIZE)
    )
    for _ in range(MOST_EARLY + 5):
        assert list(client.receive(replace(message(), kind="token", receiver=0), 0.0)) == []
    assert len(client._early) == MOST_EARLY
