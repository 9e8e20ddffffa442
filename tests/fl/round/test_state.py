"""Machines that go on in another process, and keys of clients that come from files."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from extensions.errors import MessageError
from fl.protocols import SERVER, Aggregator, Message, Refusal
from fl.round import state
from fl.round.identities import EllipticSigner, EllipticVerifier, KeyFolder
from fl.simulation import DropOut, InProcessTransport
from fl.training.session import SessionClient
from tests.helpers.federated.fuzzing import AGGREGATORS, CLIENTS, SIZE, machines
from tests.helpers.federated.masked_rounds import sparse
from tests.helpers.refused import refused


class Moving(InProcessTransport):
    """A transport that makes every client's machine anew, from its dumped state, for a message."""

    def __init__(self, aggregator: Aggregator, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.aggregator = aggregator
        self.moves = 0

    def _deliver(self, message, kept):
        party = message.receiver
        yield from super()._deliver(message, kept)
        self._move(party)

    def _expire(self, party, timer):
        yield from super()._expire(party, timer)
        self._move(party)

    def _move(self, party: int) -> None:
        if party < 0:
            return
        old = self._machines[party]
        kept = state.dump(old)
        new = machines(self.aggregator, old.round.number)[party]
        assert isinstance(new, SessionClient)
        state.load(new, kept)
        assert state.dump(new) == kept
        self._machines[party] = new
        self.moves += 1


MOVABLE = [name for name in AGGREGATORS if name not in ("led", "hidden")]
"""A chain's leader, and clients that hide the model, stay in their process."""


@pytest.mark.parametrize("name", MOVABLE)
def test_rounds_of_machines_that_move_after_every_message_have_the_same_mean(name):
    here, moving = AGGREGATORS[name](), AGGREGATORS[name]()
    expected = InProcessTransport().run(machines(here, 1))
    transport = Moving(moving)
    outcome = transport.run(machines(moving, 1))
    np.testing.assert_array_equal(outcome.aggregate.mean, expected.aggregate.mean)
    assert outcome.included == expected.included == tuple(range(CLIENTS))
    assert transport.moves >= 2 * CLIENTS


KINDS = {"masked": "masked", "sparse": "consent", "chain": "passed"}


@pytest.mark.parametrize("name", KINDS)
def test_rounds_of_machines_that_move_survive_drop_outs(name):
    aggregator = AGGREGATORS[name]()
    if name == "sparse":
        aggregator = sparse(neighbours=4, shares=2)
    transport = Moving(
        aggregator,
        drop_outs=[DropOut(2, KINDS[name]), DropOut(2, "sum")],
    )
    outcome = transport.run(machines(aggregator, 1))
    weights = {k: k + 1 for k in outcome.included}
    mean = sum(weight * 0.25 * k for k, weight in weights.items()) / sum(weights.values())
    np.testing.assert_allclose(outcome.aggregate.mean, np.full(SIZE, mean), atol=2**-16)
    assert 2 in transport.vanished


@pytest.mark.parametrize("name", ["masked", "paillier"])
def test_a_state_is_for_one_kind_of_machine_party_round_and_version(name):
    machine = machines(AGGREGATORS[name](), 1)[0]
    kept = Message.decode(state.dump(machine))
    body = {**kept.body, "version": state.VERSION + 1}
    for wrong in (
        replace(kept, kind="MaskedClient"),
        replace(kept, sender=1),
        replace(kept, round=2),
        replace(kept, body=body),
        replace(kept, body={}),
    ):
        with pytest.raises(MessageError, match=r"state of|must hold an integer 'version'"):
            state.load(machine, wrong.encode())
    with pytest.raises(MessageError, match="that are no message"):
        state.load(machine, b"cos\nsystem\n(S'true'\ntR.")


def test_servers_are_not_dumped():
    with pytest.raises(MessageError, match="SessionServer stays in its process"):
        state.dump(machines(AGGREGATORS["masked"](), 1)[SERVER])


def test_a_paillier_key_is_kept_from_round_to_round_by_a_new_aggregator():
    first = AGGREGATORS["paillier"]()
    InProcessTransport().run(machines(first, 1))
    second = AGGREGATORS["paillier"]()
    for client in range(CLIENTS):
        kept = Message(round=1, sender=0, receiver=0, kind="kept", body=first.kept(client))
        second.keep(client, Message.decode(kept.encode()))
        assert second.kept(client) == first.kept(client)
    outcome = InProcessTransport().run(machines(second, 2))
    assert not outcome.transcript.receivers("deal"), "they had the key"


# --- keys from files ------------------------------------------------------------------------------


def keys(folder: Path, clients: int, *kind: str) -> Path:
    folder.mkdir()
    for client in range(clients):
        where = str(folder / str(client))
        subprocess.run(["ssh-keygen", "-q", "-N", "", *kind, "-f", where], check=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return keys(tmp_path_factory.mktemp("keys") / "p384", CLIENTS, "-t", "ecdsa", "-b", "384")


@pytest.mark.parametrize("name", ["masked", "sparse"])
def test_a_round_is_signed_with_keys_of_a_folder(folder, name):
    aggregator = AGGREGATORS[name]()
    aggregator.identify(KeyFolder(folder))
    outcome = Moving(aggregator).run(machines(aggregator, 1))
    assert outcome.included == tuple(range(CLIENTS))
    advert = outcome.transcript.received(SERVER, "advertise")[0]
    assert advert.array("signature", np.uint8, (-1,)).shape == (96,)


def test_a_client_with_a_key_that_others_do_not_know_is_left_out(folder, tmp_path):
    stranger = keys(tmp_path / "other", CLIENTS, "-t", "ecdsa", "-b", "384")
    for path in folder.glob("*.pub"):
        if path.stem != "3":
            (stranger / path.name).write_bytes(path.read_bytes())
            (stranger / path.stem).write_bytes((folder / path.stem).read_bytes())
    ours, theirs = AGGREGATORS["masked"](), AGGREGATORS["masked"]()
    ours.identify(KeyFolder(folder))
    theirs.identify(KeyFolder(stranger))
    parties = machines(ours, 1) | {3: machines(theirs, 1)[3]}
    outcome = InProcessTransport().run(parties)
    assert outcome.refusals == (Refusal(3, "a signature that is not client 3's"),)
    assert outcome.included == (0, 1, 2, 4)


def test_an_owner_is_found_by_its_key(folder):
    assert KeyFolder(folder, folder / "3").own() == 3
    public = KeyFolder(folder)
    assert public.clients == tuple(range(CLIENTS))
    pem = serialization.load_ssh_public_key((folder / "2.pub").read_bytes()).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    assert public.client_of(pem) == 2
    assert public.client_of(b"another") is None


def test_one_key_is_one_client_and_one_number_one_file(tmp_path):
    """Whoever had two of the clients' keys would count twice among those who do not side."""
    own = keys(tmp_path / "own", 3, "-t", "ed25519")
    for name in ("00", "\N{ARABIC-INDIC DIGIT ZERO}"):
        (own / f"{name}.pub").write_bytes((own / "2.pub").read_bytes())
    assert KeyFolder(own).client_of(KeyFolder(own)._public[0]) == 0
    (own / "1.pub").write_bytes((own / "0.pub").read_bytes())
    with refused("keys", "file", str(tmp_path / "own/1.pub")):
        KeyFolder(own)


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()])
def test_elliptic_signatures_have_one_length_and_verify_alone_what_was_signed(curve):
    private = ec.generate_private_key(curve)
    signer, verifier = EllipticSigner(private), EllipticVerifier(private.public_key())
    length = 2 * ((curve.key_size + 7) // 8)
    for number in range(8):
        data = bytes([number])
        signature = signer.sign(data)
        assert len(signature) == length
        verifier.verify(signature, data)
        for wrong, other in (
            (signature, b"x"),
            (signature[:-1], data),
            (bytes(length), data),
            (b"\xff" * length, data),
        ):
            with pytest.raises(InvalidSignature):
                verifier.verify(wrong, other)


def test_wrong_files_are_refused_by_name(folder, tmp_path):
    with refused("keys", "file", str(tmp_path)):
        KeyFolder(tmp_path)
    mixed = keys(tmp_path / "mixed", 1, "-t", "ed25519")
    assert KeyFolder(mixed).signature_bytes == 64
    (mixed / "1.pub").write_bytes((folder / "1.pub").read_bytes())
    with refused("keys", "file", str(mixed)):
        KeyFolder(mixed)
    (mixed / "1.pub").write_text("ssh-rsa AAAA")
    with refused("keys", "file", str(mixed / "1.pub")):
        KeyFolder(mixed)
    with refused("private", "file", str(folder / "3")):
        KeyFolder(folder, folder / "3").signer(2)
    with refused("private", "file", str(mixed / "0")):
        KeyFolder(folder, mixed / "0").own()
    with refused("keys", "file", str(folder)):
        KeyFolder(folder).verifier(9)
