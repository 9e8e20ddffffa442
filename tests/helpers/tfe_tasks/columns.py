"""Tasks on columns of the same records, which lie with different owners."""

import numpy as np

from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.keras import model_of
from tfe_ext.keras import DPSGD

STEPS = 3


def table():
    draws = np.random.default_rng(8)
    x = draws.normal(size=(24, 5))
    for block in (slice(2), slice(2, 5)):
        x[:, block] /= 1.02 * np.maximum(1.0, np.linalg.norm(x[:, block], axis=1))[:, None]
    return x, (x[:, 0] > x[:, 3]).astype(np.int64)


def started(rate=1.0, noise=2.0):
    optimizer = DPSGD(2.0, 0.25, noise, rate, source=InsecureSeededSource(5))
    model = model_of([5, 2], optimizer=optimizer)
    model.set_weights([np.zeros((5, 2)), np.zeros(2)])
    return model


def columns_make_the_steps_of_whole_rows():
    """Two owners' columns, and the same rows at one; then what each of them counts."""
    x, y = table()
    own = {"server0": x[:, :2], "server1": x[:, 2:]}
    by_columns, by_rows = started(), started()
    by_columns.fit(own, {"server1": y}, split="columns", steps=STEPS, verbose=False)
    cost = by_columns.step_cost()
    by_rows.fit({"server0": x / np.sqrt(2)}, {"server0": y}, steps=STEPS, verbose=False)
    for one, other in zip(by_columns.get_weights(), by_rows.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)
        assert np.abs(one).max() > 0.01
    counted = by_columns.evaluate(own, {"server1": y}, split="columns", count_noise=1e-3)
    whole = by_rows.evaluate({"server1": x / np.sqrt(2)}, {"server1": y}, count_noise=1e-3)
    assert abs(counted - whole) < 1e-3
    own["server0"] = own["server0"] / 2  # others take their place in the same graph
    by_columns.fit(own, {"server1": y}, split="columns", steps=1, verbose=False)
    return cost.rounds, by_rows.step_cost().rounds


def columns_that_do_not_go_together_are_refused():
    x, y = table()
    own, model = {"server0": x[:, :2], "server1": x[:, 2:]}, started()

    def fit(x, y, model=model):
        model.fit(x, y, split="columns", steps=1, verbose=False)

    with refused("y", "data", "of ['server0', 'server1']"):
        fit(own, {"server0": y, "server1": y})
    with refused("y", "data", "of []"):
        fit(own, {})
    with refused("x", "shape", {"server0": 23, "server1": 24}):
        fit(own | {"server0": x[1:, :2]}, {"server1": y})
    with refused("x", "shape", "4 features"):
        fit(own | {"server0": x[:, :1]}, {"server1": y})
    with refused("x, y", "type"):
        fit({"server0": x}, {"server0": y})
    with refused("features", "data", "row 0"):
        fit(own | {"server0": 9 + 0 * x[:, :2]}, {"server1": y})
    with refused("sample_rate", "choice", 0.5):
        fit(own, {"server1": y}, started(rate=0.5))
