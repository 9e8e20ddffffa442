"""Tasks in a session of three servers and an owner of data, each a process that was started."""

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.context import Context
from tf_keras.callbacks import LambdaCallback

import tfe_ext
from extensions.errors import PlayerLostError
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import SumOf, share_public
from tests.helpers.memory import private_memory
from tests.helpers.patience import wait_until
from tests.helpers.refused import refused
from tests.helpers.tfe_tasks.session import assert_replicated, graph, share_values
from tfe_ext.graphs.batches import OwnersRecords, check_owners
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Sequential
from tfe_ext.players.job import JOB
from tfe_ext.run.host import RemoteHost
from tfe_ext.streams import choice
from tfe_ext.streams.chacha import keystream_on
from tfe_ext.streams.native import NativeError

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

FILE = Path(os.environ["PLAYERS"])
CONFIG = tfe_ext.remote_config(FILE)
tfe.set_config(CONFIG)
PROTOCOL = tfe_ext.ABY3(fixedpoint_config="f20")
tfe.set_protocol(PROTOCOL)
X = np.array([1.5, -2.25, 100.0])


def given(value=X):
    return tfe.define_private_input("owner", lambda: tf.constant(value))


def shares_lie_in_four_processes():
    tasks = [f"/job:{JOB}/replica:0/task:{i}/device:CPU:0" for i in range(4)]
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


def a_data_set_is_read_by_its_owner():
    """Of a file, in the owner's process: features, targets and squared norms lie there."""
    file = FILE.with_name("records.csv")
    file.write_text("0.25,-0.5,1\n0.125,0.75,0\n")
    network = Sequential([Dense(2, batch_input_shape=[1, 2])]).chain.network
    owner = CONFIG.get_player("owner").device_name
    with tf.device(owner):
        lines = tf.data.TextLineDataset(str(file))
        columns = lines.map(lambda line: tf.io.decode_csv(line, [0.0, 0.0, 0]))
        pairs = columns.map(lambda a, b, label: (tf.stack([a, b]), label)).batch(2)
    own = check_owners({"owner": pairs}, None, network, frac_bits=20, max_feature_norm=1.0)
    (table,) = OwnersRecords(PROTOCOL.ring.servers, own).tables.values()
    found = table.everything()
    assert {values.backing_device for values in found} == {owner}
    expected = [[[0.25, -0.5], [0.125, 0.75]], [[0, 1], [1, 0]], [0.3125, 0.578125]]
    for values, reals, bits in zip(found, expected, (20, 20, 40), strict=True):
        np.testing.assert_array_equal(values.numpy() * 2.0**-bits, reals)
    with refused("x", "value"):
        check_owners({"server1": pairs}, None, network, frac_bits=20, max_feature_norm=1.0)


def a_total_of_blocks_stays_with_the_servers():
    """Of records that lie with them: neither they nor the sum come here before it is opened."""
    devices = PROTOCOL.ring.servers.devices
    host, records = RemoteHost(PROTOCOL, SystemSource()), []
    for i, device in enumerate(devices):
        with tf.device(device):
            features = tf.constant([[j + 10 * i] for j in range(3 + i)], tf.int64)
            labels = tf.zeros([3 + i, 1], tf.int64)
            records.append(OwnRecords(features=features, labels=labels, frac_bits=20))
    model = share_public(host, [np.zeros((1, 1), np.int64), np.zeros(1, np.int64)])
    summed = SumOf(
        size=1,
        count=lambda model, batch: batch.x.sum(0),
        finish=lambda _, found: [found + found],
    )
    words = host.total(model, records, (3, 4, 5), 3, summed)
    assert [part.backing_device for own in words for part in own] == [*devices]
    (opened,) = host.open(words)
    assert opened.tolist() == [2 * (3 + 46 + 110)]


def calls_differ():
    run = graph(lambda: share_values(given()))
    first, second = (tf.nest.flatten(run()) for _ in range(2))
    assert not any(np.any(a == b) for a, b in zip(first, second, strict=True))


def an_owner_without_the_compiled_words_draws_the_portable_ones():
    """The servers keep theirs, and a warning says who has which."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("tfe_ext").addHandler(handler)
    choice._warned.clear()
    with tfe_ext.ABY3(fixedpoint_config="f20") as protocol:
        x = given()
        np.testing.assert_allclose((x * x).reveal().to_native(), X * X, atol=2.0**-12)
        on = protocol.ring.servers.private.keystream_on
    logging.getLogger("tfe_ext").removeHandler(handler)
    (text,) = said
    if on is keystream_on:  # nobody has a compiler
        assert "The compiled ChaCha20 is not used" in text
        return
    servers = ", ".join(f"player server{i}" for i in range(3))
    assert f"compiled on {servers} and portable, which is slower, on player owner: " in text
    demanded = choice.choose("native", PROTOCOL.ring.servers.devices)
    with pytest.raises(NativeError, match="player owner does not know it"):
        demanded(CONFIG.get_player("owner").device_name)


def lost_players_are_an_error_in_the_block():
    """All three are; whichever is missed first is named."""
    with pytest.raises(PlayerLostError, match="player server[012] no longer") as caught, CONFIG:
        given()
    assert isinstance(caught.value.__cause__, tf.errors.OpError)


def players_that_came_back_compute():
    """In this process, which was connected to those before: variables, graphs, keys and inputs."""
    before = sys.excepthook
    with tfe_ext.remote_config(FILE) as config:
        assert sys.excepthook != before
        tfe.set_config(config)
        with tfe_ext.ABY3(fixedpoint_config="f20"):
            kept = tfe.define_private_variable(X)
            square = graph(lambda: (given() * kept).reveal().to_native())
            np.testing.assert_allclose(square(), X * X, atol=2.0**-12)
    assert sys.excepthook is sys.__excepthook__


def functions_run_after_assignments():
    """Large ones, which take their time on the way."""
    variables = []
    for player in CONFIG.players:
        with tf.device(player.device_name):
            variables.append(tf.Variable(np.zeros(200_000)))

    @graph
    def read():
        return [variable.read_value()[0] for variable in variables]

    waits = []
    wait = Context.sync_executors
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(Context, "sync_executors", lambda own: waits.append(0) or wait(own))
    for number in range(40):
        for variable in variables:
            variable.assign(np.full(200_000, float(number)))
        before = len(waits)
        for _ in range(2):
            assert [float(value) for value in read.get_concrete_function()()] == [number] * 4
        assert len(waits) > before
    monkeypatch.undo()
    assert len(waits) < 60, "the second call waits as well"
    with tf.device(CONFIG.players[0].device_name):
        nothing = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="nothing")
        with pytest.raises(tf.errors.OpError):
            tf.raw_ops.ReadVariableOp(resource=nothing, dtype=tf.float32)
    assert float(read()[0]) == 39


def memory_of_all(pids, steps, every):
    """The memory of players and script in bytes, by name, after so many steps each.

    The rate changes with each step, and every hundredth is evaluated.
    """
    model = Sequential([Dense(2, batch_input_shape=[1, 4])])
    optimizer = DPSGD(0.5, 1.0, 4.0, 0.5)
    model.compile(optimizer, BinaryCrossentropy())
    draws, owners = np.random.default_rng(0), ("server0", "owner")
    x = {name: draws.uniform(-0.5, 0.5, (20, 4)) for name in owners}
    y = {name: draws.integers(0, 2, 20) for name in owners}
    others = {name: -values for name, values in x.items()}
    sizes = {name: [] for name in (*pids, "script")}

    def note(_, logs):
        optimizer.learning_rate = 0.5 + 0.4 * np.cos(logs["step"])
        if logs["step"] % 100 == 0:
            model.evaluate(others, y)
        if logs["step"] % every == 0:
            for name, found in sizes.items():
                found.append(private_memory(pids.get(name, os.getpid())))

    model.fit(x, y, steps=steps, verbose=False, callbacks=[LambdaCallback(on_train_batch_end=note)])
    return sizes


def threads_run_while_a_player_is_waited_for(pid):
    """TensorFlow would keep Python's lock, so that nobody notices that the player is lost."""
    functions = [graph(lambda: tf.constant(1.0))]
    functions[0].get_concrete_function()

    def send():
        with tf.device(CONFIG.get_player("server1").device_name):
            tf.constant(X)

    def forget():
        functions.clear()
        gc.collect()

    for work in (lambda: graph(lambda: tf.constant(2.0)).get_concrete_function(), forget, send):
        woken = []

        def wake(woken=woken):
            time.sleep(0.3)
            woken.append(True)
            os.kill(pid, signal.SIGCONT)

        rescue = subprocess.Popen(["sh", "-c", f"sleep 20; kill -CONT {pid}"])
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: " T " in Path(f"/proc/{pid}/stat").read_text(), "the stop")
        threading.Thread(target=wake).start()
        work()
        with tf.device(CONFIG.get_player("server1").device_name):
            tf.identity(1.0).numpy()
        assert woken
        rescue.kill()
        rescue.wait()


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
    with pytest.raises(PlayerLostError, match=r"server0 does not .*: number 2 .* is server1 in"):
        tfe_ext.remote_config(swapped)


def players_in_another_order_are_refused():
    """The owner answers at its address, in the last place of its file, and nobody else is named."""
    addresses = json.loads(FILE.read_text())
    turned = FILE.with_name("turned.json")
    turned.write_text(json.dumps({"owner": addresses.pop("owner"), **addresses}))
    said = r"player owner does not .*: number 4 in its own file, .* in the same order"
    with pytest.raises(PlayerLostError, match=said):
        tfe_ext.remote_config(turned)
