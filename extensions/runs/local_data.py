"""What a program has of its owners: records, checked and encoded, and what each learns alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from extensions.data.datasets import Labels, Split, has_labels
from extensions.errors import ArgumentError
from extensions.layers.tally import check_number
from extensions.privacy.sampling import OwnRecords, check_labels, check_records, encode_targets
from extensions.privacy.units import by_unit
from extensions.protocols import pea
from extensions.protocols.host import Arrays, Host
from extensions.protocols.initialization import encode_model
from extensions.protocols.noisy_sums.second_moment import check_size
from extensions.protocols.noisy_sums.statistics import check_targets
from extensions.ring.fixed_point import Reals
from extensions.runs.config import TrainConfig
from extensions.runs.local_training import account_for_start, train_locally


def local_data(
    host: Host, config: TrainConfig, parts: Sequence[Split], local_steps: int | None = None
) -> pea.LocalData:
    """Returns what a program has of its owners, checked and encoded, of each rank of the host.

    `local_steps` of a rehearsal take the place of `config.init_steps`.
    """
    train, held_out, problem = [], [], None
    for rank, part in zip(host.ranks, parts, strict=True):
        try:
            own, others = encoded(part, config)
            train.append(own)
            held_out.append(others)
        except ArgumentError as error:
            error.add_note(f"These are the records of party {rank}.")
            train, held_out, problem = [], [], error
            break

    def learn(rank: int, own: OwnRecords) -> Arrays:
        local = train_locally(config, own, owner=rank, source=host.noise, steps=local_steps)
        return encode_model(local, config.frac_bits)

    return pea.LocalData(
        train=train,
        held_out=held_out,
        problem=problem,
        learn=learn,
        account=lambda ledger: account_for_start(ledger, config),
    )


def encoded(part: Split, config: TrainConfig) -> tuple[OwnRecords, OwnRecords]:
    """Returns one owner's records to train on, and those held out, checked and encoded."""
    if config.whiten:
        check_size(len(part.train_x), part.train_x.shape[1])
    if config.grid is not None:
        placed = in_cells(part.train_x, part.train_y, config)
        return _by_unit(placed, part, config), in_cells(part.test_x, part.test_y, config)
    if config.encoder is not None:
        read = as_read(part.train_x, part.train_y, config)
        return _by_unit(read, part, config), as_read(part.test_x, part.test_y, config)
    records = checked_records(part.train_x, part.train_y, config)
    if config.one_output:
        records = replace(records, labels=records.labels[:, 1:])
    if config.method == "statistics":
        check_targets(records)
    held_out = held_out_records(part.test_x, part.test_y, config)
    return _by_unit(records, part, config), held_out


def _by_unit(records: OwnRecords, part: Split, config: TrainConfig) -> OwnRecords:
    """The records as they are drawn: those of a person together, if any may have several."""
    if part.train_units is None and config.rows_per_unit == 1:
        return records
    if part.train_units is None:
        advice = "Read the table with its {schema}."
        allowed = "because a person may have several records"
        raise ArgumentError("train_units", None, allowed, advice, code="missing")
    return by_unit(records, part.train_units, config.rows_per_unit)


def checked_records(x: Reals, y: Labels, config: TrainConfig) -> OwnRecords:
    """Returns one owner's records, checked and encoded; of a part of the columns, scaled to it."""
    if config.split == "columns":
        x = x * (config.own_norm / config.max_feature_norm)
    return check_records(
        x,
        y,
        frac_bits=config.frac_bits,
        classes=config.classes if has_labels(y) or config.split == "rows" else 0,
        max_feature_norm=config.own_norm,
    )


def in_cells(x: Reals, y: Labels, config: TrainConfig) -> OwnRecords:
    """Returns one owner's records as cells of an additive model's columns; there may be none."""
    assert config.grid is not None
    check_number(len(x), config.parties)
    return OwnRecords(
        features=config.grid.place(x),
        labels=encode_targets(y, len(x), frac_bits=config.frac_bits, classes=config.classes),
        frac_bits=config.frac_bits,
    )


def as_read(x: Reals, y: Labels, config: TrainConfig) -> OwnRecords:
    """Returns one owner's records as an encoder reads them; there may be none held out."""
    assert config.encoder is not None
    if len(x):
        config.encoder.check(x)
    return OwnRecords(
        features=x.astype(np.int64),
        labels=encode_targets(y, len(x), frac_bits=config.frac_bits, classes=config.classes),
        frac_bits=config.frac_bits,
    )


def held_out_records(x: Reals, y: Labels, config: TrainConfig) -> OwnRecords:
    """Returns one owner's held-out records, checked and encoded; there may be none."""
    if len(x):
        check_number(len(x), config.parties)
        return checked_records(x, y, config)
    return OwnRecords.none(x.shape[1], config.classes * has_labels(y), config.frac_bits)


def check_classes(config: TrainConfig, parts: Sequence[Split], *, of_all: bool = False) -> None:
    """Checks that there is something to learn: classes, of which training has more than one.

    Numbers, with one class, are not classes. Of several parties one may have a single class, but
    not all together.
    """
    if config.classes < 2:
        return
    parts = [part for part in parts if has_labels(part.train_y)]
    for part in parts:
        check_labels(part.train_y, config.classes)
        check_labels(part.test_y, config.classes)
    if not of_all:
        return
    found = np.unique(np.concatenate([part.train_y for part in parts]))
    if len(found) < 2:
        raise ArgumentError(
            "labels", found.tolist(), "of two classes at least", "Training needs two or more."
        )
