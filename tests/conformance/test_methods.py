"""The methods of encrypted tensors, as a CrypTen script calls them in every party."""

import math
from typing import Any

import numpy as np
import pytest

from extensions.protocols.clipping import ClipPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.ring.fixed_point import Integers, decode, encode
from tests.conformance.arenas.arena import CrypTenArena
from tests.extensions.protocols.test_clipping import assert_clipped, rows_of
from tests.extensions.protocols.test_inverse_sqrt import assert_within_guarantee
from tests.helpers.strategies import PRESETS, sweep, true_inverse_root

presets = pytest.mark.parametrize("frac_bits", PRESETS)


def call(
    arena: CrypTenArena,
    method: str,
    x: Integers,
    frac_bits: int,
    *,
    upstream: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Calls x.method(**options); what all parties opened must agree, and decode as it should."""
    answers = arena.run(
        "call_method", x=x, frac_bits=frac_bits, method=method, options=options, upstream=upstream
    )
    for answer in answers[1:]:
        np.testing.assert_equal(answer, answers[0])
    result = answers[0]["result"]
    np.testing.assert_allclose(answers[0]["plain_text"], decode(result, frac_bits), rtol=2.0**-22)
    return answers[0]


@pytest.mark.parametrize("degree", [2, 3, 4])
@presets
def test_inverse_sqrt(crypten_arena: CrypTenArena, frac_bits: int, degree: int):
    x = sweep(frac_bits)[::10]
    answer = call(crypten_arena, "inverse_sqrt", x, frac_bits, degree=degree)
    assert_within_guarantee(
        x, answer["result"], InverseSqrtPlan(frac_bits=frac_bits, degree=degree)
    )
    assert (answer["result"] >= 0.99 * true_inverse_root(x, frac_bits)).all()


def test_inverse_sqrt_has_degree_4_unless_told(crypten_arena: CrypTenArena):
    x = sweep(20)[::100]
    answer = call(crypten_arena, "inverse_sqrt", x, 20)
    assert_within_guarantee(x, answer["result"], InverseSqrtPlan(frac_bits=20, degree=4))


@presets
def test_gradient_of_inverse_sqrt(crypten_arena: CrypTenArena, frac_bits: int):
    # With y in [low, high] and e1, e2, e3 each less than an ulp, what comes back is
    # -((g y + e1)(y^2 + e2) / 2 + e3).
    x, ulp = encode(np.geomspace(0.01, 300.0, 2000), frac_bits), 2.0**-frac_bits
    draws = np.random.default_rng(5).normal(0, 1, len(x))
    upstream = np.where(np.arange(len(x)) % 2, encode(draws, frac_bits), 1 << frac_bits)
    answer = call(crypten_arena, "inverse_sqrt", x, frac_bits, upstream=upstream)
    assert answer["differentiable"]
    plan = InverseSqrtPlan(frac_bits=frac_bits)
    high = decode(x, frac_bits) ** -0.5
    low = (1 - plan.relative_error) * high - 3 * ulp
    g, got = decode(upstream, frac_bits), decode(answer["gradient"], frac_bits)
    slack = (np.abs(g) * high + high**2 + ulp) * ulp / 2 + ulp + 1e-12
    ends = np.sort([-0.5 * g * low**3, -0.5 * g * high**3], axis=0)
    assert (got >= ends[0] - slack).all()
    assert (got <= ends[1] + slack).all()
    narrow = ends[1] - ends[0] + 2 * slack < 0.01 * np.abs(0.5 * g * high**3)
    assert narrow.mean() > 0.3


@presets
@pytest.mark.parametrize("max_norm", [1.0, 0.25, 0.1, 7.7])
def test_clip_factor(crypten_arena: CrypTenArena, frac_bits: int, max_norm: float):
    # The ratio x / C^2 is rounded up, by 2^-9 of itself and two ulp at most.
    ulp, plan = 2.0**-frac_bits, ClipPlan(frac_bits=frac_bits)
    lengths = np.concatenate([[0.0, 0.5, 0.998, 1.0, 1.001], np.linspace(0.01, 250.0, 2000)])
    x = encode((lengths * max_norm) ** 2, frac_bits)
    answer = call(crypten_arena, "clip_factor", x, frac_bits, max_norm=max_norm)
    assert not answer["differentiable"]
    factor, ratio = decode(answer["result"], frac_bits), decode(x, frac_bits) / max_norm**2
    assert (factor <= np.minimum(1.0, 1 / np.sqrt(np.maximum(ratio, ulp))) * (1 + 1e-14)).all()
    largest = ratio * (1 + 2.0**-9) + 2 * ulp
    assert (factor[largest < 1] == 1.0).all()
    over = (largest >= 1) & (largest < 2.0**plan.range_bits)
    assert (factor >= 0.993 / np.sqrt(largest) - 2 * ulp)[over].all()
    assert over.sum() > 1500
    end = math.ceil(max_norm**2 * 2.0 ** (plan.range_bits + frac_bits))
    wild = np.array([-math.ceil(3 * max_norm**2), -(1 << 40), end, 2 * end])
    assert not call(crypten_arena, "clip_factor", wild, frac_bits, max_norm=max_norm)[
        "result"
    ].any()


@presets
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 7.7])
def test_clip_by_norm_of_matrices(crypten_arena: CrypTenArena, frac_bits: int, max_norm: float):
    x, lengths = rows_of(max_norm, frac_bits)
    answer = call(crypten_arena, "clip_by_norm", x, frac_bits, max_norm=max_norm)
    assert not answer["differentiable"]
    assert_clipped(answer["result"], max_norm, frac_bits)
    np.testing.assert_array_equal(answer["result"][lengths <= 0.998], x[lengths <= 0.998])
    assert not answer["result"][lengths > 256].any()


@presets
@pytest.mark.parametrize("max_norm", [1.0, 7.7])
def test_clip_by_norm_of_vectors_and_cubes(
    crypten_arena: CrypTenArena, frac_bits: int, max_norm: float
):
    rows, lengths = rows_of(max_norm, frac_bits)
    long = rows[lengths == 4.0][-1]
    clipped = call(crypten_arena, "clip_by_norm", long, frac_bits, max_norm=max_norm)["result"]
    assert clipped.shape == long.shape
    assert_clipped(clipped[None], max_norm, frac_bits)
    assert np.linalg.norm(decode(clipped, frac_bits)) >= 0.99 * max_norm - 12**0.5 * 2.0**-frac_bits
    cube = rows.reshape(-1, 3, 4)
    clipped = call(crypten_arena, "clip_by_norm", cube, frac_bits, max_norm=max_norm)["result"]
    assert clipped.shape == cube.shape
    assert_clipped(clipped.reshape(len(cube), -1), max_norm, frac_bits)
    np.testing.assert_array_equal(clipped[lengths <= 0.998], cube[lengths <= 0.998])


@pytest.mark.parametrize(("frac_bits", "classes"), [(16, 7), (20, 7), (20, 70)])
def test_count_correct(crypten_arena: CrypTenArena, frac_bits: int, classes: int):
    # One ulp of slack: a logit that exceeds the true class's by two ulp makes the row wrong.
    logits = encode(np.random.default_rng(8).normal(0, 2, (50, classes)), frac_bits)
    true = np.arange(50) % 6
    logits[np.arange(50), true] += 1 << frac_bits
    own = logits[np.arange(50), true]
    logits[:5, 6], logits[5:10, 6] = own[:5] + 2, own[5:10] - 1
    wrong = (logits > own[:, None] + 1).any(axis=1)
    targets = np.eye(classes, dtype=np.int64)[true] << frac_bits
    answers = crypten_arena.run(
        "count_correct", logits=logits, targets=targets, frac_bits=frac_bits
    )
    assert [correct for correct, _ in answers] == [50 - wrong.sum()] * crypten_arena.parties
