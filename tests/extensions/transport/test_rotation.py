"""A new key under the signature of the old one, and every file that must not pass for that."""

import datetime
import hashlib
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from extensions.transport import (
    Federation,
    Identity,
    Local,
    Member,
    RejectedError,
    connect_to,
    renew,
)
from extensions.transport.handshake import Terms, accept
from extensions.transport.handshake_messages import NO_RUN
from tests.helpers.commands import call
from tests.helpers.federations import at_once, identities, listeners
from tests.helpers.patience import PATIENCE
from tests.helpers.refused import refused

NEW = "ab" * 32


def parties(own) -> Federation:
    """Returns the federation of these hosts, at ports where nobody need listen."""
    rows = [(one, f"127.0.0.1:{7000 + rank}") for rank, one in enumerate(own)]
    return Federation([party(one, place) for one, place in rows])


def party(own, place) -> Member:
    return Member(name=own.name, role="party", address=place, fingerprint=own.fingerprint)


def text_of(said) -> str:
    return "".join(f"{name} = {json.dumps(text)}\n" for name, text in said.items())


def certified(key, begins=-1.0, ends=1.0) -> bytes:
    """Returns a certificate of p0, DER, that begins and ends so many days from now."""
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "p0")])
    return (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1)
        .not_valid_before(now + datetime.timedelta(days=begins))
        .not_valid_after(now + datetime.timedelta(days=ends))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


class Attacker:
    """Somebody with a key of any kind who writes files, and members with its certificate."""

    def __init__(self, folder, key, certificate) -> None:
        self.key, self.certificate = key, certificate
        self.mark = hashlib.sha256(certificate).hexdigest()
        self.path = folder / "attack.toml"
        self.federation = Federation([Member(name="p0", role="client", fingerprint=self.mark)])

    def write(self, **changes):
        """Returns a file with these changes that its key has signed."""
        time, certificate = "2026-01-01T00:00:00+00:00", self.certificate.hex()
        said = {"name": "p0", "old": self.mark, "new": NEW, "time": time}
        text = text_of(said | {"certificate": certificate} | changes)
        if isinstance(self.key, rsa.RSAPrivateKey):
            signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            signature = self.key.sign(text.encode(), ec.ECDSA(hashes.SHA256()))
        self.path.write_text(text + text_of({"signature": signature.hex()}))
        return self.path

    def identity(self):
        """Returns a file with its key and certificate."""
        path = self.path.with_name("p0.pem")
        path.touch(mode=0o600)
        key = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        found = x509.load_der_x509_certificate(self.certificate)
        path.write_bytes(key + found.public_bytes(Encoding.PEM))
        return path


@pytest.fixture
def own(tmp_path):
    return identities(tmp_path, "p0", "p1")


@pytest.fixture
def rotated(tmp_path, own):
    """New identity of p0, and its signed file."""
    return renew(own[0].path, tmp_path / "p0-2.pem")


def test_operators_rotate_a_key_and_all_have_the_same_file(tmp_path, own, capsys):
    before, files = parties(own), [tmp_path / "0.toml", tmp_path / "1.toml"]
    old, new = own[0].path, tmp_path / "p0-2.pem"
    kept = old.read_bytes()
    call("keys", "--rotate", old, "--out", new)
    printed = capsys.readouterr().out
    statement = tmp_path / "p0-2.rotation.toml"
    assert f"p0 {Identity.read(new).fingerprint}\n" in printed
    assert str(statement) in printed
    assert old.read_bytes() == kept
    assert "PRIVATE" not in statement.read_text()
    for file in files:
        before.write(file)
        key = ["--key", new] if file is files[0] else ["--key", own[1].path]
        call("federation", file, "--rotate", statement, *key)
        found = Federation.read(file)
        assert capsys.readouterr().out.startswith(f"federation {found.digest.hex()}\n")
    assert files[0].read_bytes() == files[1].read_bytes()
    assert found == parties([Identity.read(new), own[1]])
    assert found.digest != before.digest


def test_a_key_that_is_no_members_after_a_rotation_leaves_the_file(tmp_path, own, rotated):
    file = tmp_path / "federation.toml"
    parties(own).write(file)
    kept = file.read_bytes()
    with refused("key", "value", str(own[0].path)):
        call("federation", file, "--rotate", rotated[1], "--key", own[0].path)
    assert file.read_bytes() == kept


def test_hosts_meet_by_the_new_key_once_both_have_rotated(own, rotated):
    new, statement = rotated
    (listener,) = listeners(1)
    with listener:
        place = "127.0.0.1:" + str(listener.getsockname()[1])
        before = Federation([party(own[0], place), party(own[1], "127.0.0.1:1")])
        after = before.rotated(statement)

        def meet(caller):
            def taken():
                terms = Terms("run", NO_RUN)
                connection, _ = listener.accept()
                return accept(Local(new, after), connection, lambda *_: terms, PATIENCE)

            member = caller.federation.members[0]
            return at_once(taken, lambda: connect_to(caller, member, "run", seconds=PATIENCE))

        for one in meet(Local(own[1], after)):
            one.connection.close()
        assert all(isinstance(one, RejectedError) for one in meet(Local(own[1], before)))
    with refused("key", "value", str(own[0].path)):
        Local(own[0], after)


def test_a_file_serves_once_and_never_after_a_later_one(tmp_path, own, rotated):
    first, statement = rotated
    second, later = renew(first.path, tmp_path / "p0-3.pem")
    before = parties(own)
    after = before.rotated(statement)
    for federation, file in (
        (after, statement),
        (before, later),
        (after.rotated(later), statement),
        (after.rotated(later), later),
    ):
        with refused("rotate", "file", str(file)):
            federation.rotated(file)
    assert after.rotated(later) == parties([second, own[1]])


@pytest.mark.parametrize("field", ["name", "old", "new", "time", "certificate", "signature"])
def test_whatever_is_altered_is_refused(own, rotated, field):
    new, statement = rotated
    said = dict(line.split(" = ") for line in statement.read_text().splitlines())
    digit = "1" if said[field][-2] == "0" else "0"
    said[field] = said[field][:-2] + digit + '"'
    kept = statement.read_text()
    statement.write_text("".join(f"{name} = {text}\n" for name, text in said.items()))
    with refused("rotate", "file", str(statement)):
        parties(own).rotated(statement)
    statement.write_text(kept)
    assert parties(own).rotated(statement) == parties([new, own[1]])


def test_a_member_signs_for_nobody_else(tmp_path, own):
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    attacker = Attacker(tmp_path, key, certified(key))
    federation = Federation([*attacker.federation.members, *parties(own).members[1:]])
    victim = own[1]
    theirs = {"name": "p1", "old": victim.fingerprint}
    for changes in (
        {"name": "p1"},
        {"old": victim.fingerprint},
        theirs,
        {**theirs, "certificate": victim.certificate.hex()},
    ):
        file = attacker.write(**changes)
        with refused("rotate", "file", str(file)):
            federation.rotated(file)
    assert federation.rotated(attacker.write()).members[0].fingerprint == NEW
    attacker.key = other
    with refused("rotate", "file", str(attacker.path)):
        federation.rotated(attacker.write())


@pytest.mark.parametrize("days", [(-2.0, -0.01), (0.01, 1.0)])
def test_a_key_that_is_not_valid_now_vouches_for_none(tmp_path, days):
    key = ec.generate_private_key(ec.SECP256R1())
    attacker = Attacker(tmp_path, key, certified(key, *days))
    with refused("rotate", "file", str(attacker.path)):
        attacker.federation.rotated(attacker.write())
    with refused("rotate", "value", str(attacker.identity())):
        renew(attacker.identity(), tmp_path / "new.pem")
    assert not [*tmp_path.glob("new*")]


def test_a_key_of_another_kind_vouches_for_none(tmp_path):
    key = rsa.generate_private_key(65537, 2048)
    attacker = Attacker(tmp_path, key, certified(key))
    with refused("rotate", "file", str(attacker.path)):
        attacker.federation.rotated(attacker.write())
    with refused("rotate", "value", str(attacker.identity())):
        renew(attacker.identity(), tmp_path / "new.pem")
    assert not [*tmp_path.glob("new*")]


def test_bytes_that_are_no_certificate_vouch_for_none(tmp_path):
    attacker = Attacker(tmp_path, ec.generate_private_key(ec.SECP256R1()), b"no certificate")
    with refused("rotate", "file", str(attacker.path)):
        attacker.federation.rotated(attacker.write())


@pytest.mark.parametrize("mark", ["", "ab", "zz" * 32])
def test_a_new_fingerprint_that_is_none_is_refused(tmp_path, mark):
    key = ec.generate_private_key(ec.SECP256R1())
    attacker = Attacker(tmp_path, key, certified(key))
    with refused("fingerprint", "value", mark):
        attacker.federation.rotated(attacker.write(new=mark))


def test_the_certificate_of_another_member_is_no_new_one(tmp_path, own):
    key = ec.generate_private_key(ec.SECP256R1())
    attacker = Attacker(tmp_path, key, certified(key))
    federation = Federation([*attacker.federation.members, *parties(own).members[1:]])
    mark = own[1].fingerprint
    with refused("fingerprint", "value", mark):
        federation.rotated(attacker.write(new=mark))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: b"",
        lambda text: b"[" * 8000,
        lambda text: b"a=" + b"[" * 8000,
        lambda text: b"\xff" + text,
        lambda text: text[:-2],
        lambda text: text.partition(b"signature")[0],
        lambda text: text + b'more = "x"\n',
        lambda text: text + text,
        lambda text: b"[rotation]\n" + text,
        lambda text: text.replace(b"time = ", b"time = 1979-05-27T07:32:00Z #"),
        lambda text: text.replace(b'signature = "', b'signature = "x'),
        lambda text: text.replace(b'signature = "', b'signature.x = "'),
        lambda text: text.ljust(1 << 13),
        lambda text: text.ljust(1 << 20),
    ],
)
def test_a_file_of_anything_else_is_refused(own, rotated, spoil):
    _, statement = rotated
    statement.write_bytes(spoil(statement.read_bytes()))
    with refused("rotate", "file", str(statement)):
        parties(own).rotated(statement)


def test_a_path_without_a_file_is_refused(tmp_path, own):
    for path in (tmp_path, tmp_path / "nowhere"):
        with refused("rotate", "file", str(path)):
            parties(own).rotated(path)


def test_nothing_is_overwritten_and_no_half_is_left(tmp_path, own):
    old, out, statement = own[0].path, tmp_path / "new.pem", tmp_path / "new.rotation.toml"
    statement.write_text("of somebody")
    with refused("out", "file", str(statement)):
        renew(old, out)
    assert not out.exists()
    assert statement.read_text() == "of somebody"
    statement.unlink()
    with refused("out", "file", str(old)):
        renew(old, old)
    with refused("days", "range", 0):
        renew(old, out, 0)
    old.chmod(0o640)
    with refused("rotate", "file", str(old)):
        renew(old, out)
    assert {path.name for path in tmp_path.iterdir()} == {"p0.pem", "p1.pem"}
