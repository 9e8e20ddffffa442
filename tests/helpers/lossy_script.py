"""A script that trains with checkpoints and goes on after every lost player, as a user writes it.

Run as ``python -m tests.helpers.lossy_script PLAYERS FD``. It trains once for each task, a folder,
and tells where it is, whom it lost, and what came out.
"""

import sys
import time
from pathlib import Path

import numpy as np
from tf_keras.callbacks import LambdaCallback

import tfe_ext
from extensions.errors import ArgumentError, PlayerLostError
from extensions.privacy.randomness import InsecureSeededSource
from extensions.runs.processes import open_channel
from tests.helpers.lossy_session import STEPS
from tfe_ext.keras import DPSGD, BinaryCrossentropy, Checkpoints, Sequential

import tf_encrypted as tfe
from tf_encrypted.keras.layers import Dense

EVERY = 2
JOIN_SECONDS = 45
SIZES = (30, 20)
FINISHED = "of a run that is not finished"
TOO_EARLY = ("a folder with a checkpoint of party", "that all parties have a checkpoint of")
"""What a player says that was lost before its first checkpoint: nothing was released."""


def owned():
    """Features and labels of a server and of an owner who is none."""
    draws, x, y = np.random.default_rng(5), {}, {}
    for name, size in zip(("server0", "owner"), SIZES, strict=True):
        x[name], y[name] = draws.uniform(-0.4, 0.4, (size, 4)), draws.integers(0, 2, size)
    return x, y


def train(folder, resume, say):
    """What a whole run gives: the model, what was counted, and where it was resumed."""
    optimizer = DPSGD(0.5, 1.0, 1.0, 0.3, source=InsecureSeededSource(4))
    model = Sequential([Dense(2, batch_input_shape=[1, 4])])
    model.compile(optimizer, BinaryCrossentropy())
    model.set_weights([np.full(shape, 0.1) for shape in ((4, 2), (2,))])
    kept = Checkpoints(model, folder, steps=STEPS, every=EVERY, resume=resume, settings={"seed": 4})
    made = kept.begin()
    if made is None:
        kept.after(0)
    say(begun=made)

    told = LambdaCallback(on_train_batch_end=lambda _, logs: say(step=logs["step"]))
    after, (x, y) = [kept, told], owned()
    model.fit(x, y, steps=STEPS, initial_step=made or 0, verbose=False, callbacks=after)
    opened = kept.release()
    weights = {name: values.tolist() for name, values in opened.items()}
    return {"weights": weights, "state": optimizer.state_dict(), "resumed": kept.resumed}


def survive(file, folder, say):
    """Trains until it is done, whoever is lost; None if another process finished the run."""
    while True:
        try:
            resume = folder.exists() and any(folder.iterdir())
            with tfe_ext.remote_config(file, join_timeout=JOIN_SECONDS) as config:
                tfe.set_config(config)
                tfe.set_protocol(tfe_ext.ABY3(fixedpoint_config="f20"))
                return train(folder, resume, say)
        except PlayerLostError as lost:
            say(lost=lost.player, why=str(lost))
        except ArgumentError as refused:
            if FINISHED in str(refused):
                return None
            if not any(rule in str(refused) for rule in TOO_EARLY):
                raise
            folder = folder.with_name(f"{folder.name}-anew")


def main():
    """Trains until the launcher goes."""
    channel = open_channel()

    def say(**facts):
        channel.say("told", {"at": time.monotonic(), **facts})

    while True:
        say(done=survive(sys.argv[1], Path(channel.tasks.get().decode()), say))


if __name__ == "__main__":
    main()
