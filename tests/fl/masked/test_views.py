"""What parties of masked aggregation can compute from all that they see, and what rivals tell."""

import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import fl
from extensions.errors import MessageError
from fl.masked import ciphers, shamir
from fl.masked.ciphers import unseal
from fl.masked.terms import MASK_KEY, SECRETS, SEED
from fl.protocols import SERVER, Machine, Outcome, Refusal, Vector, aggregate
from fl.simulation import DropOut, Link, Network
from tests.helpers.federated.masked_rounds import SMALL, half, run, updates
from tests.helpers.strategies import ALARM, uniform_p_value

SIZE = 3000
"""Values of an update: 12,000 bytes, of which each of 256 values is expected 47 times."""


def residues(
    coalition: fl.Coalition,
    outcome: Outcome,
    machines: dict[int, Machine],
) -> dict[int, np.ndarray]:
    """Returns each client's masked values without all masks that server and coalition compute.

    From the members' secrets, the server's view, and shares that members hold or clients opened.
    """
    server = machines[SERVER]
    roster, unmasking, session = server._roster, server._unmasking, server._roster.session
    members = {client: machines[client] for client in coalition.clients}
    opened = {m.sender: m.body["keys"] for m in outcome.transcript.received(SERVER, "unmask")}
    secrets = {(k, s): members[k]._secrets[s] for k in members for s in SECRETS}
    for column, (dealer, kind) in enumerate(itertools.product(unmasking.dealt, SECRETS)):
        keys = {
            holder: own[column // 2].tobytes()
            for holder, own in opened.items()
            if kind == unmasking._kind(dealer)
        }
        keys |= {k: m._sealing_key(kind, dealer, k) for k, m in members.items() if m._dealers}
        cells = unmasking.dealt[dealer][:, SECRETS.index(kind)]
        cell = dict(zip(roster.clients, cells, strict=True))
        shares = {k + 1: ciphers.unseal(key, cell[k].tobytes()) for k, key in keys.items()}
        if len(shares) >= unmasking.threshold:
            taken = dict(list(shares.items())[: unmasking.threshold])
            secrets[dealer, kind] = shamir.reconstruct(taken)
    result = {}
    for message in outcome.transcript.received(SERVER, "masked"):
        client, values = message.sender, np.array(message.body["values"])
        if (client, SEED) in secrets:
            key = ciphers.derive(secrets[client, SEED], session, "individual mask", client)
            values -= ciphers.mask(key, SIZE, values.dtype)
        for peer in unmasking.dealt:
            for one, other in ((client, peer), (peer, client)):
                if peer != client and (one, MASK_KEY) in secrets:
                    own = ciphers.private_key(secrets[one, MASK_KEY])
                    pair = ciphers.agree(own, roster.mask_key(other), other)
                    ciphers.add_pair_mask(values, pair, session, client, peer, sign=-1)
                    break
        result[client] = values
    return result


def extreme(first: float) -> dict[int, Vector]:
    """Returns updates of 7 clients; 3 and 4 of the same weighted sum whatever the first value."""
    given = {client: np.full(SIZE, 0.25) for client in range(7)}
    given[3], given[4] = np.full(SIZE, 5 * first), np.full(SIZE, -4 * first)
    return given


@pytest.mark.parametrize("first", [0.75, -0.75])
def test_server_with_fewer_than_t_clients_sees_nothing_but_the_sum(first):
    """Two inputs of the same sum; 6 counts of uniform bytes each, false alarm 1e-8 a count.

    Of 7 clients t = 4 are needed; three lie with the server, and one honest client drops out.
    """
    given, aggregator = extreme(first), half()
    coalition = fl.Coalition({0, 1, 2}, server=True)
    outcome, machines = run(aggregator, given, drop_outs=[DropOut(6, "masked")])
    left = residues(coalition, outcome, machines)
    honest = (3, 4, 5)
    for number in (1, 2):
        for some in itertools.combinations(honest, number):
            assert uniform_p_value(sum(left[c] for c in some)) > ALARM
    encoded = {c: SMALL.encode(given[c], c + 1) for c in honest}
    np.testing.assert_array_equal(sum(left[c] for c in honest), sum(encoded.values()))
    assert aggregator.leaks_to(coalition, outcome) == {frozenset(honest)}


def test_server_with_t_clients_reads_every_update_as_leaks_to_says():
    given, aggregator = extreme(0.5), half()
    coalition = fl.Coalition({0, 1, 2, 5}, server=True)
    outcome, machines = run(aggregator, given, drop_outs=[DropOut(6, "masked")])
    left = residues(coalition, outcome, machines)
    for client in (3, 4):
        np.testing.assert_array_equal(left[client], SMALL.encode(given[client], client + 1))
    assert aggregator.leaks_to(coalition, outcome) == {frozenset({3}), frozenset({4})}
    late, _ = run(aggregator, given, drop_outs=[DropOut(5, "shares", "after")])
    assert aggregator.leaks_to(coalition, late) == {frozenset({3, 4, 6})}


def test_clients_without_the_server_see_no_masked_values():
    given, aggregator = extreme(0.5), half()
    outcome, _ = run(aggregator, given)
    everybody_else = fl.Coalition(range(6))
    kinds = {message.kind for message in outcome.transcript.view(everybody_else)}
    received = {m.kind for m in outcome.transcript.view(everybody_else) if m.sender == SERVER}
    assert "masked" in kinds
    assert received == {"keys", "sealed", "survivors", "consents"}
    assert aggregator.leaks_to(everybody_else, outcome) == {frozenset({6})}


def test_masked_values_are_uniform_and_new_in_every_round():
    """Bytes of 5 vectors, false alarm 1e-8 each; the bare updates fail the same test."""
    given = {client: np.full(SIZE, 1.0) for client in range(5)}
    first, _ = run(half(), given)
    aggregator = half()
    second, _ = run(aggregator, given)
    third, _ = run(aggregator, given)
    sent = [
        [m.body["values"] for m in outcome.transcript.received(SERVER, "masked")]
        for outcome in (first, second, third)
    ]
    for values in sent[0]:
        assert uniform_p_value(values) > ALARM
    assert uniform_p_value(SMALL.encode(given[0])) < ALARM
    for one, other in itertools.combinations(sent, 2):
        for a, b in zip(one, other, strict=True):
            assert uniform_p_value(a - b) > ALARM
    adverts = [
        m.body["advert"].tobytes()
        for outcome in (first, second, third)
        for m in outcome.transcript.received(SERVER, "advertise")
    ]
    keys = [advert[i : i + 32] for advert in adverts for i in (0, 32, 64)]
    assert len(set(keys)) == 3 * 3 * 5


# --- what rivals give away -------------------------------------------------------------------


def test_server_that_claims_a_drop_out_sees_nothing_unlike_with_pairwise_masks_alone():
    """Client 5's values come after the server had its pairwise masks reconstructed.

    Without individual masks what is left is the update; with them it is uniform, false alarm 1e-8.
    """
    given = extreme(0.5)
    slow = {(5, SERVER): Link(bandwidth=300.0)}
    outcome, machines = run(half(), given, network=Network(links=slow))
    assert outcome.included == (0, 1, 2, 3, 4, 6)
    assert outcome.refusals == (Refusal(5, "no 'masked' within 7 s"),)
    left = residues(fl.Coalition(server=True), outcome, machines)[5]
    assert uniform_p_value(left) > ALARM
    client = machines[5]
    key = ciphers.derive(client._secrets[SEED], client._roster.session, "individual mask", 5)
    pairwise_alone = left - ciphers.mask(key, SIZE, left.dtype)
    np.testing.assert_array_equal(pairwise_alone, SMALL.encode(given[5], 6))
    many = fl.Coalition(range(4), server=True)
    assert half().leaks_to(many, outcome) == {frozenset({client}) for client in (4, 5, 6)}
    np.testing.assert_array_equal(residues(many, outcome, machines)[5], SMALL.encode(given[5], 6))


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.astype(np.float64), b.astype(np.float64))[0, 1])


def test_masks_of_floats_between_minus_one_and_one_hide_nothing_ours_do():
    """MindSpore Federated adds such masks to weights times the number of records, 600 here.

    Nine masks of variance 1/3 add 3 to a variance of (600 * 0.1)^2: a correlation of 0.9996. Of
    uniform values it is N(0, 1 / SIZE) for large sizes: beyond 6 / sqrt(SIZE) with 2e-9.
    """
    draws = np.random.default_rng(7)
    weights = draws.normal(0.0, 0.1, SIZE)
    floats = 600 * weights + draws.uniform(-1.0, 1.0, (9, SIZE)).sum(axis=0)
    assert correlation(floats, weights) > 0.999
    aggregator = fl.MaskedAggregator(fixed_point=SMALL)
    given = dict.fromkeys(range(10), weights)
    outcome = aggregate(aggregator, given, dict.fromkeys(given, 600))
    for message in outcome.transcript.received(SERVER, "masked"):
        signed = message.body["values"].view(np.int32)
        assert abs(correlation(signed, weights)) < 6 / np.sqrt(SIZE)


BITS = 12


def folded_mask(key: bytes, bits: int) -> np.ndarray:
    """Returns a mask as Flower's SecAgg+ makes it: the key's words xored into one small seed."""
    words = np.frombuffer(key, dtype="<u4")
    seed = int(np.bitwise_xor.reduce(words)) % 2**bits
    return np.random.RandomState(seed).randint(0, 2**32, SIZE, dtype=np.uint32)


def test_mask_of_a_folded_seed_is_found_by_search_ours_uses_every_bit():
    """The search takes 2^12 tries here, in which the seed is folded to 12 bits instead of 32.

    At 32 bits it takes 2^32, each of a few values, whatever the length of the key.
    """
    update = SMALL.encode(np.random.default_rng(8).normal(0.0, 0.1, SIZE))
    key = ciphers.fresh_key()
    sent = update + folded_mask(key, BITS)

    def size(seed: int) -> int:
        tried = np.random.RandomState(seed).randint(0, 2**32, 16, dtype=np.uint32)
        return int(np.abs((sent[:16] - tried).view(np.int32).astype(np.int64)).max())

    found = min(range(2**BITS), key=size)
    np.testing.assert_array_equal(sent - folded_mask(found.to_bytes(4, "little"), BITS), update)
    dtype = np.dtype(np.uint32)
    words = np.frombuffer(key, dtype="<u4")
    same_fold = [np.roll(words, 1).tobytes(), (words ^ np.uint32(1)).tobytes()]
    ours = ciphers.mask(key, SIZE, dtype)
    for other in same_fold:
        np.testing.assert_array_equal(folded_mask(other, 32), folded_mask(key, 32))
        assert uniform_p_value(ciphers.mask(other, SIZE, dtype) - ours) > ALARM
    for bit in range(256):
        flipped = (int.from_bytes(key) ^ 1 << bit).to_bytes(32)
        assert not np.array_equal(ciphers.mask(flipped, 8, dtype), ours[:8])


# --- the ciphers -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_masks_are_aes_256_of_a_counter(dtype):
    key = ciphers.fresh_key()
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    stream = b"".join(block.update(count.to_bytes(16)) for count in range(3))
    expected = np.frombuffer(stream, dtype=dtype)
    size = expected.size - 1
    given = ciphers.mask(key, size, np.dtype(dtype))
    assert given.dtype == dtype
    np.testing.assert_array_equal(given, expected[:size])


LOW_ORDER = (
    bytes(32),
    (1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    *((2**255 - 19 + step).to_bytes(32, "little") for step in (-1, 0, 1)),
)
"""All points of low order and their other encodings. Source: Bernstein, cr.yp.to/ecdh.html."""


@pytest.mark.parametrize("public", LOW_ORDER)
def test_public_keys_of_low_order_are_refused(public):
    with pytest.raises(MessageError, match="client 3 advertises a key of low order"):
        ciphers.agree(ciphers.private_key(ciphers.fresh_key()), public, 3)


def test_key_agreement_is_that_of_the_standard_and_every_purpose_has_a_key_of_its_own():
    """RFC 7748, section 6.1."""
    alice, bob = (
        ciphers.private_key(bytes.fromhex(secret))
        for secret in (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        )
    )
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    secret = ciphers.agree(alice, ciphers.public_key(bob), 1)
    assert secret.hex() == shared
    assert ciphers.agree(bob, ciphers.public_key(alice), 0) == secret
    purposes = [("seed", 1, 2), ("seed", 2, 1), ("mask key", 1, 2), ("seed", 12)]
    keys = {ciphers.derive(secret, session, *p) for p in purposes for session in (b"a", b"b")}
    assert len(keys) == 8


@pytest.mark.parametrize("lost", [(), (1,), (1, 5)])
def test_a_key_opens_the_seed_of_a_survivor_or_the_mask_key_of_another_and_nothing_else(lost):
    drop_outs = [DropOut(client, "masked") for client in lost]
    outcome, _ = run(half(), updates(6), drop_outs=drop_outs)
    received = outcome.transcript.received
    sealed = {m.sender: m.body["sealed"] for m in received(SERVER, "shares")}
    cells = {
        (dealer, holder, kind): rows[holder][SECRETS.index(kind)].tobytes()
        for dealer, rows in sealed.items()
        for holder in range(6)
        for kind in SECRETS
    }
    helpers = received(SERVER, "unmask")
    assert len(helpers) == 6 - len(lost)
    for message in helpers:
        for dealer, key in zip(sorted(sealed), message.body["keys"], strict=True):
            kind = MASK_KEY if dealer in lost else SEED
            opened = [place for place, cell in cells.items() if unseal(key.tobytes(), cell)]
            assert opened == [(dealer, message.sender, kind)]
