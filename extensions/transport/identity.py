"""Who a host is: a key that stays there, and a certificate that others know by its fingerprint."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import ssl
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from extensions import durable
from extensions.errors import ArgumentError
from extensions.rules import Between

DAYS = 825
"""For which a certificate is good unless something else is said."""
_MOST_DAYS = 36500
_LARGEST = 1 << 13  # bytes; a file of `renew` has about 1,200
_ROTATION = ["name", "old", "new", "time", "certificate", "signature"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_EARLIER = datetime.timedelta(minutes=10)
"""For which clocks may differ when a certificate begins."""


@dataclass(frozen=True)
class Identity:
    """A host's own key and certificate, in one file of mode 0600.

    Attributes:
        path: of the file, PEM. Only TLS and `renew` read the key.
        certificate: DER.
    """

    path: Path
    certificate: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, 64 hexadecimal digits."""
        return fingerprint_of(self.certificate)

    @property
    def name(self) -> str:
        """The name that the certificate states."""
        return CertificateFacts.by(self.certificate).name

    @classmethod
    def read(cls, path: Path) -> Identity:
        """Returns the identity that `make` wrote there.

        Raises:
            ArgumentError: it is no such file, others may read it, or key and certificate do not
                belong together.
        """
        try:
            text = path.read_text()
            mode = stat.S_IMODE(path.stat().st_mode)
            load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), path)
            found = ssl.PEM_cert_to_DER_cert(text[text.index(ssl.PEM_HEADER) :])
            CertificateFacts.by(found)
        except (OSError, ValueError) as error:
            allowed = "a file of `pea keys`"
            raise ArgumentError("key", str(path), allowed, str(error), code="file") from error
        if mode & 0o077:
            advice = f"Type: chmod 600 {path}"
            raise ArgumentError("key", str(path), "a file of mode 0600", advice, code="file")
        return cls(path, found)


@dataclass(frozen=True)
class CertificateFacts:
    """What a certificate says of itself.

    Attributes:
        name: its subject's common name.
        begins: when it becomes valid.
        ends: when it is no longer.
    """

    name: str
    begins: datetime.datetime
    ends: datetime.datetime

    @classmethod
    def by(cls, certificate: bytes) -> CertificateFacts:
        """Returns what a certificate, DER, says.

        Raises:
            ValueError: it is no certificate with a name.
        """
        found = x509.load_der_x509_certificate(certificate)
        names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        if len(names) != 1 or not _NAME.fullmatch(str(names[0].value)):
            raise ValueError("a certificate without a name")
        return cls(str(names[0].value), found.not_valid_before_utc, found.not_valid_after_utc)

    def untimely(self) -> str:
        """Returns what is wrong with its dates now; empty if nothing is."""
        now = datetime.datetime.now(datetime.UTC)
        if now < self.begins:
            return f"begins on {self.begins:%Y-%m-%d %H:%M} UTC"
        return f"ended on {self.ends:%Y-%m-%d %H:%M} UTC" if now >= self.ends else ""


def load_key(context: ssl.SSLContext, path: Path) -> None:
    """TLS has the key and the certificate of that file, whose key has no pass phrase.

    Raises:
        OSError: there is no such key; nobody is asked for a pass phrase.
    """
    context.load_cert_chain(path, password=b"none")


def fingerprint_of(certificate: bytes) -> str:
    """Returns SHA-256 of a certificate, DER, as 64 hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


def check_name(name: str) -> None:
    """Raises ArgumentError unless it can be a host's name."""
    if not _NAME.fullmatch(name):
        raise ArgumentError("name", name, "1..63 letters, digits, dots, hyphens or underlines")


def make(name: str, path: Path, days: float = DAYS) -> Identity:
    """Returns a new identity, which is on disk then; its key is on curve P-256.

    Args:
        name: of the host, as the others will see it.
        path: of the file, which must not be there yet.
        days: for which the certificate is good, from now on; at most 100 years.

    Raises:
        ArgumentError: a name that is none, a file that is there, or days beyond their range.
    """
    check_name(name)
    allowed = f"above 0 and at most {_MOST_DAYS}"
    Between(0, _MOST_DAYS, above=True, words=allowed).check("days", days)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .sign(key, hashes.SHA256())
    )
    try:
        with durable.write(path, anew=True) as file:
            file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            file.write(certificate.public_bytes(Encoding.PEM))
    except FileExistsError as error:
        advice = "A key is never overwritten."
        raise ArgumentError("out", str(path), "a new file", advice, code="file") from error
    return Identity(path, certificate.public_bytes(Encoding.DER))


def renew(rotate: Path, path: Path, days: float = DAYS) -> tuple[Identity, Path]:
    """Returns a new identity of a host, and the file in which its old key signs for it.

    That file, ``NEW.rotation.toml`` beside ``NEW.pem``, is no secret. `rotation` reads it.

    Args:
        rotate: file of the old identity, which stays.
        path: as in `make`.
        days: as in `make`.

    Raises:
        ArgumentError: as in `make` and `Identity.read`, an old key that is not of `make` or not
            valid now, or a file that is there.
    """
    try:
        own = Identity.read(rotate)
    except ArgumentError as error:
        raise error.of("rotate") from error
    key = serialization.load_pem_private_key(rotate.read_bytes(), None)
    untimely = CertificateFacts.by(own.certificate).untimely()
    if untimely or not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ArgumentError("rotate", str(rotate), "a key of `pea keys` valid now", untimely)
    if (statement := path.with_suffix(".rotation.toml")).exists():
        raise ArgumentError("out", str(statement), "a new file", code="file")
    new = make(own.name, path, days)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    texts = [own.name, own.fingerprint, new.fingerprint, now, own.certificate.hex()]
    said = as_toml(dict(zip(_ROTATION, texts, strict=False)))  # TLS signs nothing that begins so
    signature = key.sign(said.encode(), ec.ECDSA(hashes.SHA256())).hex()
    with durable.write(statement) as file:
        file.write((said + as_toml({"signature": signature})).encode())
    return new, statement


def rotation(rotate: Path, known: Mapping[str, str]) -> tuple[str, str]:
    """Returns the old and the new fingerprint in a file of `renew`, once its signature is verified.

    Args:
        rotate: the file.
        known: names by present fingerprints. No other certificate is parsed.

    Raises:
        ArgumentError: it is no such file, of no such name and old fingerprint, or not signed by a
            key that is valid now.
    """
    try:
        with rotate.open("rb") as file:
            text = file.read(_LARGEST)
        said = tomllib.loads(text.decode())
        if len(text) == _LARGEST or [*said] != _ROTATION or {*map(type, said.values())} != {str}:
            raise ValueError("It is too large or has other fields.")
        found = bytes.fromhex(said["certificate"])
        if known.get(said["old"]) != said["name"] or fingerprint_of(found) != said["old"]:
            raise ValueError(f"{said['name']} {said['old']} is not in the federation now.")
        key = x509.load_der_x509_certificate(found).public_key()
        untimely = CertificateFacts.by(found).untimely()
        if untimely or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError(f"The old certificate {untimely or 'has another kind of key'}.")
        signed, signature = text.rpartition(b"signature")[0], bytes.fromhex(said["signature"])
        key.verify(signature, signed, ec.ECDSA(hashes.SHA256()))
    except (OSError, ValueError, RecursionError, InvalidSignature, UnsupportedAlgorithm) as error:
        allowed = "a file of `pea keys` that a member's present key has signed"
        advice = str(error) or "The signature is wrong."
        raise ArgumentError("rotate", str(rotate), allowed, advice, code="file") from error
    return said["old"], said["new"]


def as_toml(said: Mapping[str, str]) -> str:
    """Returns texts by name as lines of TOML."""
    return "".join(f"{name} = {json.dumps(said[name], ensure_ascii=False)}\n" for name in said)
