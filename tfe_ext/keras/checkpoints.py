"""Checkpoints of a model on ABY3's servers: a file of shares for each, which its player writes."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tf_keras.callbacks import Callback

from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.agreement import Words
from extensions.ring.fixed_point import Reals, decode
from extensions.runs.checkpoints import (
    CheckpointOptions,
    PartyCheckpoints,
    at_once,
    complete_together,
    settle_together,
    store_together,
)
from tfe_ext.keras import weights
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.sequential import Sequential
from tfe_ext.players.records.shelves import shelves_on
from tfe_ext.ring.private_tensors import share_of

_SPENT = ("ledger", "held_out", "opened")
"""What of the state tells what was spent, wherever the weights are."""


class Checkpoints(Callback):
    """What a run needs to be interrupted, continued, and released once; a callback of Keras.

        checkpoints = Checkpoints(model, "run-7", steps=500, resume=resume, settings=...)
        made = checkpoints.begin() or 0
        model.fit(x, y, steps=500, initial_step=made, callbacks=[checkpoints])
        opened = checkpoints.release()      # the model, or what is computed of it; nothing else

    Where the model does not start from public values, share the start if `begin` returns None and
    call `after(0)` then.

    Args:
        model: compiled; its ledgers and counts, and its optimizer's, are kept too.
        folder: of the servers' files, each at its own player, where that is started; a new run
            needs one without such files.
        steps: of the whole run.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: whether to go on with the run in the folder.
        settings: everything else public on which the run depends, as JSON; to resume, the same as
            before.
        own: likewise.

    Guarantees:
        The file of server R holds its summand x_R, which tells nothing. With players that
        `tfe_ext.remote_config` connects (`pea players`) each writes its own server's file, marks
        the release itself and refuses another one; no share comes to the script until `release`,
        which gets the words of what is opened. Where the servers are devices of the script's own
        process, or players of TF Encrypted's own, the script writes all three files, and the folder
        is as sensitive as the model. `Sequential.save_shares` does the same.

        Between `begin` and `release` nothing is opened of the model, by `fit`, `evaluate`,
        `predict` or `get_weights`, before both ledgers are on disk with what it costs. A run that
        goes on, from whichever checkpoint, has in them all that was opened, and all steps before
        it, those that are lost and made again included.

    Cost:
        With players a request to each and its answer, all at once, for every checkpoint, and
        before anything is opened.
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
        super().__init__()
        self._model = model
        shapes = {name: [*shape] for name, shape in weights.shapes_of(model.chain).items()}
        facts = {"parameters": shapes, "frac_bits": model.frac_bits}
        options = CheckpointOptions(folder=Path(folder), every=every, resume=resume)
        run = {"steps": steps, "settings": {**(settings or {}), **facts}, "own": own or {}}
        self._shelves = shelves_on(model.ring.servers.devices)
        self._parties = self._shelves.checkpoints(options, run)
        self._outputs: Sequence[Mapping[str, Any]] = []

    def begin(self) -> int | None:
        """Restores the model, and returns the number of steps made; None for a new run.

        It is None, too, for a run that was interrupted before its first checkpoint, after something
        was opened: the run begins anew, and its ledgers go on.

        Raises:
            ArgumentError: nothing to resume, or what does not fit.
        """
        bases = [base for base in settle_together(self._parties) if base is not None]
        optimizer: Optimizer = self._model.optimizer
        if bases:
            self._outputs = [base.outputs for base in bases if base.recipients]
            self._model.resume([base.shares for base in bases])
            if isinstance(optimizer.source, InsecureSeededSource):
                optimizer.source.load_state_dict(bases[0].source or {})
        went_on = {**(bases[0].optimizer if bases else {}), **self._parties[0].spent}
        if went_on:
            optimizer.load_state_dict({**optimizer.state_dict(), **went_on})
            self._model.load_spent(went_on)
        self._model.keep_spent = self._charge
        return bases[0].step if bases else None

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Writes the servers' shares after a step of `Sequential.fit`, if a checkpoint is due."""
        self.after((logs or {})["step"])

    def after(self, step: int) -> None:
        """Writes the servers' shares after so many steps, if a checkpoint is due."""
        if not self._parties[0].is_due(step):
            return
        state = self._state()

        def write(party: PartyCheckpoints, own: Mapping[str, Any]) -> None:
            party.write(step, own, **state)

        at_once(write, self._parties, self._shares())

    def _charge(self) -> None:
        """What the model has spent is on disk, so that more of it may be opened."""
        state = self._state()["optimizer"]
        spent = {name: state[name] for name in _SPENT if name in state}
        at_once(lambda party: party.charge(spent), self._parties)

    def release(self, compute: Callable[[], Mapping[str, Any]] | None = None) -> dict[str, Reals]:
        """Returns what is opened of the run, which can be done once for a run.

        If it is interrupted, a script that resumes makes no step, and calls it again: then exactly
        the words that were stored are opened, and nothing is computed. The result is also in the
        folder, ``party-R-opened.npz``.

        Args:
            compute: returns by name the private tensors that are opened; by default the model:
                ``weight_i``, (out, in), and ``bias_i`` of the i-th layer.

        Raises:
            PeaError: another continuation of the run was finished, or the folder cannot be written.
        """
        if not self._outputs:
            shares = self._shares()
            names = weights.shapes_of(self._model.chain)
            model = [{name: own[name] for name in names} for own in shares]
            self._outputs = model if compute is None else self._words(compute())
            words = [*zip(shares, self._outputs, strict=True)]
            store_together(self._parties, _alone, words, **self._state())
        for party in self._parties:
            party.mark()
        summands = {name: [own[name] for own in self._outputs] for name in self._outputs[0]}
        opened = {
            name: decode(np.sum([*map(np.asarray, parts)], axis=0), self._model.frac_bits)
            for name, parts in summands.items()
        }
        complete_together(self._parties, _alone, json.dumps({"opened": [*opened]}), opened)
        self._model.keep_spent = None
        return opened

    def _shares(self) -> Sequence[Mapping[str, Any]]:
        """All that a training goes on from, of each server, where it is kept."""
        return self._shelves.kept(self._model.training_shares())

    def _words(self, values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Each server's summands of private tensors."""
        ring = self._model.ring
        parts = {name: share_of(ring, value, name).parts[::2] for name, value in values.items()}
        ranks = range(len(self._parties))
        return self._shelves.kept(
            [{name: own[rank] for name, own in parts.items()} for rank in ranks]
        )

    def _state(self) -> dict[str, Any]:
        optimizer: Optimizer = self._model.optimizer
        source = optimizer.source
        return {
            "optimizer": {**optimizer.state_dict(), **self._model.spent()},
            "source": source.state_dict() if isinstance(source, InsecureSeededSource) else None,
        }

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._parties[0].resumed


def _alone(own: Sequence[Words]) -> Sequence[Words]:
    """What all servers say, whom this program directs."""
    return own
