"""Tasks in a session of three servers and an owner of data, each a process that was started."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfe_ext
from extensions.errors import PlayerLostError
from tests.helpers.tfe_tasks.session import assert_replicated, graph, share_values

import tf_encrypted as tfe

FILE = Path(os.environ["PLAYERS"])
CONFIG = tfe_ext.remote_config(FILE)
tfe.set_config(CONFIG)
PROTOCOL = tfe_ext.ABY3(fixedpoint_config="f20")
tfe.set_protocol(PROTOCOL)
X = np.array([1.5, -2.25, 100.0])


def given(value=X):
    return tfe.define_private_input("owner", lambda: tf.constant(value))


def shares_lie_in_four_processes():
    tasks = [f"/job:tfe/replica:0/task:{i}/device:CPU:0" for i in range(4)]
    assert [player.device_name for player in CONFIG.players] == tasks
    for x in (given(), tfe.define_private_variable(X), given() * given()):
        for i, pair in enumerate(x.unwrapped):
            assert {share.value.backing_device for share in pair} == {tasks[i]}
    for key in PROTOCOL.ring.servers.pairwise:
        assert {variable.device for variable in key._keys.values()} == set(key.holders)


def protocols_compute():
    @graph
    def run():
        x = given()
        powers = given(np.array([4.0, 0.25]))
        roots = tfe.inv_sqrt(powers), tfe.inverse_sqrt(powers)
        results = x * x, tfe.msb(x), tfe.sigmoid(x), *roots
        return [(share_values(y), y.reveal().to_native()) for y in results]

    with CONFIG:
        results = run()
    for shares, _ in results:
        assert_replicated(shares)
    square, negative, sigmoid, *inverse_roots = (opened for _, opened in results)
    np.testing.assert_allclose(square, X * X, atol=2.0**-12)
    np.testing.assert_array_equal(negative, X < 0)
    np.testing.assert_allclose(sigmoid, 1 / (1 + np.exp(-X)), atol=0.04)
    for inverse_root in inverse_roots:
        np.testing.assert_allclose(inverse_root, [0.5, 2.0], rtol=2e-3)


def calls_differ():
    run = graph(lambda: share_values(given()))
    first, second = (tf.nest.flatten(run()) for _ in range(2))
    assert not any(np.any(a == b) for a, b in zip(first, second, strict=True))


def an_error_of_the_script_stays_as_it_is():
    with pytest.raises(tf.errors.InvalidArgumentError), CONFIG:
        tf.debugging.assert_equal(1, 2)
    with pytest.raises(ZeroDivisionError), CONFIG:
        raise ZeroDivisionError


def players_under_other_names_are_refused():
    addresses = json.loads(FILE.read_text())
    addresses["server0"], addresses["server1"] = addresses["server1"], addresses["server0"]
    swapped = FILE.with_name("swapped.json")
    swapped.write_text(json.dumps(addresses))
    with pytest.raises(PlayerLostError, match="player server0 is not the one that answers"):
        tfe_ext.remote_config(swapped)
