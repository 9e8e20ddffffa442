"""Columns of the same records: blocks are the whole, and a person moves sums no further."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import Batch, OwnRecords
from extensions.protocols.dpsgd import parts_of
from extensions.protocols.noisy_sums import second_moment
from extensions.protocols.noisy_sums.whitening import WHITENING, own_whitening
from extensions.protocols.pea import RunCallbacks
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.helpers.claims import claim
from tests.helpers.refused import refused
from tests.helpers.toy_ext.host import ToyHost

F = 20
DELTA = 1e-5


def owners(*blocks: Any, labels: Any = None) -> list[OwnRecords]:
    """Owners of blocks of features, of whom the second has labels."""
    rows = len(blocks[0])
    y = np.zeros((rows, 2), dtype=np.int64) if labels is None else labels
    none = np.zeros((rows, 0), dtype=np.int64)
    return [
        OwnRecords(features=block, labels=y if rank == 1 else none, frac_bits=F)
        for rank, block in enumerate(blocks)
    ]


def agreed(own: list[OwnRecords]) -> Records:
    return Records.agreed(lambda words: words, own, split="columns")


@pytest.mark.parametrize("widths", [(1, 4), (3, 1, 2)])
def test_blocks_make_the_whole_rows_and_their_exact_norms(widths):
    draws = np.random.default_rng(len(widths))
    x = draws.integers(-(2**26), 2**26, (9, sum(widths)))
    y = draws.integers(0, 2**F, (9, 2))
    ends = np.cumsum(widths)[:-1]
    records = agreed(owners(*np.split(x, ends, axis=1), labels=y))
    assert (records.sizes, records.widths, records.features) == ((9,), widths, sum(widths))
    host = ToyHost(F, len(widths), SystemSource())
    batch = records.blocks(host).shared(host)
    norms = np.array([sum(int(value) ** 2 for value in row) for row in x.tolist()])
    for share, whole in ((batch.x, x), (batch.y, y), (batch.squared_norms, norms)):
        np.testing.assert_array_equal(host.ring.open_sum([share])[0], whole)
    assert batch.padding is None


def test_parties_whose_records_do_not_go_together_are_refused():
    one, other = np.zeros((4, 2), dtype=np.int64), np.zeros((5, 1), dtype=np.int64)
    with refused("records", "value", "4 at party 0, 5 at party 1"):
        agreed([*owners(one, one)[:1], *owners(other, other)[1:]])
    for count, own in ((0, owners(one, one)[:1] * 2), (2, owners(one, one)[1:] * 2)):
        given = "at parties [0, 1]" if count else "at no party"
        with refused("labels", "data", given):
            agreed(own)


VALUES = (-1.0, 0.0, 0.5, 1.0)
CONFIG = TrainConfig(
    split="columns",
    parties=2,
    classes=2,
    one_output=True,
    steps=1,
    sample_rate=1.0,
    max_grad_norm=0.25,
    noise_multiplier=1.0,
    delta=DELTA,
    bias_scale=0.25,
)


def every_person() -> list[OwnRecords]:
    """Persons with all pairs of values of two owners' columns and both labels."""
    bound = CONFIG.own_norm
    table = np.array([*product(VALUES, VALUES, (0.0, 1.0))])
    first, second = (encode(table[:, [i]] * bound, F) for i in (0, 1))
    return owners(first, second, labels=encode(table[:, [2]], F))


@pytest.mark.parametrize("rounding", ["floor", "ceiling", "extreme"])
def test_a_person_replaced_or_nulled_moves_clipped_sums_no_further_than_is_accounted(rounding):
    """Of every person and every other, for models that saturate and one that does not."""
    records = agreed(every_person())
    step = Step.of(CONFIG, records)
    ring = ClearRing(F, parties=2, rounding=rounding, seed=3)
    host = ClearHost(F, parties=2, owners=2, source=SystemSource())
    batch = records.blocks(host).shared(host)
    bound, alone, apart = 0.25 * (1 + step.plan.eta), [], []
    for weights in ((0.0, 0.0), (9.0, -9.0), (-7.0, -8.0)):
        model = [(encode(np.array([weights]), F), encode(np.array([0.5]), F))]
        sums = np.array([_sum(step, ring, model, batch, i) for i in range(records.sizes[0])])
        alone.append(np.linalg.norm(sums, axis=1).max())
        apart.append(np.linalg.norm(sums[:, None] - sums[None], axis=2).max())
    assert max(alone) <= bound
    assert max(apart) <= 2 * bound
    assert max(apart) > 1.9 * 0.25, "which two persons nearly reach"


def _sum(step: Step, ring: ClearRing, model: Any, batch: Batch, row: int) -> Any:
    parts = parts_of(step.clipped(ring, model, batch.part(slice(row, row + 1))))
    bits = F + step.plan.factor_bits
    return np.concatenate([decode(part, bits).reshape(-1) for part in parts])


def test_a_person_replaced_or_nulled_moves_an_owners_gram_matrix_by_root_two_or_one():
    draws = np.random.default_rng(1)
    rows = np.vstack([draws.normal(size=(40, 3)), np.eye(3), -np.eye(3), np.zeros((1, 3))])
    units = second_moment.unit_rows(np.rint(rows * 2.0**F).astype(np.int64), 2.0**F / 9)
    vectors = []
    for row in units:
        diagonal, upper = second_moment.pack(second_moment.second_moment(row[None]))
        vectors.append(np.concatenate([diagonal, math.sqrt(2) * upper]) / 4.0**18)
    found = np.array(vectors)
    assert np.linalg.norm(found, axis=1).max() <= 1.0
    apart = np.linalg.norm(found[:, None] - found[None], axis=2).max()
    assert 1.41 < apart <= math.sqrt(2)


class ClosedHost(ClearHost):
    """One that opens nothing."""

    def open(self, summands: Any) -> Any:
        raise AssertionError("something is opened")


def test_an_owner_adds_all_of_the_noise_of_its_own_map_which_nobody_sees():
    """1,953 squares of variance 2 each are within six deviations but with probability 1e-8."""
    blocks = [np.zeros((2, 63), dtype=np.int64)] * 3
    records = agreed(owners(*blocks))
    host = ClosedHost(F, parties=3, owners=3, source=SystemSource())
    maps = own_whitening(host, RunCallbacks(host), records, own_norm=0.5, noise_multiplier=4.0)
    assert len({whitening.digest for whitening in maps}) == 3
    for whitening in maps:
        values = whitening.parts[1] / (4.0**second_moment.FRAC_BITS * math.sqrt(3) * 4.0)
        assert abs(2 * float((values**2).mean()) - 1.0) < 6 * math.sqrt(2 / values.size)


@claim(
    "Each of m maps has noise sqrt(m) z, and together they cost a person "
    "what one sum of noise z does."
)
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_the_maps_of_all_owners_cost_a_person_what_one_of_that_noise_costs(parties):
    every, one = Ledger(), Ledger()
    for rank in range(parties):
        noise = math.sqrt(parties) * 4.0
        every.record(f"map {rank}", noise_multiplier=noise, sample_rate=1.0, steps=1)
    one.record(WHITENING, noise_multiplier=4.0, sample_rate=1.0, steps=1)
    for neighbours in ("add-remove", "replace"):
        found = every.get_epsilon(DELTA, neighbours=neighbours)
        assert found == pytest.approx(one.get_epsilon(DELTA, neighbours=neighbours), rel=2e-3)
