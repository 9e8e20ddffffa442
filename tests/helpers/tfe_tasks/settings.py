"""Tasks on settings that change after a step: each takes effect at the next one, or is refused."""

import numpy as np
import pytest

import tfe_ext
from extensions.errors import GradientError
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.keras import ULP, after_steps, model_of, owned, records
from tests.helpers.tfe_tasks.session import PROTOCOL
from tfe_ext.keras import DPSGD, SGD, BinaryCrossentropy
from tfe_ext.keras.settings import Setting
from tfe_ext.ring.aby3_ring import ABY3Ring

import tf_encrypted as tfe
from tf_encrypted.keras import losses

START = {
    "learning_rate": 0.5,
    "l2_norm_clip": 0.5,
    "noise_multiplier": 1.0,
    "sample_rate": 0.5,
    "max_feature_norm": 1.0,
}
OTHER = {
    "learning_rate": 0.1,
    "expected_batch_size": 17.0,
    "noise_multiplier": 2.0,
    "sample_rate": 0.9,
    "overflow_probability": 1e-3,
    "l2_norm_clip": 0.25,
    "colluders": 2,
    "degree": 4,
}
"""Another value for each setting that shows in the weights or the account of a single step."""
TOLD = {"lr", "delta"}
"""Another name of the learning rate, and what callbacks are told: see the tests of `fit`."""
BOUNDS = {"max_feature_norm", "max_weight_norm"}
"""They decide what is refused."""


def _data(scale=1.0):
    x, y = owned([dict(zip("xy", records(20, seed=s), strict=True)) for s in (1, 2, 3)])
    return {name: scale * own for name, own in x.items()}, y


def _dpsgd(**settings):
    return DPSGD(**{**START, **settings}, source=InsecureSeededSource(5))


def _fit(model):
    """The weights after one step from public ones, and what the step cost."""
    model.set_weights([np.full([4, 2], 0.25), np.zeros(2)])
    phases = model.optimizer.ledger.phases
    before = sum(phase.overflow_probability for phase in phases)
    model.fit(*_data(), steps=1, verbose=False)
    phases = model.optimizer.ledger.phases
    failure = sum(phase.overflow_probability for phase in phases) - before
    weights = np.concatenate([w.ravel() for w in model.get_weights()])
    last = phases[-1]
    return weights, [model.step_cost().bytes, last.noise_multiplier, last.sample_rate, failure]


def _start(seed):
    """Where each stream of a seeded source begins."""
    source = InsecureSeededSource(seed)
    for party in range(3):
        source.gaussian(party, 1.0, (0,))
        source.bernoulli(party, 0.5, 0)
    return source.state_dict()


def every_setting_has_its_row():
    """A public attribute that is added needs a value above, or a test that it is refused."""
    optimizer = _dpsgd()
    settings = {name for name in dir(DPSGD) if isinstance(getattr(DPSGD, name), Setting)}
    assert settings == set(OTHER) | BOUNDS | TOLD
    found = {n for n in dir(optimizer) if n[0] != "_" and not callable(getattr(optimizer, n))}
    others = {"settings", "source", "ledger", "private", "schedule", "iterations"}
    assert found == settings | others | {"momentum", "bias_scale"}


def a_setting_takes_effect(name):
    """The next step is that of an optimizer which was made with it, and not that of before."""
    model = model_of([4, 2], optimizer=_dpsgd())
    first, its_cost = _fit(model)
    model.optimizer.source.load_state_dict(_start(5))
    setattr(model.optimizer, name, OTHER[name])
    assert getattr(model.optimizer, name) == OTHER[name]
    changed, cost = _fit(model)
    expected, expected_cost = _fit(model_of([4, 2], optimizer=_dpsgd(**{name: OTHER[name]})))
    np.testing.assert_allclose(changed, expected, atol=4 * ULP)
    np.testing.assert_allclose(cost, expected_cost, rtol=1e-9)
    assert np.abs(changed - first).max() > 50 * ULP or not np.allclose(cost, its_cost)


def settings_hold_within_a_fit():
    """From the step on that follows the call: the account has every step with its own."""
    optimizer = DPSGD(**START)
    model = model_of([4, 2], optimizer=optimizer)
    seen = []

    def change(step):
        seen.append(step)
        optimizer.noise_multiplier = 1.0 + step

    model.fit(*_data(), steps=3, verbose=False, callbacks=[after_steps(change)])
    assert seen == [1, 2, 3]
    phases = [(phase.noise_multiplier, phase.steps) for phase in optimizer.ledger.phases]
    assert phases == [(1.0, 1), (2.0, 1), (3.0, 1)]

    def narrow(*_):
        optimizer.max_feature_norm = 0.01

    with refused("features", "data", "row 0"):
        model.fit(*_data(), steps=2, verbose=False, callbacks=[after_steps(narrow)])
    assert sum(phase.steps for phase in optimizer.ledger.phases) == 4


def another_source_is_asked():
    """For noise and sampling of the steps that follow; the first one is not asked any more."""
    model = model_of([4, 2], optimizer=_dpsgd())
    first, _ = _fit(model)
    left = model.optimizer.source.state_dict()
    other = InsecureSeededSource(5)
    used, model.optimizer.source = model.optimizer.source, other
    again, _ = _fit(model)
    np.testing.assert_allclose(again, first, atol=4 * ULP)
    assert used.state_dict() == left == other.state_dict()
    assert {phase.noise_multiplier for phase in model.optimizer.ledger.phases} == {0.0}, (
        "known noise"
    )
    model.optimizer.source = None
    model.fit(*_data(), steps=1, verbose=False)
    assert model.optimizer.ledger.phases[-1].noise_multiplier == 1.0


def without_a_source_the_system_is_asked():
    """Once none is set, the one of before is not asked any more."""
    model = model_of([4, 2], optimizer=_dpsgd())
    seeded, _ = _fit(model)
    used = model.optimizer.source
    left = used.state_dict()
    model.optimizer.source = None
    assert type(model.optimizer.source) is SystemSource
    fresh, _ = _fit(model)
    assert np.all(fresh != seeded)
    assert used.state_dict() == left


def bounds_hold_or_are_refused():
    optimizer = DPSGD(**{**START, "learning_rate": 150.0})
    model = model_of([4, 3, 2], optimizer=optimizer)
    model.fit(*_data(), steps=1, verbose=False)
    with pytest.raises(GradientError, match="max_weight_norm = 400"):
        model.fit(*_data(), steps=2, verbose=False)
    with refused("max_weight_norm", "range", 300.0):
        optimizer.max_weight_norm = 300.0
    assert optimizer.max_weight_norm == 400.0
    optimizer.max_weight_norm = 900.0
    model.fit(*_data(), steps=2, verbose=False)

    with refused("features", "data", "row 0"):
        model.fit(*_data(scale=2.0), steps=1, verbose=False)
    optimizer.max_feature_norm, optimizer.learning_rate = 2.0, 0.5
    model.fit(*_data(scale=2.0), steps=1, verbose=False)


def what_steps_do_not_notice_cannot_be_set():
    optimizer, plain = DPSGD(**START), SGD(0.5)
    for one, name, value in (
        (optimizer, "ledger", None),
        (optimizer, "private", False),
        (plain, "private", True),
        (optimizer, "iterations", 0),
        (optimizer, "schedule", None),
        (optimizer, "momentum", 0.9),
        (optimizer, "bias_scale", 0.5),
        (plain, "noise_multiplier", 1.0),
        (plain, "l2_norm_clip", 1.0),
    ):
        with refused(f"{type(one).__name__}.{name}", "fixed", type(value).__name__):
            setattr(one, name, value)
    for name, value in (
        ("learning_rate", -1.0),
        ("learning_rate", "1"),
        ("l2_norm_clip", None),
        ("noise_multiplier", "1"),
        ("noise_multiplier", np.nan),
        ("sample_rate", 1.5),
        ("max_feature_norm", 0.0),
    ):
        with refused(name, "range", value):
            setattr(optimizer, name, value)
    with refused("l2_norm_clip", "value", 0.5):
        plain.settings = optimizer.settings
    assert optimizer.settings == DPSGD(**START).settings


def a_changed_loss_is_refused():
    x, y = _data()
    own = "one of its own"
    for loss, name, value, told in (
        (BinaryCrossentropy(), "from_logits", False, False),
        (losses.CategoricalCrossentropy(from_logits=True), "lazy_normalization", True, True),
        (BinaryCrossentropy(), "loss_fn", losses.mean_squared_error, own),
        (BinaryCrossentropy(), "grad", lambda *_: None, own),
        (BinaryCrossentropy(), "_fn_kwargs", {"weight": 2}, own),
    ):
        optimizer = DPSGD(**START)
        model = model_of([4, 2])
        model.compile(optimizer, loss)
        setattr(loss, name, value)
        with refused(f"loss.{name}", "value", told):
            model.fit(x, y, steps=1, verbose=False)
        assert not optimizer.ledger.phases

    class Weighted(BinaryCrossentropy):
        def grad(self, y_true, y_pred):
            return 2 * super().grad(y_true, y_pred)

    with refused("loss.grad", "value", own):
        model_of([4, 2]).compile(DPSGD(**START), Weighted())


def a_protocol_stays_as_it_is():
    """Every attribute that it has, of its encoding and of its ring; fresh keys change none."""
    protocol = tfe_ext.ABY3(fixedpoint_config="f20")
    values = vars(protocol).copy()
    public = {name for name in values if not name.startswith("_")}
    assert {"servers", "fixedpoint_config", "default_factory", "ring"} <= public
    for whose, told, owner, names in (
        ("ABY3", "int", protocol, {*public, "truncate", "reveal"}),
        ("fixedpoint_config", 1, protocol.fixedpoint_config, vars(protocol.fixedpoint_config)),
        ("fixedpoint_config", 1, tfe_ext.fixed64_f20, vars(tfe_ext.fixed64_f20)),
    ):
        for name in names:
            with refused(f"{whose}.{name}", "fixed", told):
                setattr(owner, name, 1)
    for name in ("frac_bits", "servers"):
        with pytest.raises(AttributeError):
            setattr(protocol.ring, name, 1)
    with pytest.raises(TypeError):
        protocol.servers[0] = protocol.servers[1]
    assert isinstance(protocol.ring, ABY3Ring)
    with protocol:
        assert tfe.get_protocol() is protocol
    assert tfe.get_protocol() is PROTOCOL
    protocol.reset()
    protocol.initialize_keys()
    assert {name: vars(protocol)[name] for name in ("servers", "ring", "fixedpoint_config")} == {
        name: values[name] for name in ("servers", "ring", "fixedpoint_config")
    }
