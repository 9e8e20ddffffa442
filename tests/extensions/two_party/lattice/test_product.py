"""Shares of a product add up to it exactly, messages have the stated lengths, and hide."""

import tracemalloc

import numpy as np
import pytest

from extensions.errors import InsecureError, MissingExtraError
from extensions.two_party.lattice.flooding import Flooding, largest
from extensions.two_party.lattice.plan import Convolution, error_bound, matrices
from extensions.two_party.lattice.product import Multiplier
from extensions.two_party.lattice.scheme import Scheme
from tests.helpers.lattice import opened
from tests.helpers.refused import refused

PLANS = {
    "one number": matrices(1, 1, 1),
    "a vector": matrices(1, 300, 17, weight_bits=20),
    "ragged blocks of all kinds": Convolution(5, 3, 30, 31, 4, (3, 2), weight_bits=16),
    "shares of both": matrices(9, 40, 33, weight_bits=64),
    "more inner entries than a polynomial": matrices(2, 9000, 1, weight_bits=40),
    "strided": Convolution(3, 2, 9, 8, 3, (3, 3), stride=2, weight_bits=24),
    "a kernel as large as its image": Convolution(1, 1, 4, 5, 2, (4, 5), weight_bits=2),
}


def convolved(x, weights, stride):
    """Returns W o x modulo 2^64 by its definition."""
    windows = np.lib.stride_tricks.sliding_window_view(x, weights.shape[2:], axis=(2, 3))
    return np.einsum("bchwij,ocij->bohw", windows[:, :, ::stride, ::stride], weights)


def both(key_owner, multiplier, plan, x, weights):
    request = key_owner.encrypt(plan, x)
    answer, other = multiplier.multiply(plan, weights, request)
    return request, answer, other, key_owner.decrypt(plan, answer)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_shares_add_up_to_the_product_and_bytes_to_the_plan(key_owner, multiplier, words, plan):
    x, weights = words(plan.input_shape), words(plan.weight_shape, plan.weight_bits)
    request, answer, other, own = both(key_owner, multiplier, plan, x, weights)
    np.testing.assert_array_equal(own + other, convolved(x, weights, plan.stride))
    assert len(request) == plan.cut.request_bytes(plan)
    assert len(answer) == plan.cut.answer_bytes(plan)


def test_a_product_holds_one_block_of_kernels(key_owner, multiplier, words):
    """All kernels of this one would be 67 MB, twice that with its residues."""
    plan = matrices(64, 2048, 64, weight_bits=26)
    request = key_owner.encrypt(plan, words(plan.input_shape))
    weights = words(plan.weight_shape, 26)
    tracemalloc.start()
    try:
        multiplier.multiply(plan, weights, request)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 << 20


def test_matrices_are_images_of_one_pixel(key_owner, multiplier, words):
    x, weights = words((4, 6)), words((6, 3), 32)
    plan = matrices(4, 6, 3)
    as_kernels = np.ascontiguousarray(weights.T).reshape(plan.weight_shape)
    _, _, other, own = both(key_owner, multiplier, plan, x.reshape(plan.input_shape), as_kernels)
    np.testing.assert_array_equal((own + other).reshape(4, 3), x @ weights)


def test_the_largest_error_leaves_the_message(key_owner, multiplier):
    """Every entry of W and x at its end, in as many products as a coefficient can sum."""
    plan = matrices(1, 8192, 1, weight_bits=64)
    x = np.full(plan.input_shape, -(2**63))
    weights = np.full(plan.weight_shape, -(2**63))
    weights[:, ::2] += 2**31 - 1
    _, _, other, own = both(key_owner, multiplier, plan, x, weights)
    np.testing.assert_array_equal(own + other, convolved(x, weights, 1))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_widest_noise_leaves_the_message(monkeypatch, key_owner, words, sign):
    """All its words at one end, at the widest that parameters have room for; twice is too wide."""
    plan = matrices(2, 8000, 1, weight_bits=64, flooding=Flooding(coefficients=1 << 36))
    multiplier = Multiplier(key_owner.public_key(), plan.flooding)
    x, weights = words(plan.input_shape), words(plan.weight_shape)
    assert (plan.cut.limbs, plan.cut.flood_bits) == (1, 134)
    for factor, holds in ((1, True), (2, False)):

        def widest(_, count, bits, primes, noise=sign * factor):
            ends = [noise * largest(bits) % prime for prime in primes]
            return np.repeat(np.array(ends, dtype=np.uint64)[:, None], count, axis=1)

        monkeypatch.setattr("extensions.two_party.lattice.product.flood", widest)
        _, _, other, own = both(key_owner, multiplier, plan, x, weights)
        assert np.array_equal(own + other, convolved(x, weights, 1)) == holds


def test_the_bound_counts_all_that_one_coefficient_sums():
    """9,000 entries of 40 bits, each times an error and half a rounding, in three blocks."""
    plan = PLANS["more inner entries than a polynomial"]
    assert plan.cut.blocks(plan)[1] == 3
    errors = plan.flooding.deviations * 9000**0.5 + 9000 / 2
    largest_entry = 2 ** (plan.cut.limb_bits - 1)
    assert 1 <= error_bound(plan, plan.cut) / (plan.cut.limbs * largest_entry * errors) < 1.01


def test_budgets_of_bytes():
    """A layer of the paper's MLP on 64 records, and the product that Cheetah's authors quote."""
    layer, quoted = matrices(64, 784, 128, weight_bits=24), matrices(128, 512, 10, weight_bits=24)
    assert (layer.cut.request_bytes(layer), layer.cut.answer_bytes(layer)) == (3891264, 3604512)
    assert (quoted.cut.request_bytes(quoted), quoted.cut.answer_bytes(quoted)) == (1638464, 832032)


def test_weights_of_zeros_are_multiplied_too(key_owner, multiplier, words):
    plan = matrices(2, 200, 90)
    weights = words(plan.weight_shape, 16)
    weights[:40] = 0
    x = words(plan.input_shape)
    for factor in (weights, weights * 0):
        _, _, other, own = both(key_owner, multiplier, plan, x, factor)
        np.testing.assert_array_equal(own + other, convolved(x, factor, 1))


def test_an_answer_is_flooded_and_its_random_half_fresh(key_owner, multiplier, words):
    """What the key's owner sees besides its share, for the same request and the same W.

    The standard deviation of an error is 2^bits / 2, divided by two primes of 60 bits; its square
    is estimated from 8,000 to within sqrt(1.6 / 8,000), of which six are allowed.
    """
    flooding = Flooding(coefficients=1 << 36, security=44)
    plan = matrices(80, 1, 100, weight_bits=64, flooding=flooding)
    multiplier = Multiplier(key_owner.public_key(), flooding)
    request = key_owner.encrypt(plan, words(plan.input_shape))
    weights = words(plan.weight_shape)
    answers = [multiplier.multiply(plan, weights, request)[0] for _ in range(2)]
    (one, errors), (other, others) = (opened(key_owner, plan, answer) for answer in answers)
    assert not (one == other).any()
    scale = 2.0 ** (plan.cut.flood_bits - 121)
    relative = np.array([errors, others], dtype=float) / scale
    assert (relative**2).mean(axis=1) == pytest.approx(1, rel=6 * np.sqrt(1.6 / plan.revealed))
    assert abs(np.corrcoef(relative)[0, 1]) < 6 / np.sqrt(plan.revealed)
    assert 2.0**plan.cut.flood_bits > 2.0**62 * error_bound(plan, plan.cut)


def test_shares_of_both_parties_are_uniform(key_owner, multiplier):
    """Ones among 64 bits of 6,000 words; six standard deviations are 10^-9 by chance."""
    plan = matrices(60, 1, 100, weight_bits=2)
    x, weights = np.zeros(plan.input_shape, np.int64), np.ones(plan.weight_shape, np.int64)
    _, _, other, own = both(key_owner, multiplier, plan, x, weights)
    for share in (own, other):
        bits = np.unpackbits(share.view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=int)
        assert (abs(bits - plan.revealed / 2) < 6.5 * np.sqrt(plan.revealed / 4)).all()


def test_a_run_reveals_no_more_than_its_noise_hides(key_owner, words):
    flooding = Flooding(coefficients=5)
    multiplier = Multiplier(key_owner.public_key(), flooding)
    plan = matrices(1, 2, 3, flooding=flooding)
    weights, request = words(plan.weight_shape, 32), key_owner.encrypt(plan, words((1, 2, 1, 1)))
    multiplier.multiply(plan, weights, request)
    with pytest.raises(InsecureError, match="hides 5 and only 2"):
        multiplier.multiply(plan, weights, request)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"stride": 0}, "stride"),
        ({"kernel": (5, 1)}, "kernel"),
        ({"kernel": (0, 1)}, "kernel"),
        ({"height": 91, "width": 91}, "image"),
        ({"weight_bits": 1}, "weight_bits"),
        ({"weight_bits": 65}, "weight_bits"),
    ],
)
def test_plans_outside_their_range_are_refused(given, message):
    usual = {"batch": 1, "channels": 1, "height": 4, "width": 4, "outputs": 1, "kernel": (2, 2)}
    with refused(message, "range"):
        Convolution(**usual | given)


def test_arguments_that_are_not_the_plans_are_refused(key_owner, multiplier, words):
    plan = matrices(1, 2, 3, weight_bits=8)
    request = key_owner.encrypt(plan, words((1, 2, 1, 1)))
    with refused("x", "shape", "float64 (1, 2, 1, 1)"):
        key_owner.encrypt(plan, np.zeros(plan.input_shape))
    with refused("weights", "shape", "int64 (2, 3, 1, 1)"):
        multiplier.multiply(plan, words((2, 3, 1, 1), 8), request)
    for beyond in (128, -129):
        wide = np.full(plan.weight_shape, beyond)
        with refused("weight_bits", "range", value=8):
            multiplier.multiply(plan, wide, request)
    other = matrices(1, 2, 3, weight_bits=8, flooding=Flooding(security=50))
    with refused("flooding", "value", other.flooding):
        multiplier.multiply(other, words(plan.weight_shape, 8), request)


def test_without_the_wheel_the_command_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "seal", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[lattice\]'"):
        Scheme()


def test_the_parameters_are_those_of_128_bits():
    """SEAL itself refuses moduli beyond the standard's; limits of errors suppose such primes."""
    scheme = Scheme()
    assert scheme.context.parameters_set()
    assert [prime.bit_length() for prime in scheme.key_primes] == [40, 40, 60, 60, 17]
    assert scheme.primes == scheme.key_primes[:4]
    assert scheme.answer_primes == scheme.primes[:2]
    assert scheme.primes[0] * scheme.primes[1] >= (1 << 80) - (1 << 65)
    assert scheme.primes[2] * scheme.primes[3] >= (1 << 120) - (1 << 100)
