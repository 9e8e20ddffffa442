"""Checkpoints of an encrypted model in training: each party keeps its own shares, and goes on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from crypten_ext.ring.crypten_ring import check_same_bits, ring_of
from crypten_ext.ring.exchange import open_sum
from crypten_ext.world import exchange
from extensions.ring.fixed_point import Integers
from extensions.runs.checkpoints import CheckpointOptions, PartyCheckpoints, ScriptCheckpoints
from extensions.runs.checkpoints.script import Words

from crypten import communicator


class Checkpoints(ScriptCheckpoints):
    """Saves a run so that you can interrupt it, continue it, and release its model once.

    See `extensions.runs.checkpoints`.

    Make one at every party, with a folder on its own host. Parties on one host may share a folder,
    because files bear their ranks:

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

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.DPSGD(model, 1.0, 1.0, 2.0, sample_rate=1.0)
        >>> checkpoints = crypten_ext.Checkpoints(model, optimizer, "run-7", steps=1)
        >>> made = checkpoints.begin() or 0
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        ...     optimizer.step()
        ...     checkpoints.after(made + 1)
        >>> sorted(checkpoints.release())
        ['bias', 'weight']
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
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
        frac_bits = min(ring_of(p).frac_bits for p in self._parameters.values())
        facts = {
            "parameters": {name: list(p.size()) for name, p in self._parameters.items()},
            "frac_bits": frac_bits,
        }
        party = PartyCheckpoints(
            CheckpointOptions(folder=Path(folder), every=every, resume=resume),
            communicator.get().get_rank(),
            steps=steps,
            settings={**(settings or {}), **facts},
            own=own or {},
        )
        super().__init__([party], exchange, frac_bits)

    def _restore(self, shares: Words, state: Mapping[str, Any]) -> None:
        for own in shares:
            for name, parameter in self._parameters.items():
                parameter.share = torch.from_numpy(own[name].copy())
            self._optimizer.load_state_dict(state)
            self._optimizer.load_shares(own)

    @property
    def _source(self) -> Any:
        return self._optimizer.source

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._optimizer.state_dict()
        return state

    def _shares(self) -> Words:
        own = {name: p.share.numpy() for name, p in self._parameters.items()}
        return [{**own, **self._optimizer.shares()}]

    def _words(self, values: Mapping[str, Any] | None) -> Words:
        made = self._parameters if values is None else values
        for name, value in made.items():
            check_same_bits(name, value, self._frac_bits)
        return [{name: value.share.numpy() for name, value in made.items()}]

    def _open(self, words: Sequence[Sequence[Integers]]) -> Sequence[Integers]:
        (own,) = words
        return [value.numpy() for value in open_sum([*map(torch.tensor, own)])] if own else []
