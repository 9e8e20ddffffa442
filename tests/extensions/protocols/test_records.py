"""What is public of parties' records: shapes, the rows that batches need, parts of a block."""

from dataclasses import replace

import pytest
from scipy.special import bdtrc

from extensions.protocols.records import BLOCK, COMPARED, Records, blocks_for, exchange_public
from extensions.public import Public
from extensions.runs.config import TrainConfig
from tests.helpers.refused import refused

CONFIG = TrainConfig(
    backend="clear", parties=2, classes=2, noise_multiplier=1.0, delta=1e-5, sample_rate=0.25,
    steps=40, rows_per_unit=3,
)  # fmt: skip


def test_the_shape_of_a_record_has_its_channels_first():
    assert Public(features=12).shape == (12,)
    assert Public(features=12, width=4).shape == (3, 4)
    assert Public(features=12, width=3, height=2).shape == (2, 2, 3)


def test_all_steps_together_exceed_the_rows_with_the_stated_probability():
    """Each step of each party has its part, and a row less would not do."""
    sizes = 200, 900
    rows = Records((), sizes, 4).rows(CONFIG)
    each = CONFIG.overflow_probability / (40 * 2)
    for size, padded in zip(sizes, rows, strict=True):
        assert padded % 3 == 0
        fit = padded // 3
        assert bdtrc(fit, size, 0.25) <= each < bdtrc(fit - 1, size, 0.25)
    assert Records((), sizes, 4).padding(CONFIG) == pytest.approx(1 - 275 / sum(rows))


def test_every_piece_has_equally_many_rows_of_each_party():
    records, config = Records((), (200, 900), 4), replace(CONFIG, physical_rows=100)
    pieces = records.pieces(config)
    whole = records.rows(CONFIG)
    assert records.pieces(CONFIG) == 1
    assert pieces > 1
    for padded, needed in zip(records.rows(config), whole, strict=True):
        assert padded % pieces == 0
        assert needed <= padded < needed + pieces


@pytest.mark.parametrize(
    ("sizes", "features", "comparisons", "blocks"),
    [
        ((10, 10), 1, 1, 1),
        ((2, 3), BLOCK, 0, 3),
        ((5, 4), BLOCK // 2, 1, 5),
        ((9, 4), BLOCK // 4, 1, 4),
        ((100, 1), 1, COMPARED // 25, 5),
        ((1, 1), BLOCK, COMPARED, 1),
    ],
)
def test_records_are_computed_in_as_many_parts_as_memory_needs(
    sizes, features, comparisons, blocks
):
    assert blocks_for(sizes, features, comparisons) == blocks


@pytest.mark.parametrize(
    ("other", "argument", "value"),
    [
        (Public(5, 11, 2), "x", "rows of [11, 12] features"),
        (Public(5, 12, 2, width=4), "x", "records of shapes [(3, 4), (12,)]"),
        (Public(5, 12, 3, 2), "y", "labels for [2, 3] classes"),
    ],
)
def test_records_of_other_widths_or_targets_are_refused(other, argument, value):
    own = Public(7, 12, 2, 2)
    with refused(argument, value=value, code="shape"):
        exchange_public(lambda rows: rows, [own, other])
    nobody = replace(other, records=0, classes=2)
    assert exchange_public(lambda rows: rows, [own, nobody]) == [own, nobody]
