"""What two ends say before they trust each other: bytes and judgements; sockets are elsewhere.

In the clear each end names software, federation, its certificate and whom it wants, so that both
can say what differs. Nothing of that is believed: TLS then proves the certificate's key, and inside
it each end repeats the digest of all that was said in the clear.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Self

from extensions import __version__
from extensions.transport.federation import Federation, Member
from extensions.transport.identity import CertificateFacts, fingerprint_of

MAGIC = b"pea tls1"
LARGEST_CERTIFICATE = 2048
LARGEST_VERDICT = 1000
LARGEST_VERSION = 32
NO_RUN = bytes(32)
_FIXED = struct.Struct(f">{len(MAGIC)}s{LARGEST_VERSION}s32s32sH")
_CLAIM = struct.Struct(">32s16sH32s")
CLAIM_BYTES = _CLAIM.size
PREAMBLE_BYTES = _FIXED.size
_NO_RANK = 0xFFFF


class MalformedError(Exception):
    """Bytes are no message of a handshake; the message says why."""


@dataclass(frozen=True)
class Preamble:
    """What an end says in the clear.

    Attributes:
        version: of its software.
        federation: digest of its federation.
        wanted: fingerprint of the certificate that the other end should have; zeros of whoever
            answers, who takes every member.
        certificate: its own, DER.
    """

    version: str
    federation: bytes
    wanted: bytes
    certificate: bytes

    @classmethod
    def of(cls, federation: Federation, certificate: bytes, wanted: str = "") -> Self:
        """Returns what this end says."""
        version = __version__[:LARGEST_VERSION]
        return cls(version, federation.digest, bytes.fromhex(wanted).ljust(32, b"\0"), certificate)

    def pack(self) -> bytes:
        """Returns the message."""
        said = (self.version.encode(), self.federation, self.wanted, len(self.certificate))
        return _FIXED.pack(MAGIC, *said) + self.certificate

    @staticmethod
    def rest(fixed: bytes) -> int:
        """Returns how many bytes follow the first `PREAMBLE_BYTES`.

        Raises:
            MalformedError: these begin no preamble.
        """
        magic, *_, size = _FIXED.unpack(fixed)
        if magic != MAGIC:
            raise MalformedError(f"said {shown(fixed[:8])}, not {shown(MAGIC)}")
        if not 0 < size <= LARGEST_CERTIFICATE:
            raise MalformedError(f"announced a certificate of {size} bytes")
        return int(size)

    @classmethod
    def unpack(cls, fixed: bytes, certificate: bytes) -> Self:
        """Returns what the other end says."""
        _, version, federation, wanted, _ = _FIXED.unpack(fixed)
        return cls(shown(version.rstrip(b"\0")), federation, wanted, certificate)

    def objection(self, own: Preamble, federation: Federation) -> str:
        """Returns what keeps this end, of the preamble `own`, from talking to it; or nothing."""
        if self.version != own.version:
            return f"expected pea-mpl {own.version}, came {self.version}"
        if self.federation != own.federation:
            return (
                f"expected the federation {own.federation.hex()}, came {self.federation.hex()}: "
                "all hosts need the same file"
            )
        came = fingerprint_of(self.certificate)
        if any(own.wanted) and came != own.wanted.hex():
            return f"expected the certificate {own.wanted.hex()}, came {came}"
        own_mark = fingerprint_of(own.certificate)
        if came == own_mark:
            return f"expected another host's certificate, came this one's own, {came}"
        if any(self.wanted) and self.wanted.hex() != own_mark:
            return f"expected to be asked for {own_mark}, was asked for {self.wanted.hex()}"
        member = federation.of(came)
        if member is None:
            listed = ", ".join(f"{one.name} {one.fingerprint}" for one in federation.members)
            return f"expected a certificate of {listed}; came {came}"
        stated = CertificateFacts.by(self.certificate)  # of a member: nobody else's is looked into
        if member.name != stated.name:
            return f"expected the name {member.name} in the certificate {came}, came {stated.name}"
        if untimely := stated.untimely():
            return f"expected a valid certificate of {member.name}, came {came}, which {untimely}"
        return ""


@dataclass(frozen=True)
class Claim:
    """What an end says inside TLS.

    Attributes:
        transcript: digest of both preambles.
        purpose: of the connection.
        rank: of a party; None of anybody else.
        run: in which it takes part.
    """

    transcript: bytes
    purpose: str
    rank: int | None
    run: bytes

    def pack(self) -> bytes:
        """Returns the message."""
        rank = _NO_RANK if self.rank is None else self.rank
        return _CLAIM.pack(self.transcript, self.purpose.encode(), rank, self.run)

    @classmethod
    def unpack(cls, message: bytes) -> Self:
        """Returns what the other end says."""
        transcript, purpose, rank, run = _CLAIM.unpack(message)
        plain = shown(purpose.rstrip(b"\0"))
        return cls(transcript, plain, None if rank == _NO_RANK else rank, run)

    def objection(self, own: Claim, member: Member, federation: Federation) -> str:
        """Returns what keeps an end that claims `own` from talking to this member; or nothing."""
        rank = federation.rank_of(member)
        if self.transcript != own.transcript:
            return "what was said in the clear was altered on its way"
        if self.rank != rank:
            return f"expected rank {rank} of {member.name}, came {self.rank}"
        if self.purpose != own.purpose:
            return f"expected a connection for {own.purpose!r}, came one for {self.purpose!r}"
        if self.run != own.run:
            return f"expected the run {own.run.hex()}, came {self.run.hex()}"
        return ""


def transcript(dialled: bytes, answered: bytes) -> bytes:
    """Returns the digest of two packed preambles."""
    return hashlib.sha256(dialled + answered).digest()


def shown(text: bytes) -> str:
    """Returns what may be printed of bytes from the network."""
    return "".join(one if one.isprintable() else "?" for one in text.decode("utf-8", "replace"))
