"""Checkpoints of a model on ABY3's servers: a file of shares for each, written by the client."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tf_keras.callbacks import Callback

from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols.agreement import Words
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.runs.checkpoints import (
    CheckpointOptions,
    PartyCheckpoints,
    complete_together,
    settle_together,
    store_together,
)
from tfe_ext.keras import weights
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.sequential import Sequential
from tfe_ext.ring.aby3_ring import ABY3Ring
from tfe_ext.ring.private_tensors import share_of


class Checkpoints(Callback):
    """What a run needs to be interrupted, continued, and released once; a callback of Keras.

        checkpoints = Checkpoints(model, "run-7", steps=500, resume=resume, settings=...)
        made = checkpoints.begin() or 0
        model.fit(x, y, steps=500, initial_step=made, callbacks=[checkpoints])
        opened = checkpoints.release()      # the model, or what is computed of it; nothing else

    Where the model does not start from public values, share the start if `begin` returns None and
    call `after(0)` then.

    Args:
        model: compiled; its optimizer's ledger and counts are kept too.
        folder: of the three servers' files; a new run needs one without such files.
        steps: of the whole run.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: whether to go on with the run in the folder.
        settings: everything else public on which the run depends, as JSON; to resume, the same as
            before.
        own: likewise.

    Guarantees:
        The file of server R holds its summand x_R, which tells nothing. The client writes all
        three: it may read every share anyway, with players in other processes too, and its folder
        is as sensitive as the model and as what `Sequential.save_shares` writes.
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
        shapes = {name: list(part.shape) for name, part in weights.shares(model.chain)[0].items()}
        facts = {"parameters": shapes, "frac_bits": model.frac_bits}
        options = CheckpointOptions(folder=Path(folder), every=every, resume=resume)
        self._parties = [
            PartyCheckpoints(
                options, rank, steps=steps, settings={**(settings or {}), **facts}, own=own or {}
            )
            for rank in range(ABY3Ring.parties)
        ]
        self._outputs: Sequence[Mapping[str, Integers]] = []

    def begin(self) -> int | None:
        """Restores the model, and returns the number of steps made; None for a new run.

        Raises:
            ArgumentError: nothing to resume, or what does not fit.
        """
        bases = [base for base in settle_together(self._parties) if base is not None]
        if not bases:
            return None
        self._outputs = [base.outputs for base in bases if base.recipients]
        self._model.resume([base.shares for base in bases])
        optimizer: Optimizer = self._model.optimizer
        optimizer.load_state_dict(bases[0].optimizer)
        if isinstance(optimizer.source, InsecureSeededSource):
            optimizer.source.load_state_dict(bases[0].source or {})
        return bases[0].step

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Writes the servers' shares after a step of `Sequential.fit`, if a checkpoint is due."""
        self.after((logs or {})["step"])

    def after(self, step: int) -> None:
        """Writes the servers' shares after so many steps, if a checkpoint is due."""
        if not self._parties[0].is_due(step):
            return
        for party, own in zip(self._parties, self._model.training_shares(), strict=True):
            party.write(step, own, **self._state())

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
            model = weights.shares(self._model.chain)
            self._outputs = model if compute is None else self._words(compute())
            words = [*zip(self._model.training_shares(), self._outputs, strict=True)]
            store_together(self._parties, _alone, words, **self._state())
        for party in self._parties:
            party.mark()
        opened = {
            name: decode(
                np.sum([own[name] for own in self._outputs], axis=0), self._model.frac_bits
            )
            for name in self._outputs[0]
        }
        complete_together(self._parties, _alone, json.dumps({"opened": [*opened]}), opened)
        return opened

    def _words(self, values: Mapping[str, Any]) -> list[dict[str, Integers]]:
        """Each server's summands of private tensors."""
        ring = self._model.chain.flat[0].prot.ring
        parts = {name: share_of(ring, value, name).parts[::2] for name, value in values.items()}
        return [
            {name: own[rank].numpy() for name, own in parts.items()}
            for rank in range(ABY3Ring.parties)
        ]

    def _state(self) -> dict[str, Any]:
        optimizer: Optimizer = self._model.optimizer
        source = optimizer.source
        return {
            "optimizer": optimizer.state_dict(),
            "source": source.state_dict() if isinstance(source, InsecureSeededSource) else None,
        }

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._parties[0].resumed


def _alone(own: Sequence[Words]) -> Sequence[Words]:
    """What all servers say, whom this program directs."""
    return own
