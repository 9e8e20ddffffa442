"""Paillier: the scheme, packed sums at their limits, who is left out, and who can read what."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import gmpy2
import numpy as np
import phe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fl
from extensions.errors import ArgumentError, CiphertextError, MessageError, RoundError
from fl import paillier
from fl.paillier.short import _table, base_of
from fl.protocols import SERVER, Machine, Message, Outcome, Output, Round, Vector, aggregate
from fl.simulation import InProcessTransport
from tests.helpers.refused import refused
from tests.helpers.strategies import PROPERTY

FEW = settings(PROPERTY, max_examples=15)
CNN = 21_840


@cache
def key(bits: int = 1024, number: int = 0) -> paillier.PrivateKey:
    """A key that is made once; for each number another one."""
    return paillier.keygen(bits, insecure_small_key=bits < 2048)


def aggregator(**options: Any) -> fl.PaillierAggregator:
    return fl.PaillierAggregator(key_bits=256, insecure_small_key=True, timeout=7.0, **options)


def updates(clients: Iterable[int], size: int = 30) -> dict[int, Vector]:
    draws = np.random.default_rng(5)
    return {k: draws.uniform(-4, 4, size) for k in clients}


def as_phe(private: paillier.PrivateKey) -> tuple[phe.PaillierPublicKey, phe.PaillierPrivateKey]:
    public = phe.PaillierPublicKey(private.public.n)
    return public, phe.PaillierPrivateKey(public, private.p, private.q)


# (1 + 15 * 2) * 2^15 = 31 * 143 = 158 modulo 225, by hand; the other is python-paillier's own
# regression test, testRawEncryptDecryptRegression0.
@pytest.mark.parametrize(
    ("p", "q", "plaintext", "r", "ciphertext"),
    [(3, 5, 2, 2, 158), (293, 433, 10100, 74384, 935906717)],
)
def test_vectors(p, q, plaintext, r, ciphertext):
    private = paillier.PrivateKey(p, q)
    assert paillier.encrypt(private.public, plaintext, r) == ciphertext
    assert paillier.decrypt(private, ciphertext) == plaintext


def test_every_plaintext_and_unit_of_a_tiny_key():
    private = paillier.PrivateKey(5, 7)
    units = [r for r in range(1, 35) if math.gcd(r, 35) == 1]
    seen = set()
    for m in range(35):
        for r in units:
            c = paillier.encrypt(private.public, m, r)
            assert paillier.decrypt(private, c) == m
            seen.add(c)
    assert seen == {c for c in range(1, 35**2) if math.gcd(c, 35) == 1}


def integers() -> st.SearchStrategy[int]:
    """Signed integers of 10 to 1,000 bits, every length as likely as the next."""
    length = st.integers(10, 1000)
    return length.flatmap(lambda b: st.integers(1 << b - 1, (1 << b) - 1)).flatmap(
        lambda x: st.sampled_from([x, -x])
    )


@FEW
@given(integers(), integers(), integers())
def test_ciphertexts_add_up_and_scale(a, b, k):
    private = key()
    public, n = private.public, private.public.n
    one, two = paillier.encrypt(public, a), paillier.encrypt(public, b)
    assert paillier.decrypt_signed(private, one) == a
    assert paillier.decrypt_signed(private, paillier.enc_add(public, one, two)) == a + b
    assert paillier.decrypt_signed(private, paillier.enc_add_const(public, one, k)) == a + k
    assert paillier.decrypt(private, paillier.enc_mul_const(public, one, k)) == a * k % n
    small = k >> max(k.bit_length() - 10, 0)
    if abs(a * small) < n // 2:
        product = paillier.enc_mul_const(public, one, small)
        assert paillier.decrypt_signed(private, product) == a * small


@FEW
@given(integers(), st.integers(1, 2**1000))
def test_phe_makes_the_same_ciphertexts_and_decrypts_ours(m, r):
    private = key()
    n = private.public.n
    public, secret = as_phe(private)
    ours = paillier.encrypt(private.public, m, r)
    assert ours == public.raw_encrypt(m % n, r)
    short = paillier.ShortRandomness(private.public).encrypt(m % n)
    for ciphertext in (ours, short):
        assert secret.raw_decrypt(ciphertext) == m % n
    theirs = public.encrypt(m) + phe.EncryptedNumber(public, short)
    assert paillier.decrypt_signed(private, theirs.ciphertext()) == 2 * m
    total = phe.EncryptedNumber(public, paillier.enc_add(private.public, ours, short))
    assert secret.decrypt(total) == 2 * m


def test_key_of_phe_decrypts_what_it_encrypted():
    public, secret = phe.generate_paillier_keypair(n_length=256)
    ours = paillier.PrivateKey(secret.p, secret.q)
    assert ours.public.n == public.n
    assert paillier.decrypt_signed(ours, public.encrypt(-12345).ciphertext()) == -12345


@pytest.mark.parametrize("edge", ["0", "n - 1", "-(n // 2)"])
def test_plaintexts_at_the_edge_are_right_and_beyond_it_refused(edge):
    private = key(256)
    n = private.public.n
    m = {"0": 0, "n - 1": n - 1, "-(n // 2)": -(n // 2)}[edge]
    assert paillier.decrypt(private, paillier.encrypt(private.public, m)) == m % n
    for wrong in (n, -(n // 2) - 1):
        with refused("plaintext", "range", f"an integer of {wrong.bit_length()} bits") as caught:
            paillier.encrypt(private.public, wrong)
        assert str(wrong) not in str(caught.value)


def test_what_is_no_ciphertext_is_refused_with_the_keys_fingerprint():
    private = key(256)
    n = private.public.n
    for wrong in (0, -1, n * n, n, private.p, private.q * 12345):
        with pytest.raises(CiphertextError, match=private.public.fingerprint):
            paillier.decrypt(private, wrong)


def test_keys_have_their_size_form_and_draws():
    ours, other = key(256), key(256, 1)
    assert ours.public.n.bit_length() == 256
    assert {ours.p, ours.q}.isdisjoint({other.p, other.q})
    for private in (ours, other):
        assert private.p % 4 == private.q % 4 == 3
        assert math.gcd(private.p - 1, private.q - 1) == 2
        assert str(private.p) not in repr(private)


@pytest.mark.parametrize("bits", [1024, 2032, 2047, 0])
def test_small_keys_are_refused_unless_asked_for(bits):
    for make in (fl.PaillierAggregator, paillier.keygen):
        with refused("key_bits", "range", bits):
            make(key_bits=bits)


@pytest.mark.parametrize(("p", "q"), [(7, 7), (15, 7), (3, 7)])
def test_numbers_that_make_no_key_are_refused(p, q):
    with pytest.raises(ArgumentError):
        paillier.PrivateKey(p, q)


def test_short_randomness_is_powers_of_a_non_residue_of_symbol_one():
    private = key(256)
    n = private.public.n
    h = base_of(n)
    assert gmpy2.jacobi(h, private.p) == gmpy2.jacobi(h, private.q) == -1
    exponent = bytes(range(128, 144))
    power = gmpy2.mpz(1)
    for row, byte in zip(_table(n), exponent, strict=True):
        power = power * row[byte] % n**2
    assert power == gmpy2.powmod(gmpy2.powmod(h, n, n**2), int.from_bytes(exponent, "little"), n**2)
    encrypt = paillier.ShortRandomness(private.public).encrypt
    assert len({encrypt(7) for _ in range(20)}) == 20


@PROPERTY
@given(
    st.sampled_from([64, 256, 2048]),
    st.integers(0, 40),
    st.lists(st.integers(1, 500), min_size=1, max_size=6),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_packed_sums_are_exact_at_their_limits(bits, frac_bits, weights, seed, packed):
    fixed_point = fl.FixedPoint(frac_bits=frac_bits, clip=4.0)
    packing = paillier.Packing.of_round(bits, fixed_point, weights, packed=packed)
    assert packing.slots * packing.slot_bits <= bits - 1
    if packed:
        assert (packing.slots + 1) * packing.slot_bits > bits - 1
    n = (1 << bits - 1) + 1
    draws = np.random.default_rng(seed)
    signs = draws.choice([-4.0, 4.0, 0.0, 2.0**-frac_bits], size=2 * packing.slots + 1)
    rows = [fixed_point.encode(signs, weight).view(np.int64) for weight in weights]
    plaintexts = np.array([packing.pack(row, n) for row in rows], dtype=object)
    sums = [int(total) % n for total in plaintexts.sum(0)]
    np.testing.assert_array_equal(packing.unpack(sums, signs.size, n), np.sum(rows, axis=0))


def test_slots_of_64_bits_hold_their_extremes():
    packing = paillier.Packing(2**63 - 1, 3)
    values = np.array([2**63 - 1, -(2**63) + 1, 0, 1, -1])
    n = 2**200 + 1
    np.testing.assert_array_equal(packing.unpack(packing.pack(values, n), 5, n), values)


def test_what_a_slot_cannot_hold_is_an_error_on_both_ways():
    packing, n = paillier.Packing(100, 4), 2**255 + 1
    for value in (101, -101):
        with refused("values", "range", "one beyond"):
            packing.pack(np.array([0, value]), n)
        for place in (1, 2):
            with pytest.raises(MessageError, match="out of range"):
                packing.unpack([value * 2 ** (8 * place) % n], 2, n)
    for wrong in (2**200, n // 2):
        with pytest.raises(MessageError, match="out of range"):
            packing.unpack([wrong], 4, n)


def test_key_that_has_no_room_for_a_sum_is_refused():
    tiny = fl.PaillierAggregator(
        key_bits=64, insecure_small_key=True, fixed_point=fl.FixedPoint(frac_bits=50, clip=1.0)
    )
    with refused("key_bits", "range", value=64):
        tiny.check_weights([2048, 2048])


@pytest.mark.parametrize("packing", [True, False])
def test_mean_is_that_of_fixed_point_and_bytes_are_counted(packing):
    given_, weights = updates(range(3)), {0: 1, 1: 20, 2: 5}
    outcome = aggregate(aggregator(packing=packing), given_, weights)
    expected = np.average(list(given_.values()), axis=0, weights=list(weights.values()))
    assert np.max(np.abs(outcome.aggregate.mean - expected)) <= 3 / (2 * 26) * 2.0**-16 + 1e-14
    slots = 255 // 24 if packing else 1
    (update,) = (m for m in outcome.transcript.received(SERVER, "update") if m.sender == 1)
    assert update.body["ciphertexts"].shape == (-(-30 // slots), 64)
    assert outcome.refusals == ()


def kinds(outcome: Outcome) -> list[str]:
    return [entry.message.kind for entry in outcome.transcript]


def test_key_serves_later_rounds_and_reaches_those_who_lack_it():
    ours = aggregator()
    first = aggregate(ours, updates([1, 2]))
    again = aggregate(ours, updates([1, 2]), number=2)
    later = aggregate(ours, updates([0, 2]), number=3)
    assert kinds(first).count("deal") == kinds(later).count("deal") == 1
    assert "deal" not in kinds(again)
    (deal,) = later.transcript.received(2, "deal")
    assert deal.body["clients"].tolist() == [0]
    apart = aggregate(ours, updates([7, 8]), number=4)
    used = {
        message.body["fingerprint"]
        for outcome in (first, again, later, apart)
        for message in outcome.transcript.received(SERVER, "update")
    }
    assert len(used) == 2
    merged = aggregate(ours, updates([0, 1, 7]), number=5)
    (deal,) = merged.transcript.received(0, "deal")
    assert deal.body["clients"].tolist() == [7]
    np.testing.assert_allclose(
        merged.aggregate.mean, np.mean(list(updates([0, 1, 7]).values()), 0), atol=2.0**-16
    )


class Altered(Machine):
    """A party that sends another body than it should in messages of one kind."""

    def __init__(self, inner: Machine, kind: str, alter: Callable[[Any], Mapping[str, Any]]):
        super().__init__(inner.round, inner.party)
        self.inner, self.kind, self.alter = inner, kind, alter

    def start(self, now: float) -> Iterable[Output]:
        return self.changed(self.inner.start(now))

    def receive(self, message: Message, now: float) -> Iterable[Output]:
        return self.changed(self.inner.receive(message, now))

    def changed(self, outputs: Iterable[Output]) -> Iterable[Output]:
        for output in outputs:
            if isinstance(output, Message) and output.kind == self.kind:
                yield replace(output, body={**output.body, **self.alter(output.body)})
                yield output
            else:
                yield output


def run_altered(
    client: int, kind: str, alter: Callable[[Any], Mapping[str, Any]], clients: int = 3
) -> Outcome:
    ours, given_ = aggregator(), updates(range(clients))
    round = Round(number=1, size=30, weights=dict.fromkeys(given_, 1))
    machines = {k: ours.client(round, k, given_[k]) for k in given_}
    machines[client] = Altered(machines[client], kind, alter)
    return InProcessTransport().run({SERVER: ours.server(round), **machines})


def with_first(integer: Callable[[int], int]) -> Callable[[Any], Mapping[str, Any]]:
    def alter(body: Any) -> Mapping[str, Any]:
        rows = body["ciphertexts"].copy()
        first = int.from_bytes(rows[0].tobytes(), "little")
        rows[0] = np.frombuffer(integer(first).to_bytes(64, "little"), dtype=np.uint8)
        return {"ciphertexts": rows}

    return alter


def test_multiple_of_a_prime_factor_is_refused_as_a_ciphertext():
    ours, given_ = aggregator(), updates(range(3))
    aggregate(ours, given_)
    secret = ours._held[1].key
    assert secret is not None
    round = Round(number=2, size=30, weights=dict.fromkeys(given_, 1))
    machines = {k: ours.client(round, k, given_[k]) for k in given_}
    machines[1] = Altered(machines[1], "update", with_first(lambda c: secret.p))
    outcome = InProcessTransport().run({SERVER: ours.server(round), **machines})
    assert outcome.included == (0, 2)
    assert "a multiple of a divisor of n is no ciphertext" in outcome.refusals[0].reason


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (lambda body: {"modulus": body["modulus"] - 1}, "it dealt no key of 256 bits"),
        (lambda body: {"exchange": bytes(32)}, "another X25519 key than its own"),
        (lambda body: {"sealed": body["sealed"][1:]}, "did not deal to the 3 clients without key"),
        (lambda body: {"sealed": [b"", 3, b"x"]}, "a message that is not a sealed key"),
    ],
)
def test_dealer_of_no_key_is_left_out_and_the_next_one_deals(alter, reason):
    outcome = run_altered(0, "keys", alter, clients=4)
    assert outcome.included == (1, 2, 3)
    ((client, said),) = [(r.client, r.reason) for r in outcome.refusals]
    assert client == 0
    assert reason in said


def test_key_sealed_for_somebody_else_names_its_dealer():
    with pytest.raises(RoundError, match="client 1: the key sealed by client 0 cannot be opened"):
        run_altered(0, "keys", lambda body: {"sealed": body["sealed"][::-1]})


@pytest.mark.parametrize(
    "alter",
    [
        lambda body: {"plaintexts": body["plaintexts"] ^ 1 << 7},
        lambda body: {"plaintexts": body["plaintexts"][:, 1:]},
    ],
)
def test_wrong_sum_is_noticed_and_another_client_decrypts_it(alter):
    outcome = run_altered(0, "sum", alter)
    assert outcome.included == (0, 1, 2)
    assert [refusal.client for refusal in outcome.refusals] == [0]
    expected = np.mean(list(updates(range(3)).values()), axis=0)
    np.testing.assert_allclose(outcome.aggregate.mean, expected, atol=2.0**-16)


def test_update_under_another_key_that_claims_to_be_right_never_gives_a_mean():
    with pytest.raises(RoundError, match="no client decrypted the sum of .* broke the pro"):
        run_altered(1, "update", with_first(lambda c: c ^ 1 << 200))


def test_what_coalitions_read_is_what_leaks_to_says():
    ours, given_ = aggregator(), updates([1, 2, 3])
    aggregate(ours, updates([0, 1]))
    outcome = aggregate(ours, given_, number=2)
    packing = paillier.Packing.of_round(256, ours.fixed_point, [1, 1, 1])
    encoded = {k: ours.fixed_point.encode(v).view(np.int64).tolist() for k, v in given_.items()}

    def readable(coalition: fl.Coalition) -> set[int]:
        """Clients whose update the view holds under a key that a member holds."""
        found = set()
        for message in outcome.transcript.view(coalition):
            for member in coalition.clients:
                private = ours._held[member].key
                if message.kind == "update" and private is not None:
                    rows = [row.tobytes() for row in message.body["ciphertexts"]]
                    texts = [paillier.decrypt(private, int.from_bytes(r, "little")) for r in rows]
                    values = packing.unpack(texts, 30, private.public.n).tolist()
                    found |= {k for k in given_ if values == encoded[k]}
        return found - coalition.clients

    for clients in ([], [1], [0], [0, 3], [1, 2], [1, 2, 3]):
        for server in (False, True):
            coalition = fl.Coalition(clients, server=server)
            leaks = ours.leaks_to(coalition, outcome)
            alone = readable(coalition)
            assert alone == (set(given_) - set(clients) if server and clients else set())
            if alone:
                assert leaks == {frozenset({client}) for client in alone}
            else:
                rest = frozenset(given_) - frozenset(clients)
                assert leaks == ({rest} if rest else set())


def test_private_key_is_in_no_message():
    ours = aggregator()
    outcome = aggregate(ours, updates(range(3)))
    private = ours._held[2].key
    assert private is not None
    sent = b"".join(entry.message.encode() for entry in outcome.transcript)
    for prime in (private.p, private.q):
        for order in ("big", "little"):
            assert prime.to_bytes(16, order) not in sent
    assert private.public.n.to_bytes(32, "little") in sent


def cost_against_phe(size: int, few: int) -> tuple[float, float, float]:
    """Returns how many times faster and smaller packed encryption is, and the largest error.

    phe encrypts `few` values, one by one; both go by the value. Our time has the key's table in it.
    """
    private = key(2048)
    public, secret = as_phe(private)
    update = np.random.default_rng(1).normal(0, 0.05, size)
    fixed_point = fl.FixedPoint(frac_bits=16, clip=4.0)
    began = time.process_time()
    theirs = [public.encrypt(float(value)) for value in update[:few]]
    slow = (time.process_time() - began) / few
    _table.cache_clear()
    began = time.process_time()
    packing = paillier.Packing.of_round(2048, fixed_point, [1, 1, 1])
    encrypt = paillier.ShortRandomness(private.public).encrypt
    plaintexts = packing.pack(fixed_point.encode(update).view(np.int64), private.public.n)
    ours = [encrypt(plaintext) for plaintext in plaintexts]
    fast = (time.process_time() - began) / size
    assert len(ours) == -(-size // 97)
    checked = [paillier.decrypt(private, c) for c in ours[: -(-few // 97)]]
    decoded = packing.unpack(checked, min(size, 97 * len(checked)), private.public.n) / 2.0**16
    plain = [secret.decrypt(ciphertext) for ciphertext in theirs]
    longest = max(c.ciphertext(False).bit_length() for c in theirs)
    smaller = size * -(-longest // 8) / (len(ours) * 512)
    return slow / fast, smaller, float(np.max(np.abs(decoded[:few] - plain)))


def test_packed_encryption_beats_phe_value_by_value():
    faster, smaller, error = cost_against_phe(size=60 * 97, few=4)
    assert faster >= 100
    assert smaller >= 50
    assert error <= 2.0**-17


@pytest.mark.long
def test_budgets_of_the_cnn_against_phe():
    assert sum(p.numel() for p in fl.models.cnn_mnist().parameters()) == CNN
    faster, smaller, error = cost_against_phe(size=CNN, few=100)
    assert faster >= 200
    assert smaller >= 50
    assert error <= 2.0**-17
