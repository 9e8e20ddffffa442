"""Releases with delta 0 together: no more than their sum, and exactly what bits of them tell."""

import itertools
import math
from fractions import Fraction

import pytest
from dp_accounting.pld import common, privacy_loss_distribution

import fl
from fl.privacy.ledgers import composed_epsilon
from fl.protocols import ClientLedgers, Round


def spent(epsilon: float, releases: int, bound: float) -> float:
    """Returns delta at a bound, summed over all outcomes of so many bits."""
    right = 1 / (1 + math.exp(-epsilon))
    total = 0.0
    for bits in itertools.product((0, 1), repeat=releases):
        one = math.prod(right if bit else 1 - right for bit in bits)
        other = math.prod(1 - right if bit else right for bit in bits)
        total += max(0.0, one - math.exp(bound) * other)
    return total


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("releases", [1, 2, 5, 9])
@pytest.mark.parametrize("delta", [1e-1, 1e-3, 1e-9])
def test_epsilon_is_the_least_for_which_all_outcomes_stay_below_delta(epsilon, releases, delta):
    found = composed_epsilon(epsilon, releases, delta)
    assert found <= releases * epsilon
    assert spent(epsilon, releases, found) <= delta
    less = found - 1e-5 * found
    assert less <= 0 or spent(epsilon, releases, less) > delta * (1 - 1e-4)


def test_a_hundred_releases_of_a_tenth_cost_4_3_at_1e_5_and_not_10():
    """The accountant of pairs, whose grid is coarser, is close from above."""
    found = composed_epsilon(0.1, 100, 1e-5)
    assert 4.29 < found < 4.32
    one = common.DifferentialPrivacyParameters(0.1, 0.0)
    bits = privacy_loss_distribution.from_privacy_parameters(
        one, value_discretization_interval=1e-3
    )
    assert found <= bits.self_compose(100).get_epsilon_for_delta(1e-5) + 1e-6 < found + 0.11


@pytest.mark.parametrize("epsilon", [1e-6, 100.0])
@pytest.mark.parametrize("releases", [1, 1000, 100_000])
def test_extremes_lie_between_0_and_the_sum(epsilon, releases):
    found = composed_epsilon(epsilon, releases, 1e-5)
    assert 0.0 <= found <= releases * epsilon * (1 + 1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        fl.LocalDP(epsilon=0.1, clip=1.0, noise="laplace"),
        fl.SignDS(sign_k=0.25, sign_eps=0.1),
    ],
)
def test_rounds_of_laplace_noise_and_of_signs_are_composed_so(mechanism):
    for number in range(1, 101):
        mechanism.charge(Round(number=number, size=650, weights={0: 1, 1: 1}), 2)
    mechanism.charge(Round(number=101, size=650, weights={0: 1}), 2)
    ledgers = mechanism.ledger
    assert ledgers.of(1).get_epsilon(1e-5) == composed_epsilon(0.1, 100, 1e-5)
    assert ledgers.get_epsilon(1e-5) == composed_epsilon(0.1, 101, 1e-5)
    assert ledgers.get_epsilon(1e-5, "rdp") == pytest.approx(float(Fraction(101, 10)))
    again = ClientLedgers.from_json(ledgers.to_json())
    assert again.get_epsilon(1e-5) == ledgers.get_epsilon(1e-5)


def test_ledger_with_anything_else_adds_epsilons():
    ledger = ClientLedgers().of(0)
    for epsilon in (0.1, 0.1, 0.2):
        ledger.charge("update", epsilon=epsilon, delta=0.0)
    assert ledger.get_epsilon(1e-5) == pytest.approx(0.4)
    other = ClientLedgers().of(0)
    for _ in range(2):
        other.charge("update", epsilon=0.1, delta=1e-6)
    assert other.get_epsilon(1e-5) == pytest.approx(0.2)
