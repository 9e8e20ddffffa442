"""What an optimizer of scripts counts and spends, on whatever host it makes its steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from extensions.errors import ArgumentError
from extensions.privacy.accounting import Ledger, Neighbours
from extensions.privacy.randomness import SystemSource, hidden_multiplier
from extensions.protocols.drift import Drift
from extensions.protocols.settings import TRAINING, ScriptTraining
from extensions.protocols.updates import UpdateRule
from extensions.ring.interface import NoiseSource


class Counted:
    """An optimizer of scripts, which counts its steps.

    Args:
        source: of noise; None for the system's.
    """

    def __init__(self, settings: ScriptTraining, source: NoiseSource | None) -> None:
        self._settings = settings
        self._source = source or SystemSource()
        self._drift = Drift(settings.max_weight_norm)
        self._shift: int | None = None
        self._ledger = Ledger()

    @property
    def source(self) -> NoiseSource:
        """Where noise comes from; another one holds from the next step on."""
        return self._source

    @source.setter
    def source(self, source: NoiseSource | None) -> None:
        self._source = source or SystemSource()

    @property
    def iterations(self) -> int:
        """Number of steps made."""
        return self._drift.steps

    def public(self, rule: UpdateRule) -> Sequence[int]:
        """Returns the public integers of the next step."""
        return rule.public(self.iterations + 1, last=self._shift)

    def count(self, rule: UpdateRule) -> None:
        """Counts a step."""
        self._shift = rule.last(self.public(rule))
        self._drift.count(rule)

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, public, as values that JSON can hold."""
        return {"drift": self._drift.state(), "shift": self._shift}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights of then."""
        self._drift.restore(state["drift"])
        self._shift = state.get("shift", state.get("momentum"))  # as earlier versions called it


class Charged(Counted):
    """An optimizer whose steps cost the records something."""

    @property
    def ledger(self) -> Ledger:
        """What the steps have cost so far; all else that is opened is recorded in it too."""
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: object) -> None:
        raise ArgumentError(
            f"{type(self).__name__}.ledger",
            type(ledger).__name__,
            "otherwise two optimizers would load each other's steps",
            "To add what another optimizer spent, call optimizer.ledger.add(other.ledger).",
            code="fixed",
        )

    def record(self, noise: float, overflow_probability: float, steps: int = 1) -> None:
        """Enters so many steps of a noise into the ledger, and how probably some of them fail."""
        self.ledger.record(
            TRAINING,
            noise_multiplier=hidden_multiplier(noise, self.source),
            sample_rate=self._settings.sample_rate,
            steps=steps,
            overflow_probability=overflow_probability,
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, the ledger included."""
        return {**super().state_dict(), "ledger": self.ledger.to_json()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights of then.

        What this optimizer's ledger has besides steps, such as another whitening, stays in it.
        """
        super().load_state_dict(state)
        self._ledger = self._ledger.restored(state["ledger"], TRAINING)

    def get_epsilon(self, delta: float, *, neighbours: Neighbours = "add-remove") -> float:
        """Returns the epsilon that this optimizer spent so far at `delta`, by the PLD accountant.

        Of a model that another one trained before, first add what that one spent:
        ``optimizer.ledger.add(other.ledger)``.

        Args:
            neighbours: "add-remove", where one record of one owner counts or has a null record in
                its place, or "replace", where it is another. Numbers of records are public.
        """
        return self.ledger.get_epsilon(delta, neighbours=neighbours)
