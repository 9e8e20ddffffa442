"""What the parties tell the dealer, and how corrections are tagged."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crypten_ext.dealer.requests import DIGEST_BYTES, Request
from extensions.errors import PartyLostError
from extensions.ring.fixed_point import Integers

LONGEST_STEP = 100_000
"""Tuples of a step that is announced at once."""
PIECE_WORDS = 1 << 17
"""Words of a message, so that no party's link is idle while another one's is filled."""
_TAG = struct.Struct(f">QQ{DIGEST_BYTES}s")

_FAREWELL = (1 << 64) - 1

_LARGEST_NUMBER = (1 << 63) - 1
_NUMBERED = {"generation", "sequence", "requests"}
_KEYS: dict[str, set[str]] = {"bye": set(), "step": set(), "plan": _NUMBERED, "tuple": _NUMBERED}

BYE = json.dumps({"say": "bye"}).encode()
STEP = json.dumps({"say": "step"}).encode()


@dataclass(frozen=True)
class Tag:
    """What words are for: the announcement they answer, the tuple's number and its digest."""

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


@dataclass(frozen=True)
class Announcement:
    """What a party said: "bye", "step", or "plan" and "tuple" with numbers and requests."""

    say: str
    generation: int = 0
    sequence: int = 0
    requests: tuple[Request, ...] = ()


def parse(message: bytes | bytearray) -> Announcement:
    """Returns a party's message.

    Raises ValueError if it is none; the text quotes nothing longer than a name.
    """
    try:
        said = json.loads(message)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    kind = said.get("say") if isinstance(said, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ValueError(f"it says none of {sorted(_KEYS)}")
    if said.keys() != {"say", *_KEYS[kind]}:
        raise ValueError(f"a {kind!r} has only {sorted(_KEYS[kind])}")
    if not _KEYS[kind]:
        return Announcement(kind)
    numbers = said["generation"], said["sequence"]
    if not all(type(number) is int and 0 <= number <= _LARGEST_NUMBER for number in numbers):
        raise ValueError(f"generation and sequence must be in 0..{_LARGEST_NUMBER}")
    most = LONGEST_STEP if kind == "plan" else 1
    if not isinstance(said["requests"], list) or not 1 <= len(said["requests"]) <= most:
        raise ValueError(f"a {kind!r} has a list of 1..{most} requests")
    try:
        return Announcement(kind, *numbers, tuple(map(Request.parse, said["requests"])))
    except RecursionError:
        raise ValueError("its requests are nested too deeply") from None


def pieces(words: int) -> list[slice]:
    """Returns which of a party's words of a correction each message has; one message at least."""
    starts = range(0, max(1, words), PIECE_WORDS)
    return [slice(start, min(start + PIECE_WORDS, words)) for start in starts]


def pack(tag: Tag, words: bytes | Integers) -> bytes:
    """Returns tagged words."""
    data = words if isinstance(words, bytes) else words.data
    return b"".join((_TAG.pack(tag.generation, tag.sequence, tag.digest), data))


def unpack(message: bytes | bytearray) -> tuple[Tag, memoryview]:
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
