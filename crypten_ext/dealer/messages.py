"""What the last party tells the dealer, and how a correction is tagged."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crypten_ext.dealer.requests import DIGEST_BYTES, Request
from extensions.errors import PartyLostError

_TAG = struct.Struct(f">QQ{DIGEST_BYTES}s")

_FAREWELL = (1 << 64) - 1

BYE = json.dumps({"say": "bye"}).encode()
STEP = json.dumps({"say": "step"}).encode()


@dataclass(frozen=True)
class Tag:
    """What a correction is for: the announcement it answers, the tuple's number and its digest."""

    generation: int
    sequence: int
    digest: bytes


def announcement(
    generation: int, sequence: int, requests: Sequence[Request], *, plan: bool
) -> bytes:
    """Returns the message that asks for one tuple, or that announces those of each step to come."""
    message = {
        "say": "plan" if plan else "tuple",
        "generation": generation,
        "sequence": sequence,
        "requests": [request.plain() for request in requests],
    }
    return json.dumps(message).encode()


def parse(message: bytes) -> dict[str, Any]:
    """Returns a party's message with its requests."""
    said: dict[str, Any] = json.loads(message)
    said["requests"] = [Request.parse(plain) for plain in said.get("requests", [])]
    return said


def pack(tag: Tag, correction: bytes) -> bytes:
    """Returns a tagged correction."""
    return _TAG.pack(tag.generation, tag.sequence, tag.digest) + correction


def unpack(message: bytes) -> tuple[Tag, memoryview]:
    """Returns the tag and the words; ValueError if the message is shorter than a tag."""
    if len(message) < _TAG.size:
        raise ValueError(f"sent a message of {len(message)} bytes")
    return Tag(*_TAG.unpack_from(message)), memoryview(message)[_TAG.size :]


def farewell(lost: PartyLostError) -> bytes:
    """Returns the message with which the dealer ends because a party is lost."""
    reason = str(lost).removeprefix(f"party {lost.rank} ")
    tag = Tag(_FAREWELL, lost.rank, bytes(DIGEST_BYTES))
    return pack(tag, reason.encode())


def party_lost(tag: Tag, payload: memoryview) -> PartyLostError | None:
    """Returns the loss for which the dealer ended; None if the message is a correction."""
    if tag.generation != _FAREWELL:
        return None
    return PartyLostError(tag.sequence, bytes(payload).decode(errors="replace"))
