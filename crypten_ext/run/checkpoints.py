"""Checkpoints of an encrypted model in training: each party keeps its own shares, and goes on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crypten_ext.nn.recorded_step import RecordedStep
from crypten_ext.ring.crypten_ring import check_same_bits, ring_of
from crypten_ext.ring.opening import open_sum
from crypten_ext.world import exchange
from extensions.privacy.randomness import InsecureSeededSource
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.runs.checkpoints import (
    CheckpointOptions,
    PartyCheckpoints,
    complete_together,
    settle_together,
    store_together,
)

from crypten import communicator
from crypten.mpc import MPCTensor


class Checkpoints:
    """What a run needs to be interrupted, continued, and released once.

    See `extensions.runs.checkpoints`.

    Every party makes one, with a folder of its own on its own host (several parties may share a
    folder: files bear their ranks):

        checkpoints = Checkpoints(model, optimizer, "run-7", steps=500, resume=resume, settings=...)
        made = checkpoints.begin() or 0
        for step, (x, y) in enumerate(islice(batches, 500 - made), start=made + 1):
            ...                             # zero_grad, backward, step
            checkpoints.after(step)
        opened = checkpoints.release()      # the model, or what is computed of it; nothing else

    Where the model does not start from public values, share the start if `begin` returns None and
    call `after(0)` then.

    Args:
        model: encrypted, trained by the optimizer.
        optimizer: `optim.DPSGD` or `optim.SGD`; its ledger and counts are kept too, and
            where its source of noise stands, if that is seeded.
        folder: of this party's files; a new run needs one without files of this party.
        steps: of the whole run.
        every: number of steps between two checkpoints; by default a tenth of the run.
        resume: whether to go on with the run in the folder.
        settings: everything else public on which the run depends, as JSON; the same at all parties
            and, to resume, the same as before.
        own: likewise, but this party's alone, such as the number of its records.

    Cost:
        Two rounds in `begin`, three in `release`; a checkpoint is a local file of 8 bytes a
        parameter, 16 with momentum.
    """

    def __init__(
        self,
        model: Any,
        optimizer: RecordedStep,
        folder: str | Path,
        *,
        steps: int,
        every: int | None = None,
        resume: bool = False,
        settings: Mapping[str, Any] | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> None:
        self._optimizer = optimizer
        self._parameters = dict(model.named_parameters())
        self._frac_bits = min(ring_of(p).frac_bits for p in self._parameters.values())
        facts = {
            "parameters": {name: list(p.size()) for name, p in self._parameters.items()},
            "frac_bits": self._frac_bits,
        }
        self._outputs: Mapping[str, Integers] | None = None
        self._party = PartyCheckpoints(
            CheckpointOptions(folder=Path(folder), every=every, resume=resume),
            communicator.get().get_rank(),
            steps=steps,
            settings={**(settings or {}), **facts},
            own=own or {},
        )

    def begin(self) -> int | None:
        """Returns the number of steps made, and the model is that after them; None for a new run.

        Raises:
            ArgumentError: nothing to resume, or what does not fit, in every party and before
                anything is shared.
        """
        (base,) = settle_together([self._party], exchange)
        if base is None:
            return None
        for name, parameter in self._parameters.items():
            parameter.share = torch.from_numpy(base.shares[name].copy())
        self._optimizer.load_state_dict(base.optimizer)
        self._optimizer.load_shares(base.shares)
        if isinstance(self._optimizer.source, InsecureSeededSource):
            self._optimizer.source.load_state_dict(base.source or {})
        self._outputs = base.outputs if base.recipients else None
        return base.step

    def after(self, step: int) -> None:
        """This party's shares after so many steps are on disk, if a checkpoint is due."""
        if self._party.is_due(step):
            self._party.write(step, self._shares(), **self._state())

    def release(
        self, compute: Callable[[], Mapping[str, MPCTensor]] | None = None
    ) -> dict[str, Reals]:
        """Returns to every party what is opened of the run, which can be done once for a run.

        If it is interrupted, a script that resumes makes no step, and calls it again: then exactly
        the words that were stored are opened, and nothing is computed. The result is also in the
        folder, ``party-R-opened.npz``.

        Args:
            compute: returns by name what is opened, of the model's fractional bits; by default the
                model's parameters.

        Raises:
            PeaError: another continuation of the run was finished, or a party cannot write.
        """
        party = [self._party]
        if self._outputs is None:
            made = self._parameters if compute is None else compute()
            self._outputs = {name: self._words(name, value) for name, value in made.items()}
            store_together(party, exchange, [(self._shares(), self._outputs)], **self._state())
        self._party.mark()
        words = [torch.from_numpy(np.array(own)) for own in self._outputs.values()]
        values = [value.numpy() for value in open_sum(words)] if words else []
        decoded = [decode(value, self._frac_bits) for value in values]
        opened = dict(zip(self._outputs, decoded, strict=True))
        complete_together(party, exchange, json.dumps({"opened": [*opened]}), opened)
        return opened

    def _shares(self) -> dict[str, Integers]:
        own = {name: p.share.numpy() for name, p in self._parameters.items()}
        return {**own, **self._optimizer.shares()}

    def _words(self, name: str, value: MPCTensor) -> Integers:
        check_same_bits(name, value, self._frac_bits)
        words: Integers = value.share.numpy()
        return words

    def _state(self) -> dict[str, Any]:
        source = self._optimizer.source
        return {
            "optimizer": self._optimizer.state_dict(),
            "source": source.state_dict() if isinstance(source, InsecureSeededSource) else None,
        }

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._party.resumed
