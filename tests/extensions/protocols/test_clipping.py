"""The clip factor is one-sided and exact where it must be; clipped rows keep to the bound.

Rounding is the worst that a host may do, inputs are boundaries and adversarial rows, and
comparisons are of exact integers or fractions.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.errors import ArgumentError
from extensions.protocols.clipping import (
    PADDING_BITS,
    ClipPlan,
    clip_by_norm,
    clip_factor,
    inverse_square_up,
    ratio_up,
)
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import SAFE_BITS, encode
from tests.helpers.claims import claim
from tests.helpers.refused import refused
from tests.helpers.strategies import (
    MAGNITUDES,
    PRESETS,
    PROPERTY,
    ROUNDINGS,
    above_inverse_root,
    boundaries,
    directions,
    live_integers,
    squared_length,
    true_inverse_root,
)

DEGREES = (2, 3, 4)
BOUNDS = (0.1, 1.0, 7.7)
roundings = pytest.mark.parametrize("rounding", ROUNDINGS)
presets = pytest.mark.parametrize("frac_bits", PRESETS)
degrees = pytest.mark.parametrize("degree", DEGREES)


def widest(frac_bits: int, degree: int) -> ClipPlan:
    """Returns the plan with the largest range that is accepted."""
    for range_bits in range(SAFE_BITS, 0, -1):
        try:
            return ClipPlan(frac_bits=frac_bits, range_bits=range_bits, degree=degree)
        except ArgumentError:
            continue
    raise AssertionError("no range is accepted")


def assert_factor_guarantee(r: np.ndarray, factor: np.ndarray, plan: ClipPlan) -> None:
    f = plan.frac_bits
    above = r >= 1 << f
    assert (factor[~above] == 1 << f).all()
    assert (factor >= 0).all()
    assert (factor <= 1 << f).all()
    r, factor = r[above], factor[above]
    assert above_inverse_root(r, factor, f) == []
    octave = np.floor(np.log2(r)).astype(int) + 1 - f
    shortfall = np.array([math.ldexp(plan.shortfall(int(e)), f) for e in octave])
    least = (1 - plan.fit.relative_error()) * true_inverse_root(r, f) - shortfall
    assert (factor >= least - 1e-6).all()


@roundings
@degrees
@presets
def test_factor_over_the_default_range(frac_bits, degree, rounding):
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    octaves = 2.0 ** np.linspace(0, plan.range_bits, 20_000, endpoint=False)
    live = np.floor(octaves * 2**frac_bits).astype(np.int64)
    r = np.concatenate([[0], boundaries(plan.live_bits), live])
    factor = clip_factor(ClearRing(frac_bits, rounding=rounding, seed=1), r, plan)
    assert_factor_guarantee(r, factor, plan)
    least = 0.993 * np.minimum(true_inverse_root(np.maximum(r, 1), frac_bits), 2.0**frac_bits)
    assert (factor >= least - 2).all()


@roundings
@degrees
@pytest.mark.parametrize("frac_bits", [8, 12, *PRESETS, 24])
def test_factor_over_the_widest_range(frac_bits, degree, rounding):
    plan = widest(frac_bits, degree)
    r = boundaries(plan.live_bits)
    factor = clip_factor(ClearRing(frac_bits, rounding=rounding, seed=2), r, plan)
    assert_factor_guarantee(r, factor, plan)


@PROPERTY
@given(st.data(), st.integers(8, 24), st.sampled_from(DEGREES), st.sampled_from(ROUNDINGS))
def test_factor_is_one_sided_for_every_plan(data, frac_bits, degree, rounding):
    top = widest(frac_bits, degree).range_bits
    range_bits = data.draw(st.integers(max(1, ClipPlan.U_BITS - frac_bits), top))
    plan = ClipPlan(frac_bits=frac_bits, range_bits=range_bits, degree=degree)
    r = data.draw(live_integers(plan.live_bits))
    ring = ClearRing(frac_bits, rounding=rounding, seed=data.draw(st.integers(0, 2**32)))
    assert_factor_guarantee(r, clip_factor(ring, r, plan), plan)


@PROPERTY
@given(st.data(), st.integers(8, 24), st.sampled_from(DEGREES), st.sampled_from(ROUNDINGS))
def test_factor_of_a_ratio_with_more_bits_is_one_sided(data, frac_bits, degree, rounding):
    """Where an octave begins, just before and just after what is rounded up, and anywhere."""
    shift = data.draw(st.integers(1, SAFE_BITS - frac_bits - 1))
    plan = widest(frac_bits, degree)
    most = min(plan.live_bits + shift + 1, SAFE_BITS)
    octaves = range(frac_bits, plan.live_bits + 1)
    near = [(1 << t) + ulp << shift for t in octaves for ulp in (0, -2)]
    near = [x + step for x in near for step in (-1, 0, 1, -(1 << shift), (1 << shift) - 1)]
    drawn = data.draw(live_integers(most)).tolist()
    r = np.array([x for x in (*near, *drawn, 0) if 0 <= x < 1 << most], dtype=np.int64)
    ring = ClearRing(frac_bits, rounding=rounding, seed=data.draw(st.integers(0, 2**32)))
    factor = clip_factor(ring, r, plan, shift)
    limit = 1 << (3 * frac_bits + shift)
    for ratio, found in zip(r.tolist(), factor.tolist(), strict=True):
        below, beyond = (ratio >> shift) + 2 < 1 << frac_bits, ratio >> shift >= 1 << plan.live_bits
        if below or beyond:
            assert found == (1 << frac_bits if below else 0)
        assert 0 <= found <= 1 << frac_bits
        assert ratio < 1 << (frac_bits + shift) or found * found * ratio <= limit
        assert beyond or found >= _least(ratio, shift, plan)


class Recording(ClearRing):
    """A clear ring that keeps what it truncates and multiplies."""

    def truncate_and_multiply(self, items, pairs):
        self.seen = items
        return super().truncate_and_multiply(items, pairs)


@roundings
@presets
@pytest.mark.parametrize("shift", [1, 9, 25])
def test_ratio_is_rounded_up_and_stays_in_its_octave(frac_bits, rounding, shift):
    """What becomes u is at least the ratio over its octave's end, and within the fit's range."""
    plan = ClipPlan(frac_bits=frac_bits)
    powers = [1 << (t + shift) for t in range(frac_bits, plan.live_bits)]
    ends = [x + (ulp << shift) for x in powers for ulp in range(-4, 3)]
    near = [x + step for x in ends for step in (-1, 0, 1)]
    r = np.array(sorted(x for x in near if x >> shift >= 1 << frac_bits), dtype=np.int64)
    ring = Recording(frac_bits, rounding=rounding, seed=3)
    clip_factor(ring, r, plan, shift)
    (bx, _), _ = ring.seen
    least = math.ceil((0.5 - plan.fit.below) * 2**plan.live_bits)
    for ratio, found in zip(r.tolist(), bx.tolist(), strict=True):
        assert least <= found < 1 << plan.live_bits
        end = (ratio >> shift).bit_length()
        places = [plan.live_bits - end, plan.live_bits - end - 1]
        up = ratio + (2 << shift)
        assert any(ratio << p <= found << shift <= up << p for p in places if p >= 0)


def _least(ratio: int, shift: int, plan: ClipPlan) -> float:
    """Returns the least factor of a ratio that is rounded up by two ulp at most."""
    f = plan.frac_bits
    r = max(ratio / 2.0**shift, (1 << f) - 2.0) + 2
    octave = math.floor(math.log2(r)) + 1 - f
    if octave > plan.range_bits:
        return 0.0  # its end is two ulp away
    root = (1 - plan.fit.relative_error()) * math.sqrt(2.0**f / r)
    return math.ldexp(root - plan.shortfall(octave), f) - 1e-6


@roundings
@degrees
@presets
def test_padding_lies_beyond_every_ratio(frac_bits, degree, rounding):
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    ring = ClearRing(frac_bits, rounding=rounding)
    for shift in range(SAFE_BITS - frac_bits + 1):
        r = np.array([0, 1, (1 << SAFE_BITS) - 1]) + (1 << PADDING_BITS)
        assert not clip_factor(ring, r, plan, shift).any()


@roundings
@degrees
@presets
def test_factor_is_exact_at_both_ends(frac_bits, degree, rounding):
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    ring = ClearRing(frac_bits, rounding=rounding)
    one, end = 1 << frac_bits, 1 << plan.live_bits
    below = np.array([0, 1, one - 1])
    np.testing.assert_array_equal(clip_factor(ring, below, plan), [one] * 3)
    beyond = np.array([end, end + 1, 2 * end, 2**62, 2**63 - 1, -1, -one, -(2**63)])
    np.testing.assert_array_equal(clip_factor(ring, beyond, plan), [0] * 8)
    live = clip_factor(ring, np.array([one, end - 1]), plan)
    assert ((live > 0) & (live < one)).all()


@pytest.mark.parametrize(
    ("argument", "code", "options"),
    [
        ("frac_bits", "range", {"frac_bits": 25}),
        ("degree", "choice", {"degree": 1}),
        ("degree", "choice", {"degree": 5}),
        ("range_bits", "value", {"range_bits": 0}),
        ("range_bits", "value", {"range_bits": 1}),
        ("range_bits", "value", {"range_bits": 28}),
        ("range_bits", "value", {"range_bits": 29}),
        ("range_bits", "value", {"range_bits": 26, "degree": 4}),
        ("range_bits", "value", {"frac_bits": 8, "range_bits": 13}),
    ],
)
def test_plans_that_could_break_the_bound_are_refused(argument, code, options):
    with refused(argument, code, options[argument]):
        ClipPlan(**{"frac_bits": 16, **options})


def bound_and_ratio(max_norm: float) -> tuple[int, Fraction]:
    numerator, bits = inverse_square_up(max_norm)
    return numerator, numerator / Fraction(2) ** bits * Fraction(max_norm) ** 2


@PROPERTY
@given(st.floats(2.0**-16, 2.0**16))
def test_public_ratio_is_rounded_up_a_little(max_norm):
    numerator, excess = bound_and_ratio(max_norm)
    assert 1 <= numerator < 2**10
    assert 1 <= excess <= 1 + Fraction(1, 512)


@pytest.mark.parametrize("j", range(513, 1024, 30))
def test_public_ratio_is_rounded_up_where_a_double_cannot_tell(j):
    nearest = math.sqrt(1024 / j)
    for max_norm in (math.nextafter(nearest, 0.0), nearest, math.nextafter(nearest, 2.0)):
        assert bound_and_ratio(max_norm)[1] >= 1


@claim("The clip factor is at most its true value.")
@PROPERTY
@given(st.data(), st.floats(2.0**-16, 2.0**16), st.integers(8, 24))
def test_ratio_is_never_below_the_truth(data, max_norm, frac_bits):
    bits = data.draw(st.integers(frac_bits, 2 * frac_bits))
    _, shift = inverse_square_up(max_norm)
    room = min(SAFE_BITS - 11, SAFE_BITS - 11 + shift + bits - frac_bits)
    squared = data.draw(live_integers(max(room, 1)))
    ratio, beyond = ratio_up(squared, frac_bits, max_norm, bits=bits)
    assert 0 <= beyond <= max(0, shift + bits - frac_bits)
    for got, square in zip(ratio.tolist(), squared.tolist(), strict=True):
        truth = square * Fraction(2) ** (frac_bits + beyond - bits) / Fraction(max_norm) ** 2
        assert truth <= got <= truth * (1 + Fraction(1, 512))


@pytest.mark.parametrize("max_norm", [0.0, -1.0, 2.0**-17, 2.0**17, math.inf, math.nan])
def test_bounds_out_of_range_are_refused(max_norm):
    with refused("max_norm", "range", value=max_norm):
        inverse_square_up(max_norm)


def rows_of(max_norm: float, frac_bits: int, features: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Returns adversarial rows, encoded, and their lengths in units of the bound."""
    rows = MAGNITUDES[:, None, None] * directions(features) * max_norm
    lengths = np.repeat(MAGNITUDES, rows.shape[1])
    rows = rows.reshape(-1, features)
    fits = np.linalg.norm(rows, axis=1) < 2.0 ** (31 - frac_bits)
    return encode(rows[fits], frac_bits), lengths[fits]


def assert_clipped(clipped: np.ndarray, max_norm: float, frac_bits: int) -> None:
    ulp = Fraction(1, 1 << frac_bits)
    eta = math.sqrt(clipped.shape[1]) * float(ulp) / max_norm
    limit = (Fraction(max_norm) * Fraction(1 + eta)) ** 2
    for row in clipped:
        assert squared_length(row) * ulp**2 <= limit


@roundings
@pytest.mark.parametrize("max_norm", BOUNDS)
@presets
def test_adversarial_rows_are_clipped(frac_bits, max_norm, rounding):
    ring = ClearRing(frac_bits, rounding=rounding, seed=4)
    x, lengths = rows_of(max_norm, frac_bits)
    clipped = clip_by_norm(ring, x, max_norm, ClipPlan(frac_bits=frac_bits))
    assert_clipped(clipped, max_norm, frac_bits)
    np.testing.assert_array_equal(clipped[lengths <= 0.998], x[lengths <= 0.998])
    assert not clipped[lengths > 256].any()
    kept = (lengths >= 1) & (lengths < 17)
    norms = np.linalg.norm(clipped[kept] / 2**frac_bits, axis=1)
    assert norms.min() >= 0.99 * max_norm - math.sqrt(12) * 2.0**-frac_bits
    dots = (clipped[kept] / 2**frac_bits * x[kept]).sum(axis=1)
    assert (dots >= 0.999 * norms * np.linalg.norm(x[kept], axis=1)).all()


@roundings
@pytest.mark.parametrize("stretch", [1.0, 1.3, 3.1])
@presets
def test_rows_are_clipped_where_the_bound_has_few_bits(frac_bits, stretch, rounding):
    max_norm = stretch * 2.0 ** (-frac_bits / 2)
    bound = round(max_norm * 2**frac_bits)
    x = np.arange(bound - 30, 2 * bound, max(1, bound // 1000)).reshape(-1, 1)
    ring = ClearRing(frac_bits, rounding=rounding, seed=6)
    clipped = clip_by_norm(ring, x, max_norm, ClipPlan(frac_bits=frac_bits))
    assert_clipped(clipped, max_norm, frac_bits)


@degrees
@presets
def test_rows_are_clipped_with_the_widest_range_too(frac_bits, degree):
    plan = widest(frac_bits, degree)
    x, _ = rows_of(1.0, frac_bits)
    last = encode(
        directions(12) * min(2.0 ** (plan.range_bits / 2), 2.0 ** (31 - frac_bits)) * 0.9999,
        frac_bits,
    )
    for rounding in ROUNDINGS:
        ring = ClearRing(frac_bits, rounding=rounding, seed=5)
        assert_clipped(clip_by_norm(ring, np.vstack([x, last]), 1.0, plan), 1.0, frac_bits)


@PROPERTY
@given(st.data(), st.sampled_from(PRESETS), st.sampled_from(ROUNDINGS))
def test_any_row_is_clipped(data, frac_bits, rounding):
    max_norm = data.draw(st.floats(2.0 ** (-frac_bits / 2), 256.0))
    coordinate = st.integers(-(2**28), 2**28)
    x = np.array([data.draw(st.lists(coordinate, min_size=5, max_size=5)) for _ in range(3)])
    ring = ClearRing(frac_bits, rounding=rounding, seed=data.draw(st.integers(0, 2**32)))
    clipped = clip_by_norm(ring, x, max_norm, ClipPlan(frac_bits=frac_bits))
    assert_clipped(clipped, max_norm, frac_bits)


def worst_lift(plan: ClipPlan, exponent: int) -> float:
    """Returns how far s p(u) is lifted in that octave, over u and the ends of every rounding."""
    c1, c2, c3, c4 = (math.ldexp(c, -plan.COEFFICIENT_BITS) for c in plan.fit.padded(4))
    ulp_v, ulp_u = 2.0**-plan.scale_bits, 2.0**-plan.U_BITS
    u = np.linspace(0.5, 1.0, 257)
    v = 2.0 ** (-exponent / 2) * u
    exact = v * (c1 + u * (c2 + u * (c3 + u * c4)))
    lifts = []
    for of_v, of_u, of_q, of_w in itertools.product((-2, 1), (-1, 1), (-1, 1), (-1, 1)):
        v_off, u_off = v + of_v * ulp_v, u + of_u * ulp_u
        q, w = u_off * v_off + of_q * ulp_v, u_off * u_off + of_w * ulp_u
        lifted = c1 * v_off + q * (c2 + c3 * u_off + c4 * w)
        if plan.degree == 2:
            lifted = v_off * (c1 + c2 * u_off)
        lifts.append((lifted - exact).max())
    return float(max(lifts))


@degrees
@pytest.mark.parametrize("frac_bits", [12, *PRESETS, 24])
def test_error_bound_covers_every_rounding_and_little_more(frac_bits, degree):
    """Within a factor of 2 for degree 2, and of 13 for the others, whose terms alternate."""
    plan = ClipPlan(frac_bits=frac_bits, degree=degree)
    for exponent in range(1, plan.range_bits + 1):
        lift = worst_lift(plan, exponent)
        assert lift <= plan.error_bound(exponent) <= (2 if degree == 2 else 13) * lift
