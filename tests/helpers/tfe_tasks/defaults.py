"""A program of Keras on ABY3 that chooses nothing: the one that its docstring shows."""

import inspect
from typing import Any

import numpy as np
import pytest

import tfe_ext
from extensions.errors import ArgumentError
from tests.helpers.chosen import DELTA, EPSILON, KINDS, accuracy, config_of, rows
from tests.helpers.documented import programs
from tests.helpers.tfe_tasks import session  # noqa: F401 - sets configuration and protocol
from tfe_ext.ring.aby3_ring import noise_failure

from tf_encrypted.keras.layers import Dense

SETTINGS = {
    **{"learning_rate": "lr", "l2_norm_clip": "max_grad_norm", "delta": "delta"},
    **{"noise_multiplier": "noise_multiplier", "sample_rate": "sample_rate"},
    **{"momentum": "momentum", "overflow_probability": "overflow_probability"},
    **{"colluders": "colluders"},
}


def settings_are_those_of_the_command():
    for kind in KINDS[::2]:
        public = {**kind, "epsilon": EPSILON, "delta": DELTA}
        found = tfe_ext.keras.defaults(**public, columns=12)
        plain = config_of(**public)
        weights = plain.outputs * (12 + (plain.bias_scale > 0))
        config = config_of(**public, failure=noise_failure(weights, plain.steps))
        for name, setting in SETTINGS.items():
            assert found.optimizer[name] == getattr(config, setting)
        assert found.optimizer.get("bias_scale", 0.0) == config.bias_scale
        assert found.layer["units"] == config.outputs
        assert found.layer["use_bias"] == (config.bias_scale > 0)
        assert found.fit["steps"] == found.steps == config.steps
        assert [mean.average for mean in found.fit["callbacks"]] == [config.average]
        assert (found.whitening is None) == (not config.whiten)
        tfe_ext.keras.DPSGD(**found.optimizer)
        tfe_ext.keras.Sequential([Dense(**found.layer)])
        assert {*(found.whitening or {})} <= {*inspect.signature(tfe_ext.whiten).parameters}


def what_cannot_be_is_refused_by_name():
    public = {"kind": "tables", "records": 455, "columns": 30, "classes": 2, "epsilon": 2.0}
    for name, value in (("kind", "sounds"), ("columns", 0), ("parties", 4), ("delta", 0.5)):
        with pytest.raises(ArgumentError) as caught:
            tfe_ext.keras.defaults(**{**public, "delta": DELTA, name: value})
        assert caught.value.argument == name


def noise_for_an_epsilon_is_enough():
    noise = tfe_ext.keras.calibrate_noise(epsilon=2.0, delta=1e-5, sample_rate=0.5, steps=2)
    optimizer = tfe_ext.keras.DPSGD(0.5, 1.0, noise, 0.5)
    model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
    model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
    x = np.full((20, 4), 0.25)
    model.fit({"server0": x}, {"server0": np.arange(20) % 3}, steps=2, verbose=False)
    assert 1.999 < optimizer.get_epsilon(1e-5) <= 2.0


def documented() -> tuple[float, float]:
    """Returns the held-out accuracy of the docstring's program, and its epsilon."""
    x, y = rows("train")
    names: dict[str, Any] = {
        "Dense": Dense,
        "x": {f"server{i}": x[i::3] for i in range(3)},
        "y": {f"server{i}": y[i::3] for i in range(3)},
    }
    for program in programs(tfe_ext.keras.defaults):
        exec(program, names)
    (kernel,) = names["model"].get_weights()
    spent = names["optimizer"].get_epsilon(DELTA)
    return accuracy(kernel.T, names["whitening"].matrix), spent
