"""Checkpoints of an encrypted model in training: each party keeps its own shares, and goes on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from crypten_ext.nn.recorded_step import RecordedStep
from crypten_ext.ring.crypten_ring import ring_of
from crypten_ext.world import exchange
from extensions.privacy.randomness import InsecureSeededSource
from extensions.runs.checkpoints import CheckpointOptions, PartyCheckpoints, settle_together

from crypten import communicator


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
        checkpoints.finish()                # and only now open something

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
        Two rounds in `begin`; a checkpoint is a local file of 8 bytes a parameter.
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
        facts = {
            "parameters": {name: list(p.size()) for name, p in self._parameters.items()},
            "frac_bits": sorted({ring_of(p).frac_bits for p in self._parameters.values()})[0],
        }
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
        if isinstance(self._optimizer.source, InsecureSeededSource):
            self._optimizer.source.load_state_dict(base.source or {})
        return base.step

    def after(self, step: int) -> None:
        """This party's shares after so many steps are on disk, if a checkpoint is due."""
        if self._party.is_due(step):
            source = self._optimizer.source
            self._party.write(
                step,
                {name: p.share.numpy() for name, p in self._parameters.items()},
                optimizer=self._optimizer.state_dict(),
                source=source.state_dict() if isinstance(source, InsecureSeededSource) else None,
            )

    def finish(self) -> None:
        """The run is marked as finished; call it before anything is opened.

        Raises:
            PeaError: another continuation of the run was finished.
        """
        self._party.finish()

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._party.resumed
