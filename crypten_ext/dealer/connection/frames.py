"""A message and its length: sealed by AES-256-GCM under a key for each direction, or inside TLS."""

import struct
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from extensions.transport.hello import MalformedError

LENGTH = struct.Struct(">Q")
_TAG_BYTES = 16


class BrokenFrameError(MalformedError):
    """A frame ends early, is altered, or is not a frame; the message says which."""


class Framing(Protocol):
    """How one side makes frames of messages, and messages of frames without their length."""

    def seal(self, message: bytes) -> bytes:
        """Returns the next frame."""

    def open(self, sealed: bytes) -> bytes:
        """Returns the message of the next frame, given without its length."""


class Plain:
    """Frames on a connection of TLS, which seals and numbers all that it carries."""

    def seal(self, message: bytes) -> bytes:
        """Returns the next frame: its length, then the message."""
        return LENGTH.pack(len(message)) + message

    def open(self, sealed: bytes) -> bytes:
        """Returns the message of the next frame, given without its length."""
        return sealed


class Frames:
    """What one side seals and opens: each frame once, in its order, at the other end alone.

    Args:
        sending: key of what is sealed here.
        receiving: key of what is opened here.
    """

    def __init__(self, sending: bytes, receiving: bytes) -> None:
        self._sending, self._receiving = AESGCM(sending), AESGCM(receiving)
        self.sent = self.received = 0

    def seal(self, message: bytes) -> bytes:
        """Returns the next frame: its length, then the sealed message."""
        sealed = self._sending.encrypt(self.sent.to_bytes(12, "big"), message, None)
        self.sent += 1
        return LENGTH.pack(len(sealed)) + sealed

    def open(self, sealed: bytes) -> bytes:
        """Returns the message of the next frame, given without its length.

        Raises:
            BrokenFrameError: it was altered, repeated or left out.
        """
        try:
            message = self._receiving.decrypt(self.received.to_bytes(12, "big"), sealed, None)
        except InvalidTag:
            raise BrokenFrameError("sent a message that was altered on its way") from None
        self.received += 1
        return message


def frame_bytes(message: bytes) -> int:
    """Returns the size of the frame of a message."""
    return LENGTH.size + len(message) + _TAG_BYTES
