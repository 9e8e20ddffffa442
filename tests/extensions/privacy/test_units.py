"""What protects a person with several records: they are drawn together, each clipped to C / k."""

import numpy as np
import pytest

from extensions.layers.passes import forward
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords, capacity, check_records, draw_rows
from extensions.privacy.units import by_unit
from extensions.protocols.dpsgd import clipped_sums
from extensions.protocols.optimizer import rule_of
from extensions.protocols.records import Records
from extensions.protocols.settings import account
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from extensions.runs.config import TrainConfig
from extensions.runs.outputs import account_for_count
from tests.helpers.claims import claim
from tests.helpers.refused import refused

BITS = 20
K = 3
WHO = np.array([7, 7, 4, 9, 7, 4])
"""Three persons with three, two and one records."""
CONFIG = TrainConfig(
    backend="clear", parties=1, classes=2, noise_multiplier=1.5, delta=1e-5, sample_rate=0.5,
    max_grad_norm=0.6, rows_per_unit=K, frac_bits=BITS,
)  # fmt: skip


def records(people: np.ndarray = WHO, seed: int = 0) -> OwnRecords:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(len(people), 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return check_records(
        x, draw.integers(0, 2, len(people)), frac_bits=BITS, classes=2, max_feature_norm=1.0
    )


def test_records_of_a_person_stand_together_and_how_many_is_hidden():
    flat = records()
    own = by_unit(flat, WHO, K)
    assert (len(own), own.features.shape, own.empty.tolist()) == (
        3,
        (9, 4),
        [0, 0, 1, 0, 0, 0, 0, 1, 1],
    )
    for rows, people in (((0, 1), 4), ((3, 4, 5), 7), ((6,), 9)):
        np.testing.assert_array_equal(own.features[list(rows)], flat.features[people == WHO])
        np.testing.assert_array_equal(own.labels[list(rows)], flat.labels[people == WHO])
    assert not own.features[own.empty == 1].any()
    assert not own.labels[own.empty == 1].any()
    sizes = Records([own], (3,), 4).rows(CONFIG)
    each = CONFIG.overflow_probability / CONFIG.steps
    assert sizes == [K * capacity(3, CONFIG.sample_rate, each)]


@pytest.mark.parametrize(
    ("units", "code", "value"),
    [(np.zeros(6, dtype=np.int64), "data", "a person with 6 records"), (WHO[:5], "shape", (5,))],
)
def test_more_records_than_k_are_refused(units, code, value):
    with refused("units", code, value):
        by_unit(records(), units, K)


def people_of(own: OwnRecords) -> list[set[bytes]]:
    """Returns the records of each person."""
    rows = own.features.reshape(len(own), K, -1)
    return [
        {row.tobytes() for row in person[empty == 0]}
        for person, empty in zip(rows, own.empty.reshape(-1, K), strict=True)
    ]


def drawn(own: OwnRecords, rate: float, rows: int) -> set[bytes]:
    """Returns the records in a fresh sample."""
    sample = draw_rows(own, party=0, sample_rate=rate, rows=rows, source=SystemSource())
    return {row.tobytes() for row in sample.x[sample.padding == 0]}


def test_a_person_is_drawn_with_all_records_or_with_none():
    own, seen = by_unit(records(), WHO, K), set()
    for _ in range(200):
        sample = drawn(own, 0.5, 9)
        there = [person <= sample for person in people_of(own)]
        whole = [person for person in people_of(own) if person <= sample]
        assert sample == set().union(*whole)
        seen.add(tuple(there))
    assert len(seen) == 8  # misses one of them with probability below 8 (7/8)^200 < 2.1e-11


def test_what_overflows_is_a_whole_person():
    own = by_unit(records(), WHO, K)
    for _ in range(20):
        sample = drawn(own, 1.0, 6)
        there = [person for person in people_of(own) if person <= sample]
        assert len(there) == 2
        assert set().union(*there) == sample


def clipped(own: OwnRecords, config: TrainConfig) -> np.ndarray:
    """Returns the clipped sum over all records of a model with large weights."""
    ring = ClearRing(BITS, parties=1, rounding="extreme")
    network = config.network(4)
    rows = draw_rows(own, party=0, sample_rate=1.0, rows=len(own.features), source=SystemSource())
    weight = encode(np.array([[9.0, -7, 5, 3], [-4, 8, -6, 2]]), BITS)
    trace = forward(ring, network, [(weight, encode(np.array([0.5, -0.5]), BITS))], rows.x)
    plan = rule_of(config, network, len(rows.x), len(own)).plan
    layers = trace.backward(rows.y, rows.squared_norms)
    ((weights, biases),) = clipped_sums(ring, layers, plan, rows.padding)
    return decode(np.concatenate([weights.reshape(-1), biases]), BITS + plan.factor_bits)


def without(own: OwnRecords, person: int) -> OwnRecords:
    """Returns the records of everybody else."""
    stays = person != WHO
    return OwnRecords(features=own.features[stays], labels=own.labels[stays], frac_bits=BITS)


@claim("A step's sum moves by at most C (1 + eta) with a person.")
def test_a_person_moves_the_clipped_sum_by_at_most_the_bound():
    """Whoever leaves, with however many records up to k; with C a record it would be up to k C."""
    bound, loosest, one_record = CONFIG.max_grad_norm, 0.0, 0.0
    for seed in range(20):
        flat = records(seed=seed)
        whole = clipped(by_unit(flat, WHO, K), CONFIG)
        for person in (4, 7, 9):
            rest = by_unit(without(flat, person), WHO[person != WHO], K)
            moved = float(np.linalg.norm(whole - clipped(rest, CONFIG)))
            assert moved <= bound * (1 + 1e-4)
            loosest = max(loosest, moved)
        unprotected = TrainConfig(**CONFIG.to_dict() | {"rows_per_unit": 1})
        once = clipped(flat, unprotected) - clipped(without(flat, 7), unprotected)
        one_record = max(one_record, float(np.linalg.norm(once)))
    assert loosest > 0.75 * bound
    assert one_record > 1.5 * bound  # what the test would see without any of it


@pytest.mark.parametrize("k", [1, 2, 5])
def test_noise_is_that_of_a_person(k):
    """The ledger's noise multiplier is over C; rows are clipped to C / k, so that k is made up."""
    config = TrainConfig(**CONFIG.to_dict() | {"rows_per_unit": k})
    plan = rule_of(config, config.network(4), 12, 4.0).plan
    assert plan.max_grad_norm * k == pytest.approx(0.6)
    assert plan.sigma == pytest.approx(1.5 * 0.6 * (1 + plan.eta))
    ledger = Ledger()
    account(ledger, "training", config, 3)
    once = Ledger()
    account(once, "training", TrainConfig(**CONFIG.to_dict() | {"rows_per_unit": 1}), 3)
    assert ledger.get_epsilon(1e-5) == once.get_epsilon(1e-5)


class Quiet:
    @staticmethod
    def noise_failure(parameters: int) -> float:
        return 0.0


def test_a_noised_count_costs_a_person_more_than_a_record():
    spent = []
    for k in (1, 4):
        ledger = Ledger()
        settings = CONFIG.to_dict() | {"evaluate": "noisy", "count_noise": 8.0, "rows_per_unit": k}
        account_for_count(ledger, Quiet(), TrainConfig(**settings))
        spent.append(ledger.get_epsilon(1e-5))
    ledger = Ledger()
    ledger.record("2 of noise", noise_multiplier=2.0, sample_rate=1.0, steps=1)
    assert spent[1] == pytest.approx(ledger.get_epsilon(1e-5))
    assert spent[0] < spent[1]
