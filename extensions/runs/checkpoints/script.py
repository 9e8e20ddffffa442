"""What is the same of a script's checkpoints on every host."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from extensions.protocols.agreement import Exchange
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.runs.checkpoints.all_parties import AllCheckpoints
from extensions.runs.checkpoints.party import PartyCheckpoints

Words = Sequence[Mapping[str, Integers]]
"""Of each party of the program its summands, by name."""


class ScriptCheckpoints:
    """What a run needs to be interrupted, continued, and released once."""

    def __init__(
        self, parties: Sequence[PartyCheckpoints], exchange: Exchange, frac_bits: int
    ) -> None:
        self._all = AllCheckpoints(parties, exchange, lambda: self._source)
        self._frac_bits = frac_bits

    def begin(self) -> int | None:
        """Returns the number of steps made, and the model is that after them; None for a new run.

        It is None, too, for a run that was interrupted before its first checkpoint, after something
        was opened: the run begins anew, and its ledgers go on. What does not fit is refused in
        every party and before anything is shared.
        """
        bases = self._all.settle()
        state = {**(bases[0].optimizer if bases else {}), **self._all.parties[0].spent}
        self._restore([base.shares for base in bases], state)
        return bases[0].step if bases else None

    def after(self, step: int) -> None:
        """Writes each party's shares after so many steps, if a checkpoint is due."""
        self._all.write(step, self._shares, self._state)

    def release(self, compute: Callable[[], Mapping[str, Any]] | None = None) -> dict[str, Reals]:
        """Returns what is opened of the run to every party, which can be done once for a run.

        If it is interrupted, a script that resumes makes no step, and calls it again: then exactly
        the words that were stored are opened, and nothing is computed. The result is also in the
        folder, ``party-R-opened.npz``.

        Args:
            compute: returns by name the private values that are opened, of the model's fractional
                bits; by default the model's parameters.

        Raises:
            PeaError: another continuation of the run was finished, or a party cannot write.
        """
        if not self._all.outputs:
            outputs = self._words(None if compute is None else compute())
            self._all.store(self._shares(), outputs, self._state())
        for party in self._all.parties:
            party.mark()
        names = [*self._all.outputs[0]]
        values = self._open([[own[name] for name in names] for own in self._all.outputs])
        decoded = [decode(value, self._frac_bits) for value in values]
        opened = dict(zip(names, decoded, strict=True))
        self._all.complete(json.dumps({"opened": names}), opened)
        return opened

    @property
    def resumed(self) -> tuple[int, ...]:
        """The steps from which the run was continued, in order."""
        return self._all.resumed

    @property
    def _source(self) -> Any:
        """What noise is drawn from."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """Ledger and counts of the optimizer."""
        raise NotImplementedError

    def _shares(self) -> Words:
        """All that the training goes on from, of each party."""
        raise NotImplementedError

    def _words(self, values: Mapping[str, Any] | None) -> Words:
        """Summands of private values, by default of the model's parameters."""
        raise NotImplementedError

    def _open(self, words: Sequence[Sequence[Integers]]) -> Sequence[Integers]:
        """What all parties' words add up to."""
        raise NotImplementedError

    def _restore(self, shares: Words, state: Mapping[str, Any]) -> None:
        """The model has these shares, and counts `state` as spent; either may be empty."""
        raise NotImplementedError
