"""A linear model from noisy sums over all records, opened once: products, and what labels add.

With rows x of norm at most 1, K one-hot labels y and a weight b the vector of one record is

    (the upper triangle of x x^T, off its diagonal times sqrt(2);  b x (x) (y - 1/K)),

of squared norm |x|^4 + b^2 |x|^2 |y - 1/K|^2 <= 1 + b^2 (1 - 1/K), for probabilities instead of
one-hot labels too; for one target in [0, 1], with y - 1/2, of 1 + b^2 / 4. All of it is integers: x
as in `extensions.protocols.noisy_sums.second_moment`, and labels as K y - 1, with K = 2 for a
single target.
"""

import math
from collections.abc import Sequence

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import Host, share_public
from extensions.protocols.noisy_sums.noisy_sum import noisy_sum
from extensions.protocols.noisy_sums.second_moment import (
    FRAC_BITS,
    check_size,
    noise_norm,
    pack,
    second_moment,
    unit_rows,
    unpack,
)
from extensions.protocols.noisy_sums.second_moment import sigmas as sigmas_of_gram
from extensions.protocols.optimizer import State
from extensions.protocols.pea import RunCallbacks
from extensions.protocols.records import Records
from extensions.protocols.settings import TRAINING, Training, account
from extensions.ring.fixed_point import SAFE_BITS, Integers, Reals, encode
from extensions.ring.integer_matmul import matmul
from extensions.rules import Whole

RELEASE = "statistics"
LABELS_WEIGHT = 0.7
"""The weight b of what labels add beside products of features."""
DAMPING = 0.175
"""lambda over the norm of the noise in the products: 25, 48 and 91 with MNIST's 60,000 records of
1,024 columns at epsilon 2, 1 and 0.5, where 30, 50 and 80 were found best."""


def levels(classes: int) -> int:
    """Returns K: into how many parts labels divide 1; 2 for a single target."""
    return max(2, classes)


def sensitivity(classes: int, rows_per_unit: int = 1) -> float:
    """Returns how far all sums move at most with a record, or a person, that is there or not.

    With one that is another they move by less than twice that, which ledgers reckon with.
    """
    spread = 1.0 - 1.0 / classes if classes > 1 else 0.25
    return rows_per_unit * math.sqrt(1.0 + LABELS_WEIGHT**2 * spread)


def check_targets(records: OwnRecords) -> None:
    """Checks that the targets are labels, probabilities or of a single output."""
    classes = records.labels.shape[1]
    if classes == 1 or not len(records.labels):
        return
    wrong = np.abs(records.labels.sum(axis=1) - (1 << records.frac_bits)) > classes
    if records.empty is not None:
        wrong &= records.empty == 0
    if wrong.any():
        raise ArgumentError(
            "labels",
            f"the targets of {int(wrong.sum())} records",
            "labels, or probabilities that add up to 1, with {method=statistics}",
            "Other targets would move the sums beyond their bound.",
            code="data",
        )


def centred_labels(records: OwnRecords) -> Integers:
    """Returns K y - 1, `FRAC_BITS` fractional bits, (rows, classes).

    Guarantees:
        Rows of several classes are those of probabilities that add up to 1 exactly: what rounding
        left is added to the largest. So their norm is at most K sqrt(1 - 1/K).
    """
    labels = records.labels
    shift = records.frac_bits - FRAC_BITS
    scaled = labels >> shift if shift >= 0 else labels << -shift
    one, classes = 1 << FRAC_BITS, labels.shape[1]
    if classes > 1 and len(labels):
        scaled = scaled.copy()
        largest = (np.arange(len(labels)), scaled.argmax(axis=1))
        scaled[largest] += one - scaled.sum(axis=1)
    centred: Integers = levels(classes) * scaled - one
    return centred


def own_statistics(records: OwnRecords, max_feature_norm: float) -> list[Integers]:
    """Returns an owner's sums: diagonal, triangle, and features with labels, (features, classes).

    Rows are taken over `max_feature_norm`; sums have 2 `FRAC_BITS` fractional bits. Empty rows,
    whose features are zero, add nothing.
    """
    rows = unit_rows(records.features, math.ldexp(max_feature_norm, records.frac_bits))
    return [*pack(second_moment(rows)), matmul(rows.T, centred_labels(records))]


def sigmas(sigma: float, classes: int) -> list[float]:
    """Returns the deviations of the noise of each of `own_statistics`, of sigma on the vector."""
    return [*sigmas_of_gram(sigma), sigma * levels(classes) / LABELS_WEIGHT]


def fitted(opened: Sequence[Integers], damping: float) -> Reals:
    """Returns the weight, (classes, features), that goes with noisy sums over all records.

    V diag((e^2 + lambda^2)^(-1/2)) V^T times the sums of x (x) (y - 1/K), where V diag(e) V^T are
    the noisy products and lambda is the damping: ridge regression whose inverse noise cannot blow
    up.
    """
    *products, labels = opened
    values, vectors = np.linalg.eigh(unpack(products))
    sums = np.ldexp(labels.astype(np.float64), -2 * FRAC_BITS) / levels(labels.shape[1])
    scaled = (vectors.T @ sums) / np.hypot(values, damping)[:, None]
    weight: Reals = (vectors @ scaled).T
    return weight


def damping_of(config: Training, features: int) -> float:
    """Returns lambda: a part of the norm that the noise has in the products, at least 1."""
    norm = noise_norm(_sigma(config), features, parties=config.parties, split=config)
    return max(1.0, DAMPING * norm)


def check_statistics(config: Training, records: Records) -> None:
    """Checks that the sums are exact in the ring, with noise."""
    total = config.rows_per_unit * sum(records.sizes)
    check_size(total, records.features)
    most = (1 << (SAFE_BITS - 1 - 2 * FRAC_BITS)) // config.classes
    Whole(0, most, f"at most {most} of all parties").check("records", total)


def fit(
    config: Training,
    host: Host,
    records: Records,
    state: State,
    ledger: Ledger,
    callbacks: RunCallbacks,
) -> Parameters:
    """Returns the linear model of noisy sums over all owners' records; it is public.

    Args:
        config: equal at all parties; with one step, in which all records take part.
        state: to start from, of which no use is made but by a run that goes on after its end.

    Guarantees:
        What is opened is a Gaussian mechanism of `sensitivity`, in integers; the model is
        post-processing. Against all other parties together an owner has its own summand of the
        noise alone. The eigenvectors are found in floating point: all take those of party 0.

    Cost:
        One round, in which an owner sends half a matrix of (features, features) and one of
        (features, classes), 8 bytes an entry, to each other party; memory of a few such matrices.

    Source:
        Vu and Slavkovic, ICDM Workshops 2009; Wang, UAI 2018 (sufficient statistics).
    """
    callbacks.begin(records)
    own = dict(zip(host.ranks, records.own, strict=True))
    for number in callbacks.steps(config):
        opened = noisy_sum(
            host,
            callbacks,
            RELEASE,
            lambda rank: own_statistics(own[rank], config.max_feature_norm),
            sigmas(_sigma(config), config.classes),
            frac_bits=2 * FRAC_BITS,
            split=config,
        )
        weight = fitted(opened, damping_of(config, records.features)) / config.max_feature_norm
        bias = np.zeros(config.classes)
        parts = [encode(part, config.frac_bits) for part in (weight, bias)]
        state = State(share_public(host, parts))
        account(ledger, TRAINING, config, 1)
        callbacks(number, state, ledger)
    return state.model


def _sigma(config: Training) -> float:
    """Deviation of the noise on a record's vector."""
    return config.noise * sensitivity(config.classes, config.rows_per_unit)
