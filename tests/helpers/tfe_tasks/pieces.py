"""Tasks on batches in pieces: the steps of whole ones, from one sample, with one noise."""

import numpy as np

from extensions.privacy.randomness import InsecureSeededSource
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.keras import after_steps, model_of, owned, records
from tests.helpers.tfe_tasks.session import counted_graphs, private
from tfe_ext.keras import DPSGD, vouch_for

STEPS = 3


def _run(physical_rows, noise=0.5):
    """The weights after each step, the optimizer, and what a step cost."""
    source = InsecureSeededSource(4)
    optimizer = DPSGD(2.0, 0.5, noise, 0.6, momentum=0.5, source=source)
    model = model_of([4, 2], optimizer=optimizer)
    model.set_weights([np.full((4, 2), 0.1), np.zeros(2)])
    parts = [dict(zip("xy", records(20, seed=s), strict=True)) for s in range(3)]
    seen, graphs = [], []

    def note(_):
        seen.append(np.concatenate([part.ravel() for part in model.get_weights()]))
        graphs.append(traced())

    with counted_graphs() as traced:
        model.fit(
            *owned(parts),
            steps=STEPS,
            verbose=False,
            callbacks=[after_steps(note)],
            physical_rows=physical_rows,
        )
    assert graphs[-1] == graphs[0], "traced after the first step"
    return seen, optimizer, model.step_cost()


def pieces_make_the_step():
    """Rows are rounded apart, within an ulp each; nothing else of a step depends on the pieces."""
    whole, its_optimizer, its_cost = _run(None)
    pieces, optimizer, cost = _run(9)
    for one, other in zip(whole, pieces, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)
    for before, after in zip(whole, whole[1:], strict=False):
        assert np.abs(after - before).max() > 0.01
    assert optimizer.state_dict() == its_optimizer.state_dict()
    return its_cost.rounds, cost.rounds, its_cost.carried, cost.carried, cost.outside


def wrong_pieces_are_refused():
    model = model_of([4, 2], optimizer=DPSGD(1.0, 1.0, 1.0, 1.0))
    x, y = records(10)
    for rows in (0, -3, 2.5):
        with refused("physical_rows", "range", rows):
            model.fit({"server0": x}, {"server0": y}, steps=1, verbose=False, physical_rows=rows)
    shared = vouch_for(private(x), private(np.eye(2)[y]), max_feature_norm=1.0)
    with refused("physical_rows", "value", 4):
        model.fit(*shared, steps=1, verbose=False, physical_rows=4)
