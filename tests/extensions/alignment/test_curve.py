"""Points for ids, and keys that commute: published vectors, the group's laws, forged points."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extensions.alignment.curve import POINT, drawn_key, hashed, point_of, times_key
from extensions.errors import MessageError

P, A = 2**255 - 19, 486662
ORDER = 2**252 + 27742317777372353535851937790883648493

ELLIGATOR = {
    "608d892b641f0328523802a6603427c26e55e6f27e71a91a478148d45b5093cd": (
        "1bb913f0c9daefa0b3375378ffa534bda5526c97391952a7789eb976edfe4d08"
    ),
    "46f5b22494bfeaa7f232cc8d054be68561af50230234d7d1d63d1d9abeca8da5": (
        "7c22950b7d900fa866334262fcaea47a441a578df43b894b4625c9b450f9a026"
    ),
    "235fe40c443766ce7e18111c33862d66c3b33267efa50d50f9e8e5d252a40aaa": (
        "31ad08a8b0deeb2a4d8b0206ca25f567ab4e042746f792f4b7973f3ae2096c52"
    ),
    "001e92a544463bda9bd04ddbe3d6eed248f82de32f522669efc5ddce95f46f5b": (
        "027877759d155b1997d0d84683a313eb78bdb493271d935b622900459d52ceaa"
    ),
    "1a68a1af9f663592291af987203393f707305c7bac9c8d63d6a729bdc553dc19": (
        "5fd892c0958d1a75f54c3182a18d286efab784e774d1e017ba2fb252998b5dc1"
    ),
}
"""RFC 9380, appendix J.4.2: u[0] and P.x of curve25519_XMD:SHA-512_ELL2_NU_."""
KEY = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"
PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
"""RFC 7748, section 6.1: Alice's key, Bob's point and what both have."""

FORGED = {
    "zero": 0,
    "of order 4": 1,
    "of order 8": 325606250916557431795983626356110631294008115727848805560023387167927233504,
    "on the twist": 2,
    "of order 4 on the twist": P - 1,
    "not reduced": P + 9,
    "with the highest bit": 9 + 2**255,
}


def is_on_curve(point: bytes) -> bool:
    u = int.from_bytes(point, "little")
    return u < P and pow(u * (u * u + A * u + 1), (P - 1) // 2, P) in (0, 1)


@pytest.mark.parametrize("element", ELLIGATOR)
def test_elligator_gives_the_points_of_the_standard(element):
    assert point_of(int(element, 16))[::-1].hex() == ELLIGATOR[element]


def test_a_product_is_that_of_the_standard():
    assert times_key(bytes.fromhex(PUBLIC), bytes.fromhex(KEY)).hex() == SHARED


@settings(deadline=None, max_examples=30)
@given(st.lists(st.binary(min_size=POINT, max_size=POINT), min_size=1, max_size=4))
def test_keys_commute_and_come_off_in_any_order(ids):
    points, (one, off), (other, other_off) = hashed(b"".join(ids), b"tag"), drawn_key(), drawn_key()
    both = times_key(times_key(points, one), other)
    assert both == times_key(times_key(points, other), one)
    assert times_key(times_key(both, off), other_off) == points
    assert times_key(both, off) == times_key(points, other) != points


@settings(deadline=None, max_examples=50)
@given(st.integers(1, P - 1))
def test_every_point_is_on_the_curve_and_of_prime_order(element):
    """Times the order plus one, by a key that is 1 modulo it, a point of prime order is itself."""
    point = point_of(element)
    assert is_on_curve(point)
    one = next(n for n in range(1, 8 * ORDER, ORDER) if n % 8 == 0)
    key = next(one + k * 8 * ORDER for k in range(8) if one + k * 8 * ORDER >= 2**254)
    if key < 2**255:
        assert times_key(point, key.to_bytes(POINT, "little")) == point


def test_points_differ_by_id_and_by_alignment():
    ids = os.urandom(POINT * 50)
    points = [hashed(ids, tag) for tag in (b"one", b"other")]
    each = {points[n][at : at + POINT] for n in (0, 1) for at in range(0, len(ids), POINT)}
    assert len(each) == 100
    assert hashed(ids, b"one") == points[0]


def test_keys_are_new_each_time_and_as_x25519_has_them():
    keys = [int.from_bytes(key, "little") for _ in range(20) for key in drawn_key()]
    assert len({*keys}) == 40
    assert all(key % 8 == 0 and key >> 254 == 1 for key in keys)


@pytest.mark.parametrize("kind", FORGED)
def test_a_point_that_is_none_is_refused_wherever_it_stands(kind):
    points = hashed(os.urandom(POINT * 2), b"tag")
    forged = FORGED[kind].to_bytes(POINT, "little")
    for at in (0, POINT, 2 * POINT):
        with pytest.raises(MessageError):
            times_key(points[:at] + forged + points[at:], drawn_key()[0])
