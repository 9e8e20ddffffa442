"""Tasks on records that servers share once: the steps, what they send, and when rows are shared."""

from unittest.mock import patch

import numpy as np

from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import share_public
from extensions.protocols.optimizer import State
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.config import TrainConfig
from tests.helpers.tfe_tasks.keras import SERVERS, model_of, owned, records
from tests.helpers.tfe_tasks.session import PROTOCOL, counted_graphs, private
from tfe_ext.graphs import standing
from tfe_ext.graphs.batches import OwnersRecords
from tfe_ext.keras import DPSGD, vouch_for
from tfe_ext.run.host import ABY3Host

F = 20
ATOL = 4e-6


def _optimizer(noise=0.5, momentum=0.5):
    return DPSGD(2.0, 0.5, noise, 1.0, momentum=momentum, source=InsecureSeededSource(4))


def trained(x, y, physical_rows=None, model=None):
    """The weights after two steps from the same start."""
    if model is None:
        model = model_of([4, 2], optimizer=_optimizer())
    model.set_weights([np.full((4, 2), 0.1), np.zeros(2)])
    model.fit(x, y, steps=2, verbose=False, physical_rows=physical_rows)
    return np.concatenate([part.ravel() for part in model.get_weights()]), model.step_cost()


def _parts(seed=0):
    own = [dict(zip("xy", records(20 + i, seed=seed + i), strict=True)) for i in range(3)]
    return owned(own)


def steps_are_those_of_shared_records():
    """The records of owners train the model that the same rows do as private tensors."""
    x, y = _parts()
    rows, labels = (np.concatenate([*column.values()]) for column in (x, y))
    shared = vouch_for(private(rows), private(np.eye(2)[labels]), max_feature_norm=1.0)
    expected, its_cost = trained(*shared)
    whole, cost = trained(x, y)
    pieces, in_pieces = trained(x, y, physical_rows=9)
    with patch.object(standing, "_AT_ONCE", 50):
        blocks, _ = trained(x, y)
    for found in (whole, pieces, blocks):
        np.testing.assert_allclose(found, expected, atol=ATOL)
    assert np.abs(expected - 0.1).max() > 0.01
    return its_cost.rounds, cost.rounds, in_pieces.rounds


def others_take_their_place():
    """A model goes on with others' records of the same shapes, in the graphs that were traced."""
    (x, y), (others, labels) = _parts(), _parts(seed=5)
    model = model_of([4, 2], optimizer=_optimizer(0.0, 0.0))
    first, _ = trained(x, y, model=model)
    with counted_graphs() as traced:
        second, _ = trained(others, labels, model=model)
    assert traced() == 0
    fresh = model_of([4, 2], optimizer=_optimizer(0.0, 0.0))
    np.testing.assert_allclose(second, trained(others, labels, model=fresh)[0], atol=ATOL)
    assert np.abs(second - first).max() > 0.01


def _own(sizes, features=3, outputs=2):
    draws = np.random.default_rng(3)
    return [
        OwnRecords(
            features=draws.integers(-(2**19), 2**19, (size, features)),
            labels=draws.integers(0, 2, (size, outputs)) << F,
            frac_bits=F,
        )
        for size in sizes
    ]


def _opened(share):
    return np.sum([share.parts[2 * i].numpy() for i in range(3)], axis=0)


def batches(sizes, rows, pieces, at_once, empty):
    """Each piece's columns, opened, beside those that there should be, as lists of rows."""
    own = _own(sizes)
    if empty:
        flags = [(np.arange(size) % 2).astype(np.int64) for size in sizes]
        own = [
            OwnRecords(
                features=o.features * (1 - f)[:, None],
                labels=o.labels * (1 - f)[:, None],
                frac_bits=F,
                rows_per_unit=2,
                empty=f,
            )
            for o, f in zip(own, flags, strict=True)
        ]
    placed = OwnersRecords(PROTOCOL.ring.servers, dict(zip(SERVERS, own, strict=True)))
    with patch.object(standing, "_AT_ONCE", at_once):
        kept = standing.Standing(placed, rows, pieces)
    assert kept.prepare() is not None
    assert kept.prepare() is None
    kept.begin()
    found = [
        [None if column is None else _opened(column) for column in kept.next()]
        for _ in range(pieces)
    ]
    expected = []
    for i in range(pieces):
        columns = []
        for o, n in zip(own, rows, strict=True):
            part = slice(i * n, (i + 1) * n)
            x, labels = o.features[part], o.labels[part]
            lacking = n - len(x)
            flags = np.zeros(len(o.features)) if o.empty is None else o.empty
            columns.append(
                [
                    np.pad(x, ((0, lacking), (0, 0))),
                    np.pad(labels, ((0, lacking), (0, 0))),
                    np.pad((x * x).sum(1), (0, lacking)),
                    np.pad(flags[part], (0, lacking), constant_values=1),
                ]
            )
        expected.append([np.concatenate(column) for column in zip(*columns, strict=True)])

    def rows_in_order(piece):
        x, labels, norms, padding = piece
        padding = np.zeros(len(x)) if padding is None else padding
        table = np.concatenate([x, labels, norms[:, None], padding[:, None]], axis=1)
        return sorted(table.tolist())

    return [[*map(rows_in_order, pieces)] for pieces in (found, expected)]


def shares_are_fresh():
    """Two runs on the same records share them apart: no word of one is the other's."""
    own = dict(zip(SERVERS, _own((40, 40, 40)), strict=True))
    words = []
    for _ in range(2):
        kept = standing.Standing(OwnersRecords(PROTOCOL.ring.servers, own), (40, 40, 40), 1)
        kept.prepare()
        words.append({*np.concatenate([p.numpy().ravel() for p in kept._columns[0].parts])})
    assert words[0] & words[1] == {0}


def run(n, features, outputs, steps):
    """What it costs to share the records, what a step costs, and what the host counted."""
    config = TrainConfig(
        backend="tfe",
        parties=3,
        frac_bits=F,
        classes=outputs,
        steps=10,
        sample_rate=1.0,
        noise_multiplier=5.0,
        delta=1e-6,
        max_grad_norm=0.25,
        evaluate="opened",
    )
    sizes = [len(part) for part in np.array_split(np.arange(n), 3)]
    own = _own(sizes, features, outputs)
    placed = Records(own, tuple(sizes), features)
    step, found = Step.of(config, placed), []
    for _ in range(2 if steps else 1):  # the second one goes on, as far as it knows
        host = ABY3Host(PROTOCOL, SystemSource())
        sampled = step.sampled(host, placed)
        parts = State.begin(host, config, share_public(host, public_start(config, features))).parts
        program, _ = host._program(sampled, parts, step.public(1))
        once = standing.standing_on(sampled.placed, sampled.rows, sampled.pieces).cost
        compiled = host.compile(sampled)
        for number in range(1, steps + 1):
            compiled(parts, *step.public(number))
        if steps:
            expected, counted = once.then(program.cost, steps).traffic, host.traffic()
            assert counted.rounds == expected.rounds
            assert [*counted.carried] == [*expected.carried]
        found.append((once.sent, program.cost.sent, once.rounds, program.cost.rounds))
    return found
