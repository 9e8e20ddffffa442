"""Base transfers give one key of two; both public keys look alike, and hostile ones are refused."""

import numpy as np
import pytest

from extensions.errors import TransferError
from extensions.two_party.oblivious_transfer import base
from extensions.two_party.oblivious_transfer.base import (
    BaseChooser,
    BaseSender,
    oblivious_point,
    on_curve,
)

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
SMALL_ORDER = (0, 1, PRIME - 1)
"""Points of the curve or its twist that every private key takes to zero (RFC 7748, section 6.1)."""


def ladder(scalar, u):
    """Returns (X, Z) of scalar times the point, by the formulas of RFC 7748, section 5."""
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in range(259, -1, -1):
        swap = scalar >> bit & 1
        if swap:
            x2, x3, z2, z3 = x3, x2, z3, z2
        a, b = (x2 + z2) % PRIME, (x2 - z2) % PRIME
        da, cb = (x3 - z3) * a % PRIME, (x3 + z3) * b % PRIME
        aa, bb = a * a % PRIME, b * b % PRIME
        x3, z3 = (da + cb) ** 2 % PRIME, u * (da - cb) ** 2 % PRIME
        x2, z2 = aa * bb % PRIME, (aa - bb) * (aa + 121665 * (aa - bb)) % PRIME
        if swap:
            x2, x3, z2, z3 = x3, x2, z3, z2
    return x2, z2


def test_the_ladder_is_that_of_the_standard():
    """The first vector of RFC 7748, section 5.2."""
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    u = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    clamped = int.from_bytes(scalar, "little") & ~7 & (2**255 - 1) | 2**254
    x, z = ladder(clamped, int.from_bytes(u, "little"))
    product = (x * pow(z, -1, PRIME) % PRIME).to_bytes(32, "little")
    assert product.hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"


def test_the_chooser_has_the_key_of_its_choice_and_not_the_other():
    sender = BaseSender()
    chooser = BaseChooser(sender.message)
    keys = sender.keys(chooser.answer)
    indices = np.arange(base.BITS)
    np.testing.assert_array_equal(keys[indices, chooser.choices], chooser.keys)
    assert not (keys[indices, 1 - chooser.choices] == chooser.keys).all(axis=1).any()
    assert len({key.tobytes() for key in keys.reshape(-1, 16)}) == 2 * base.BITS


def test_choices_are_fair_and_fresh():
    """Ones of 1,280 bits; six standard deviations are 10^-9 by chance."""
    message = BaseSender().message
    drawn = np.concatenate([BaseChooser(message).choices for _ in range(10)])
    assert abs(drawn.sum(dtype=int) - 640) < 6 * np.sqrt(320)


def test_both_public_keys_are_on_the_curve_and_of_prime_order():
    """What tells them apart would tell the choice: 0 of 60 points have another order."""
    answer = BaseChooser(BaseSender().message).answer
    points = [answer[start : start + 32] for start in range(0, 60 * 32, 32)]
    points += [oblivious_point() for _ in range(10)]
    for point in points:
        u = int.from_bytes(point, "little")
        assert on_curve(u)
        assert ladder(ORDER, u)[1] == 0


def test_points_of_the_twist_are_not_on_the_curve():
    assert on_curve(9)
    drawn = [int.from_bytes(np.random.default_rng(i).bytes(31), "little") for i in range(200)]
    on_it = [u for u in drawn if on_curve(u)]
    assert 60 < len(on_it) < 140
    assert all(ladder(8 * ORDER, u)[1] == 0 for u in on_it[:5])
    assert all(ladder(8 * ORDER, u)[1] != 0 for u in drawn if not on_curve(u))


@pytest.mark.parametrize("u", SMALL_ORDER)
def test_points_of_small_order_are_refused_by_both(u):
    point = u.to_bytes(32, "little")
    with pytest.raises(TransferError, match="the sender's key has a point of small order"):
        BaseChooser(point)
    sender = BaseSender()
    answer = BaseChooser(sender.message).answer
    with pytest.raises(TransferError, match="the chooser's answer has a point of small order"):
        sender.keys(answer[:-32] + point)


def test_messages_of_another_size_are_refused():
    for bad in (b"", bytes(31), bytes(33)):
        with pytest.raises(TransferError, match=f"has {len(bad)} bytes instead of 32"):
            BaseChooser(bad)
    with pytest.raises(TransferError, match="has 8191 bytes instead of 8192"):
        BaseSender().keys(bytes(8191))
