"""Tasks on much work, a third of which servers do in each role: results, and what links carry."""

from unittest.mock import patch

import numpy as np
import tensorflow as tf

from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from tests.helpers.tfe_tasks.keras import owned, records
from tests.helpers.tfe_tasks.session import PROTOCOL, graph, private, share_values
from tests.helpers.tfe_tasks.standing import trained
from tfe_ext.costs.cost import cost_of_graph
from tfe_ext.ring import roles
from tfe_ext.ring.shares import Additive2, Additive3

import tf_encrypted as tfe

F = 20
COUNT = 3_000


def _both(function):
    """What is computed undivided and divided, and the cost of each."""
    found = []
    for least in (1 << 40, 1):
        with patch.object(roles, "LEAST", least):
            traced = graph(lambda: [share_values(y) for y in function()]).get_concrete_function()
        found.append((traced(), cost_of_graph(traced.graph)))
    return found


def _value(pairs):
    """The value of replicated shares, each of which two servers hold alike."""
    for i in range(3):
        np.testing.assert_array_equal(pairs[i][1], pairs[(i + 1) % 3][0])
    return sum(pair[0].numpy() for pair in pairs) / 2.0**F


def _on_links(cost):
    return cost.rounds, [*cost.sent], [each.received for each in cost.carried]


def functions():
    """Roots, clip factors and clipped rows: values, rounds and bytes, undivided and divided."""
    draws = np.random.default_rng(2)
    x = draws.uniform(0.01, 60.0, COUNT)
    rows = draws.normal(size=(COUNT, 2))
    p, q = private(x), private(rows)

    def run():
        return tfe.inverse_sqrt(p), tfe.clip_factor(p), tfe.clip_by_norm(q, 1.0)

    encoded = np.round(x * 2.0**F) / 2.0**F
    most = 1 / np.sqrt(encoded)
    error = InverseSqrtPlan(frac_bits=F).relative_error
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    costs = []
    for words, cost in _both(run):
        root, factor, clipped = map(_value, words)
        assert np.all(root <= most)
        assert np.all(root >= (1 - error) * most - 3 * 2.0**-F)
        np.testing.assert_allclose(factor, np.minimum(1, most), rtol=0.01, atol=2.0**-10)
        np.testing.assert_allclose(clipped, rows * np.minimum(1, 1 / norms), atol=0.02)
        costs.append(_on_links(cost))
    return costs


def steps():
    """The weights of two steps, and each step's rounds and bytes, undivided and divided."""
    own = [dict(zip("xy", records(500 + i, seed=i), strict=True)) for i in range(3)]
    weights, costs = [], []
    for least, physical_rows in ((1 << 40, None), (1, None), (1, 800)):
        with patch.object(roles, "LEAST", least):
            found, cost = trained(*owned(own), physical_rows)
        weights.append(found)
        costs.append(_on_links(cost))
    for other in weights[1:]:
        np.testing.assert_allclose(other, weights[0], atol=4e-6)
    assert np.abs(weights[0] - 0.1).max() > 0.01
    return costs


def shares_turn():
    """In other roles servers hold the same value, and as many turns back the same words."""
    values = np.arange(6).reshape(3, 2)
    ring = PROTOCOL.ring
    one, two, three, seven = (tf.constant(factor * values) for factor in (1, 2, 3, 7))
    pair = Additive2(ring.servers.devices, [one, seven])
    three = Additive3(ring.servers.devices, [one, two, three])
    (replicated,) = ring.replicate([three + three])
    for by in (1, 2):
        assert ring.turned(by).turned(-by).servers == ring.servers
        for share, factor in ((pair, 8), (three, 6), (replicated, 12)):
            turned = share.turned(by)
            parts = [part for part in turned.additive3().parts if part is not None]
            np.testing.assert_array_equal(np.sum(parts, axis=0), factor * values)
            if share is replicated:
                for place, part in zip(turned.PLACES, turned.parts, strict=True):
                    assert part.device == turned.servers[place]
            back = turned.turned(-by).additive3().parts
            for one, other in zip(back, share.additive3().parts, strict=True):
                assert (one is None) == (other is None)
                assert one is None or np.array_equal(one, other)
        (again,) = ring.turned(by).replicate([(three - pair).turned(by)])
        for place, server in zip(again.PLACES, again.parts, strict=True):
            assert server.device == again.servers[place]
