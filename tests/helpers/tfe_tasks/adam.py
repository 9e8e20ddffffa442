"""Tasks on Adam for the host's Keras layers: steps, their checkpoints, and what is refused."""

import itertools
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from extensions.errors import GradientError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.optimizer import TOTAL
from extensions.protocols.updates import FIRST, SECOND, VELOCITY
from tests.helpers.refused import refused
from tests.helpers.replayed import Replayed
from tests.helpers.tfe_tasks.keras import F, after_steps, model_of, owned, records
from tests.helpers.tfe_tasks.session import counted_graphs
from tfe_ext.keras import SGD, Adam, BinaryCrossentropy, Checkpoints, DPAdam, MeanOfIterates

PRIVATE = {
    "learning_rate": 0.05,
    "l2_norm_clip": 0.7,
    "noise_multiplier": 2.0,
    "sample_rate": 0.6,
}


def train(parts, weight, bias, *, kind, rates, seed, options):
    """Weights after each step at its rate, and what steps cost and spent; weights are (out, in)."""
    made = {"DPAdam": DPAdam, "Adam": Adam}[kind]
    optimizer = made(rates[0], source=Replayed(seed), **options)
    model = model_of([len(weight[0]), len(weight)], optimizer=optimizer)
    model.set_weights([np.array(weight).T, np.array(bias)])
    after, graphs = [], []

    def note(step):
        after.append([part.T.tolist() for part in model.get_weights()])
        graphs.append(traced())
        optimizer.learning_rate = rates[min(step, len(rates) - 1)]

    with counted_graphs() as traced:
        model.fit(*owned(parts), steps=len(rates), verbose=False, callbacks=[after_steps(note)])
    cost = model.step_cost()
    return {
        "after": after,
        "rounds": cost.rounds,
        "sent": cost.sent,
        "outside": cost.outside,
        "graphs": graphs[-1] - graphs[0],
        "epsilon": optimizer.get_epsilon(1e-5) if kind == "DPAdam" else None,
    }


def _session(optimizer):
    """A model with hidden units and fixed weights, and its records."""
    model = model_of([4, 2], optimizer=optimizer)
    model.set_weights([np.full((4, 2), 0.1), np.zeros(2)])
    parts = [dict(zip("xy", records(20, seed=s), strict=True)) for s in range(3)]
    return model, owned(parts)


def moments_go_on_from_checkpoints():
    """A run that was cut off after its first moments ends where the other does."""

    def run(folder, cut=None):
        optimizer = DPAdam(**PRIVATE, beta_2=0.9, source=InsecureSeededSource(4))
        model, data = _session(optimizer)
        resume = folder.exists()
        kept = Checkpoints(model, folder, steps=5, every=3, resume=resume)
        made = kept.begin() or 0

        def interrupt(step):
            if step == cut:
                raise InterruptedError

        callbacks = [kept, MeanOfIterates(1.0), after_steps(interrupt)]
        try:
            model.fit(*data, steps=5, initial_step=made, verbose=False, callbacks=callbacks)
        except InterruptedError:
            return None
        return np.concatenate([part.ravel() for part in model.get_weights()]), optimizer

    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        folder = Path(scratch)
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        whole, its_optimizer = run(folder / "whole")
        assert run(folder / "kept", cut=4) is None
        resumed, optimizer = run(folder / "kept")
    assert optimizer.state_dict() == its_optimizer.state_dict()
    np.testing.assert_allclose(resumed, whole, atol=0.01 * PRIVATE["learning_rate"])
    assert np.abs(whole - 0.1).max() > 0.01


def whatever_goes_on_is_restored():
    """Of each server exactly the shares that were kept, and nothing that was there before."""
    model, _ = _session(DPAdam(**PRIVATE))
    draws = np.random.default_rng(1)
    chain = model.training_shares()
    shapes = [(4, 2), (2,)]
    for names in ((FIRST, SECOND, TOTAL), (VELOCITY,)):
        parts = [
            {key: part.numpy() for key, part in own.items() if key[:4] in ("weig", "bias")}
            | {
                f"{name}_{i}": draws.integers(-9, 9, s)
                for name in names
                for i, s in enumerate(shapes)
            }
            for own in chain
        ]
        model.resume(parts)
        for own, found in zip(parts, model.training_shares(), strict=True):
            assert own.keys() == found.keys()
            for key, part in own.items():
                np.testing.assert_array_equal(found[key], part)


def moments_are_never_zero_by_mistake():
    """Steps on another model, or in other units, would be longer than what is proven."""
    model, data = _session(DPAdam(**PRIVATE))

    def counted():
        """An optimizer that has made a step, with what public constants."""
        optimizer = DPAdam(**PRIVATE)
        step = _step(optimizer, model)
        optimizer.account(step, 1)
        return optimizer, step

    optimizer, step = counted()
    again = DPAdam.from_config(json.loads(json.dumps(optimizer.get_config())))
    assert again.settings == optimizer.settings
    again.load_state_dict(json.loads(json.dumps(optimizer.state_dict())))
    rule = step.rule
    assert again.public(rule) == optimizer.public(rule) != DPAdam(**PRIVATE).public(rule)
    for one in (optimizer, again):
        model.compile(one, BinaryCrossentropy())
        with pytest.raises(GradientError, match="has made 1 steps, but this model lacks the"):
            model.fit(*data, steps=1, verbose=False)
    for name, value in (("noise_multiplier", 4.0), ("l2_norm_clip", 0.5)):
        optimizer, _ = counted()
        setattr(optimizer, name, value)
        with pytest.raises(GradientError, match="After 1 steps moments are in units of"):
            _step(optimizer, model)
    for name, value in (("learning_rate", 0.1), ("expected_batch_size", 7.0)):
        optimizer, step = counted()
        setattr(optimizer, name, value)
        assert _step(optimizer, model).rule.fixed == step.rule.fixed


def _step(optimizer, model):
    return optimizer.step(model.chain.network, frac_bits=F, rows=50, expected=36.0)


def wrong_adam_is_refused():
    for code, made, name, value in itertools.chain(
        (("range", DPAdam, *row) for row in (("beta_1", 1.0), ("beta_2", 0.2), ("floor", 2.0))),
        (("range", Adam, *row) for row in (("beta_1", -0.1), ("beta_2", 1.0), ("epsilon", 0.0))),
        (("conflict", each, "momentum", 0.5) for each in (DPAdam, Adam)),
    ):
        options = PRIVATE if made is DPAdam else {"learning_rate": 0.1}
        with refused(name, code, value):
            made(**options, **{name: value})
    for one, name in ((DPAdam(**PRIVATE), "beta_1"), (Adam(0.1), "epsilon")):
        with refused(f"{type(one).__name__}.{name}", "fixed", "float"):
            setattr(one, name, 0.5)
    small, data = _session(Adam(0.1, epsilon=2.0**-16))
    with refused("epsilon", "value", 2.0**-16):
        small.fit(*data, steps=1, verbose=False)
    assert Adam(0.1).get_config().keys() == SGD(0.1).get_config().keys() - {"momentum"} | {
        "beta_1",
        "beta_2",
        "epsilon",
    }
    hidden = model_of([4, 3, 2], optimizer=DPAdam(**{**PRIVATE, "learning_rate": 5.0}))
    with pytest.raises(GradientError, match="max_weight_norm = 400"):
        hidden.fit(*_session(SGD(0.1))[1], steps=200, verbose=False)
