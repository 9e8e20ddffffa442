"""Checkpoints of a model on ABY3's servers: a file of shares for each, which its player writes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tf_keras.callbacks import Callback

from extensions.ring.fixed_point import Integers, Reals
from extensions.runs.checkpoints import (
    CheckpointOptions,
    ScriptCheckpoints,
    local_exchange,
    run_concurrently,
)
from extensions.runs.checkpoints.script import Words
from tfe_ext.keras import weights
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.sequential import Sequential
from tfe_ext.players.records.remote_store import share_store_on
from tfe_ext.ring.private_tensors import share_of

_SPENT = ("ledger", "held_out", "opened")
"""What of the state tells what was spent, wherever the weights are."""


class Checkpoints(ScriptCheckpoints, Callback):
    """Saves a run so that you can interrupt it, continue it, and release its model once.

        checkpoints = Checkpoints(model, "run-7", steps=500, resume=resume, settings=...)
        made = checkpoints.begin() or 0
        model.fit(x, y, steps=500, initial_step=made, callbacks=[checkpoints])
        opened = checkpoints.release()      # the model, or what is computed of it; nothing else

    Where the model does not start from public values, share the start if `begin` returns None and
    call `after(0)` then.

    Args:
        model: compiled; its ledgers and counts, and its optimizer's, are kept too.
        folder: of the servers' files, each at its own player; a new run needs a folder without
            such files.
        steps: of the whole run.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: whether to go on with the run in the folder.
        settings: all other public values on which the run depends, as JSON; to resume, the same as
            before.
        own: likewise.

    Guarantees:
        The file of server R holds its summand x_R, which on its own reveals nothing. With
        `tfe_ext.remote_config` each player writes its own server's file, marks the release itself,
        and rejects a second one; shares reach the script only in `release`, for the values that it
        opens. If the servers run in the script's process, or are TF Encrypted's own players, the
        script writes all three files, and the folder is as sensitive as the model.
        `Sequential.save_shares` does the same.

        Between `begin` and `release`, `fit`, `evaluate`, `predict` and `get_weights` open a value
        only after both ledgers are on disk with its cost. A resumed run counts everything that was
        opened and all steps before it, also those that were lost and repeated.

    Cost:
        With players a request to each and its answer, all at once, for every checkpoint, and
        before anything is opened.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> optimizer = tfe_ext.keras.DPSGD(1.0, 1.0, 2.0, sample_rate=1.0)
        >>> model.compile(optimizer, tfe_ext.keras.BinaryCrossentropy())
        >>> checkpoints = tfe_ext.keras.Checkpoints(model, "run-7", steps=1)
        >>> made = checkpoints.begin() or 0
        >>> history = model.fit(
        ...     x, y, steps=1, initial_step=made, verbose=False, callbacks=[checkpoints]
        ... )
        >>> sorted(checkpoints.release())
        ['bias_0', 'weight_0']
    """

    def __init__(
        self,
        model: Sequential,
        folder: str | Path,
        *,
        steps: int,
        every: int | None = None,
        resume: bool = False,
        settings: Mapping[str, Any] | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> None:
        Callback.__init__(self)
        self._model = model
        shapes = {name: [*shape] for name, shape in weights.shapes_of(model.chain).items()}
        facts = {"parameters": shapes, "frac_bits": model.ring.frac_bits}
        options = CheckpointOptions(folder=Path(folder), every=every, resume=resume)
        run = {"steps": steps, "settings": {**(settings or {}), **facts}, "own": own or {}}
        self._shelves = share_store_on(model.ring.servers.devices)
        parties = self._shelves.checkpoints(options, run)
        ScriptCheckpoints.__init__(self, parties, local_exchange, model.ring.frac_bits)

    def _restore(self, shares: Words, state: Mapping[str, Any]) -> None:
        if shares:
            self._model.resume(shares)
        if state:
            optimizer: Optimizer = self._model.optimizer
            optimizer.load_state_dict({**optimizer.state_dict(), **state})
            self._model.load_spent(state)
        self._model.keep_spent = self._charge

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Writes the servers' shares after a step of `Sequential.fit`, if a checkpoint is due."""
        self.after((logs or {})["step"])

    def _charge(self) -> None:
        """Writes to disk what the model has spent, so that more of it may be opened."""
        state = self._state()
        spent = {name: state[name] for name in _SPENT if name in state}
        run_concurrently(lambda party: party.charge(spent), self._all.parties)

    def release(self, compute: Callable[[], Mapping[str, Any]] | None = None) -> dict[str, Reals]:
        """As `ScriptCheckpoints.release`; layer i has ``weight_i``, (out, in), and ``bias_i``."""
        opened = super().release(compute)
        self._model.keep_spent = None
        return opened

    @property
    def _source(self) -> Any:
        return self._model.optimizer.source

    def _state(self) -> dict[str, Any]:
        return {**self._model.optimizer.state_dict(), **self._model.spent()}

    def _shares(self) -> Words:
        return self._shelves.kept(self._model.training_shares())

    def _words(self, values: Mapping[str, Any] | None) -> Words:
        if values is None:
            names = weights.shapes_of(self._model.chain)
            return [{name: own[name] for name in names} for own in self._shares()]
        ring, ranks = self._model.ring, range(len(self._all.parties))
        parts = {name: share_of(ring, value, name).parts[::2] for name, value in values.items()}
        of_each = [{name: own[rank] for name, own in parts.items()} for rank in ranks]
        return self._shelves.kept(of_each)

    def _open(self, words: Sequence[Sequence[Integers]]) -> Sequence[Integers]:
        return [np.sum([*map(np.asarray, parts)], axis=0) for parts in zip(*words, strict=True)]
