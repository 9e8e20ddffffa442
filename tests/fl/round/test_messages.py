"""The encoding of messages: exact bytes, equal after decoding, and nothing else decodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from extensions.errors import MessageError
from fl.protocols import SERVER, Message, Value
from fl.round.messages import DTYPES
from tests.helpers.strategies import PROPERTY

ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda code: hnp.arrays(np.dtype(code), hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
)
SINGLE = st.one_of(st.integers(), st.floats(), st.binary(max_size=9), st.text(max_size=9), ARRAYS)
VALUES = st.recursive(SINGLE, lambda values: st.lists(values, max_size=3), max_leaves=5)


def message(**body: Value) -> Message:
    return Message(round=300, sender=2, receiver=SERVER, kind="share", body=body)


def same(a: Value, b: Value) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return type(a) is type(b) and (a == b or a != a)


def test_bytes_are_those_of_the_format():
    values = np.array([1.0, -2.0], dtype=np.float32)
    expected = b"\x01" + b"\xac\x02" + b"\x04" + b"\x01" + b"\x05share" + b"\x03"
    expected += b"\x01v" + b"a\x05\x01\x02" + b"\x00\x00\x80\x3f\x00\x00\x00\xc0"
    expected += b"\x01n" + b"i\x02\x80\x00" + b"\x01l" + b"l\x02" + b"s\x01x" + b"b\x02\x00\xff"
    assert message(v=values, n=128, l=["x", b"\x00\xff"]).encode() == expected


@PROPERTY
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_decoding_gives_what_was_encoded(body):
    decoded = Message.decode(message(**body).encode())
    assert (decoded.round, decoded.sender, decoded.receiver) == (300, 2, SERVER)
    assert decoded.kind == "share"
    assert decoded.body.keys() == body.keys()
    assert all(same(decoded.body[name], value) for name, value in body.items())


@PROPERTY
@given(st.binary(max_size=60))
def test_other_bytes_are_refused_as_such(data):
    try:
        decoded = Message.decode(b"\x01" + data)
    except MessageError:
        return
    assert Message.decode(decoded.encode()).kind == decoded.kind


def test_every_part_of_a_message_and_more_than_it_is_refused():
    data = message(v=np.arange(3, dtype=np.uint64), n=-(2**2048), l=["x", 1.5]).encode()
    for end in range(len(data)):
        with pytest.raises(MessageError, match="that are no message"):
            Message.decode(data[:end])
    with pytest.raises(MessageError, match="1 bytes too many"):
        Message.decode(data + b"\x00")
    with pytest.raises(MessageError, match="version 2, not 1"):
        Message.decode(b"\x02" + data[1:])
    with pytest.raises(MessageError, match="no message"):
        Message.decode(message().encode()[:-1] + b"\x01\x01l" + b"l\x01" * 100_000)


@pytest.mark.parametrize(
    "value", [True, None, {1}, np.ones(2, dtype=np.complex64), np.ones(2, dtype=np.bool_)]
)
def test_value_without_encoding_is_refused(value):
    with pytest.raises(MessageError, match="has no encoding"):
        message(v=value).encode()


def test_array_of_a_message_has_the_type_and_shape_asked_for():
    share = message(v=np.ones((2, 3), dtype=np.uint32))
    assert share.array("v", np.uint32, (-1, 3)).shape == (2, 3)
    for name, dtype, shape in [("w", "u4", (2, 3)), ("v", "u8", (2, 3)), ("v", "u4", (3, 3))]:
        with pytest.raises(MessageError, match="'share' of client 2 must hold an array"):
            share.array(name, np.dtype(dtype), shape)
    with pytest.raises(ValueError, match="read-only"):
        Message.decode(share.encode()).array("v", np.uint32, (2, 3))[0] = 0
