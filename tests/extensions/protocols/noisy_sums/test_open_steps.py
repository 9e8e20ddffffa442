"""Open iterates: the sums of hidden PEA, bit for bit, with the bound and the noise it accounts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from extensions.layers.passes import Parameters
from extensions.privacy.accounting import Ledger
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import check_records
from extensions.privacy.units import by_unit
from extensions.protocols import pea
from extensions.protocols.host import flat, pairs
from extensions.protocols.noise import party_variance
from extensions.protocols.noisy_sums.open_steps import descend_openly
from extensions.protocols.optimizer import State
from extensions.protocols.pea import RunCallbacks, public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Integers
from extensions.runs.clear_host import ClearHost
from extensions.runs.config import TrainConfig
from tests.helpers.claims import claim
from tests.helpers.strategies import ALARM, count_p_value, squared_length, variance_p_value

FEATURES, CLASSES = 6, 3
CONFIG = TrainConfig(
    backend="clear",
    classes=CLASSES,
    steps=4,
    lr=4.0,
    sample_rate=0.4,
    noise_multiplier=1.0,
    delta=1e-5,
    open="each-step",
)
KINDS: dict[str, dict[str, Any]] = {
    "sigmoid": {},
    "softmax": {"loss": "softmax", "max_grad_norm": 0.5},
    "squared": {"loss": "squared"},
    "weights": {"class_weights": (1.0, 0.5, 0.25)},
    "mlp": {"model": "mlp:5", "lr": 0.5},
    "optimizer": {"momentum": 0.5, "average": 0.5, "lr_schedule": "cosine", "bias_scale": 0.25},
    "no bias": {"loss": "least-squares", "bias_scale": 0.0, "momentum": 0.25, "lr": 1.0},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def owned(config: TrainConfig, sizes: Sequence[int] = (21, 14, 17), seed: int = 0) -> Records:
    draws = np.random.default_rng(seed)
    records = []
    for size in sizes:
        x = draws.normal(size=(size, FEATURES))
        x /= np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))
        y = draws.integers(0, CLASSES, size)
        found = check_records(
            x, y, frac_bits=config.frac_bits, classes=CLASSES, max_feature_norm=1.0
        )
        if config.rows_per_unit > 1:
            found = by_unit(found, np.arange(size) // 2, config.rows_per_unit)
        records.append(found)
    return Records.agreed(lambda own: own, records)


def host_of(config: TrainConfig, records: Records, source: Any = None) -> ClearHost:
    """A host that rounds down, so that it does so alike however rows are put together."""
    host = ClearHost(
        config.frac_bits,
        parties=len(records.sizes),
        owners=len(records.sizes),
        source=source or InsecureSeededSource(5),
    )
    host.ring = ClearRing(config.frac_bits, parties=len(records.sizes), rounding="floor")
    return host


class Noted(RunCallbacks):
    """Notes what is opened."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.opened: dict[str, list[Integers]] = {}

    def open(self, name: str, compute: Any) -> list[Integers]:
        assert name not in self.opened
        self.opened[name] = super().open(name, compute)
        return self.opened[name]


def trained(
    descend: Callable[..., Parameters], config: TrainConfig, records: Records, source: Any = None
) -> tuple[Parameters, Noted, Ledger]:
    host, ledger = host_of(config, records, source), Ledger()
    callbacks = Noted(host)
    start = State.begin(host, config, pairs(public_start(config, FEATURES)))
    model = descend(Step.of(config, records), host, records, start, ledger, callbacks)
    return model, callbacks, ledger


@kinds
@pytest.mark.parametrize("units", [1, 2])
def test_it_is_hidden_pea_bit_for_bit_where_roundings_are(kind, units):
    config = replace(CONFIG, parties=3, rows_per_unit=units, **KINDS[kind])
    records = owned(config)
    hidden, _, spent = trained(pea.descend, replace(config, open="never"), records)
    public, callbacks, ledger = trained(descend_openly, config, records)
    for one, other in zip(flat(hidden), flat(public), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.abs(flat(public)[0]).max() > 1 << 16
    assert [*callbacks.opened] == [f"step-{number}" for number in range(1, 5)]
    assert ledger.to_json() == spent.to_json()


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_noise_has_the_law_that_is_accounted(parties):
    """Of 2,100 differences of two openings; a variance that is a fifth off is found."""
    config = replace(CONFIG, parties=parties, steps=1, sample_rate=1.0, noise_multiplier=3.0)
    records = owned(config, (2,) * parties)
    plan = Step.of(config, records).plan

    def opened() -> Any:
        callbacks = trained(descend_openly, config, records, SystemSource())[1]
        return np.concatenate([part.ravel() for part in callbacks.opened["step-1"]])

    apart = np.concatenate([opened() - opened() for _ in range(100)]).astype(np.float64)
    sigma = plan.sigma * 2.0 ** (plan.frac_bits + plan.factor_bits)
    assert variance_p_value(apart, 2 * parties * party_variance(parties) * sigma**2) > ALARM


def without(records: Records, owner: int, row: int) -> Records:
    """The records with a null record in place of one."""
    own = list(records.own)
    empty = np.zeros(len(own[owner].features), dtype=np.int64)
    empty[row] = 1
    own[owner] = replace(own[owner], empty=empty)
    return replace(records, own=own)


@claim("No record moves an opened sum further than its bound.")
@kinds
def test_no_record_moves_an_opened_sum_further_than_its_bound(kind):
    """In integers, for records of every owner, of a model that is far from its start."""
    config = replace(CONFIG, parties=3, sample_rate=1.0, noise_multiplier=0.0, **KINDS[kind])
    records = owned(config, (3, 2, 2))
    far, *_ = trained(descend_openly, replace(config, lr=20 * config.lr), records)
    plan = Step.of(config, records).plan
    limit = Fraction(config.max_grad_norm) * (1 + Fraction(plan.eta))
    unit = Fraction(1, 1 << (plan.frac_bits + plan.factor_bits))
    found = [
        unit**2 * _moved(config, records, (owner, row), model)
        for model in (pairs(public_start(config, FEATURES)), far)
        for owner, size in enumerate(records.sizes)
        for row in range(size)
    ]
    assert 0.05 * limit**2 < max(found) <= limit**2


def _moved(config: TrainConfig, records: Records, place: tuple[int, int], model: Parameters) -> int:
    """Returns the squared length by which a record moves the opened sum, in its integers."""
    sums = []
    for those in (records, without(records, *place)):
        host = host_of(config, those)
        callbacks = Noted(host)
        once = replace(config, steps=1)
        step = Step.of(once, those)
        descend_openly(step, host, those, State.begin(host, once, model), Ledger(), callbacks)
        sums.append(callbacks.opened["step-1"])
    return squared_length(*(one - other for one, other in zip(*sums, strict=True)))


def test_owners_compute_on_as_many_rows_whoever_is_drawn(monkeypatch):
    config = replace(CONFIG, parties=3, steps=12)
    records = owned(config)
    computed: list[int] = []
    drawn: list[int] = []

    clipped = Step.clipped

    def noted(step: Step, ring: Any, model: Any, batch: Any) -> Any:
        computed.append(len(batch.x))
        drawn.append(int((batch.padding == 0).sum()))
        return clipped(step, ring, model, batch)

    monkeypatch.setattr(Step, "clipped", noted)
    trained(descend_openly, config, records, SystemSource())
    assert computed == 12 * records.rows(config)
    assert len({*drawn}) > 2


@claim("What a party sends is uniform but for the sum.")
def test_what_a_party_sends_is_uniform_but_for_the_sum():
    """Of sums without noise, whose words have their top bits as often as not."""
    config = replace(CONFIG, parties=3, noise_multiplier=0.0, steps=40)
    records, sent = owned(config), []
    host = host_of(config, records)
    host.holders = range(3)

    class Sent(Noted):
        def open(self, name: str, compute: Any) -> list[Integers]:
            sent.append(compute())
            return super().open(name, lambda: sent[-1])

    model = public_start(config, FEATURES)
    host.summands = lambda _: [[part * (rank == 0) for part in model] for rank in range(3)]
    host.restore = lambda summands: pairs(summands[0])
    step = Step.of(config, records)
    descend_openly(step, host, records, State(pairs(model)), Ledger(), Sent(host))
    for holder in range(3):
        words = np.concatenate([part.ravel() for each in sent for part in each[holder]])
        bits = (words.view(np.uint64)[:, None] >> np.arange(64, dtype=np.uint64)) & 1
        assert min(count_p_value(int(n), len(words), 0.5) for n in bits.sum(axis=0)) > ALARM


class Nobody(SystemSource):
    """Draws no record."""

    def bernoulli(self, party: int, probability: float, size: int) -> Any:
        return np.zeros(size, dtype=np.bool_)


def test_owners_without_a_sample_add_nothing_but_noise():
    config = replace(CONFIG, parties=2, noise_multiplier=0.0)
    callbacks = trained(descend_openly, config, owned(config, (5, 5)), Nobody())[1]
    assert len(callbacks.opened) == config.steps
    assert not any(part.any() for sums in callbacks.opened.values() for part in sums)


def test_steps_without_proven_bounds_are_refused():
    config = replace(CONFIG, parties=3, model="mlp:5", lr=1e4)
    with pytest.raises(ValueError, match="learning_rate"):
        trained(descend_openly, config, owned(config))
