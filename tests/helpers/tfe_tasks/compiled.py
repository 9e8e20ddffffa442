"""Tasks on what is traced, and how often."""

import os
import time
from pathlib import Path

import numpy as np

import tfe_ext
from tests.helpers.tfe_tasks.keras import after_steps, model_of, owned, records
from tests.helpers.tfe_tasks.session import counted_graphs, graph, private
from tfe_ext.keras import DPSGD, vouch_for


def the_first_call_traces_once():
    """Streams are made when they are first drawn from, which is while a function is traced."""
    traced = []

    @graph
    def run():
        traced.append(1)
        return private(np.ones([2])).reveal().to_native()

    with tfe_ext.ABY3():
        run()
    assert len(traced) == 1


def _parts(count, seed=0):
    return [dict(zip("xy", records(count, seed=seed + s), strict=True)) for s in range(3)]


def a_step_has_few_nodes():
    """What a first step takes is about proportional to them; each graph is traced once."""
    _has_few_nodes([784, 128, 10], 5340)


def a_linear_step_has_few_nodes():
    _has_few_nodes([784, 10], 3385)


def _has_few_nodes(widths, most):
    model = model_of(widths, optimizer=DPSGD(0.1, 1.0, 1.1, 1.0))
    x, labels = records(50, features=784, classes=10)
    with counted_graphs() as traced:
        model.fit({"server0": x}, {"server0": labels}, steps=1, verbose=False)
    assert traced() == len(widths) - 1, "a step, and the check of a hidden model's start"
    assert model.step_cost().nodes <= most, (widths, model.step_cost().nodes)


def epochs_trace_nothing_after_the_first(epochs=3):
    """Further epochs of a hidden model, with a rate for each step; records are others each time.

    The weights are set in some, so that the start of training is checked again. What a first step
    takes is about proportional to its nodes.
    """
    optimizer = DPSGD(0.5, 1.0, 1.0, 0.5)
    model = model_of([4, 3, 2], optimizer=optimizer)

    def lower(_):
        optimizer.learning_rate *= 0.95

    def epoch(number):
        x, y = owned(_parts(20, number))
        model.fit(x, y, epochs=1, verbose=False, callbacks=[after_steps(lower)])
        tried, labels = records(9, seed=number)
        model.evaluate({"server1": tried}, {"server1": labels})
        if number % 2 == 0:
            model.set_weights(model.get_weights())

    epoch(0)
    assert model.step_cost().nodes <= 5484
    with counted_graphs() as traced:
        for number in range(1, 1 + epochs):
            epoch(number)
        assert traced() == 0
    assert optimizer.learning_rate < 0.5 * 0.95 ** (2 * epochs)
    assert optimizer.ledger.phases[0].steps == 2 * (1 + epochs)


def twenty_epochs_trace_nothing_after_the_first():
    epochs_trace_nothing_after_the_first(20)


def shared_records_trace_nothing_after_the_first():
    """Private tensors of equal shapes are learnt from and evaluated on, as they are when given."""
    model = model_of([4, 2], optimizer=DPSGD(5.0, 1.0, 0.01, 1.0))
    x, labels = records(12)
    rows = {1.0: x, -1.0: -x}

    def fit(sign):
        shared = private(rows[sign]), private(np.eye(2)[labels])
        model.set_weights([np.zeros([4, 2]), np.zeros(2)])
        model.fit(*vouch_for(*shared, max_feature_norm=1.0), steps=1, verbose=False)
        again = private(rows[sign]), private(np.eye(2)[labels])
        return model.evaluate(*again), model.get_weights()[0]

    _, first = fit(1.0)
    with counted_graphs() as traced:
        _, turned = fit(-1.0)
        right, again = fit(1.0)
        assert traced() == 0
    np.testing.assert_allclose(first, -turned, atol=0.05)
    np.testing.assert_allclose(first, again, atol=0.05)
    assert np.abs(first).max() > 0.2
    logits = x @ again
    assert abs(right - (logits.argmax(axis=1) == labels).mean()) <= 1 / 12


def evaluation_takes_at_most_two_steps():
    """Of as many records as a batch has rows; medians of CPU time."""
    x, labels = records(100, features=64, classes=10)
    model = model_of([64, 32, 10], optimizer=DPSGD(0.1, 1.0, 1.0, 1.0))
    given, others = ({"server0": x}, {"server0": labels}), ({"server0": -x}, {"server0": labels})

    def seconds(act):
        begun = time.process_time()
        act()
        return time.process_time() - begun

    def fit():
        model.fit(*given, steps=1, verbose=False)

    def evaluate():
        model.evaluate(*others)

    fit(), evaluate()
    steps, evaluations = (np.median([seconds(act) for _ in range(15)]) for act in (fit, evaluate))
    assert evaluations <= 2 * steps, (evaluations, steps)


def memory_is_flat_over_ten_thousand_steps():
    """The rate changes with each step, and every hundredth is evaluated; 10 MB are for noise."""
    x, y = owned(_parts(20))
    optimizer = DPSGD(0.5, 1.0, 4.0, 0.5)
    model = model_of([4, 2], optimizer=optimizer)
    others, sizes = {name: -values for name, values in x.items()}, []

    def note(step):
        optimizer.learning_rate = 0.5 + 0.4 * np.cos(step)
        if step % 100 == 0:
            model.evaluate(others, y)
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))

    with counted_graphs() as traced:
        model.fit(x, y, steps=10_000, verbose=False, callbacks=[after_steps(note)])
        assert traced() < 10
    assert sizes[-1] - sizes[9] < 10e6, (sizes[9], sizes[-1])
