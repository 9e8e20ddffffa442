"""What the optimizers of private training have in common: arguments, and the steps they make."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Self

from extensions.errors import ArgumentError, GradientError
from extensions.layers.chain import Network
from extensions.privacy.accounting import Ledger
from extensions.privacy.ledger import GO_ON
from extensions.protocols.drift import with_largest_rate
from extensions.protocols.optimizer.counted import Counted
from extensions.protocols.settings import ScriptTraining
from extensions.protocols.step import Step
from extensions.protocols.updates import UpdateRule
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.settings import (
    ARGUMENTS,
    FIELDS,
    Argument,
    RateSetting,
    Schedule,
    Setting,
    rate_of,
    training_of,
)
from tfe_ext.ring.aby3_ring import ABY3Ring


class Optimizer(Counted):
    """What all optimizers have in common; see `DPSGD`.

    Arguments are attributes too. A new value holds from the next step on, within `fit` as well;
    of the learning rate and the expected batch size without another trace.
    """

    private: bool
    _beside: Mapping[str, Any] = {}
    """Arguments beside those that all optimizers have."""
    learning_rate = lr = RateSetting()
    sample_rate = Setting()
    expected_batch_size = Setting()
    max_feature_norm = Setting()
    max_weight_norm = Setting()
    overflow_probability = Setting()
    momentum = Argument()

    def __init__(
        self, learning_rate: Any, source: NoiseSource | None, arguments: Mapping[str, Any]
    ) -> None:
        rate, self._schedule = rate_of(learning_rate)
        given = {**arguments, **self._beside, "learning_rate": rate, "private": self.private}
        super().__init__(training_of(given), source)

    def __setattr__(self, name: str, value: Any) -> None:
        own = getattr(type(self), name, None)
        if not (name.startswith("_") or isinstance(own, Setting) or getattr(own, "fset", None)):
            raise ArgumentError(
                f"{type(self).__name__}.{name}",
                type(value).__name__,
                f"you can change {', '.join(_attributes(type(self)))}",
                f"Make another optimizer, compile the model with it, and {GO_ON}",
                code="fixed",
            )
        super().__setattr__(name, value)

    @property
    def settings(self) -> ScriptTraining:
        """All arguments but the source; another value holds from the next step on.

        Setting raises ArgumentError for an argument that this optimizer does not have, or a lower
        max_weight_norm, of which the weights may have moved too far already.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: ScriptTraining) -> None:
        own = _attributes(type(self))
        for field in fields(ScriptTraining):
            name = ARGUMENTS.get(field.name, field.name)
            before, value = getattr(self._settings, field.name), getattr(settings, field.name)
            if value != before and name not in own:
                hint = f"{type(self).__name__} has no such argument."
                raise ArgumentError(name, value, f"{before}", hint)
        self._drift = self._drift.within(settings.max_weight_norm)
        self._settings = settings

    @property
    def schedule(self) -> Schedule | None:
        """What gives the learning rate of each step, if it is no number."""
        return self._schedule

    def follow(self) -> None:
        """Takes the learning rate of the next step from the schedule, if there is one."""
        if self._schedule is not None:
            rate = self._schedule.at(self.iterations)
            self._settings = self._settings.at_rate(rate)

    def step(self, network: Network, *, frac_bits: int, rows: int, expected: float) -> Step:
        """Returns the next step of a number of rows, with padding, and of expected real ones."""
        own = self.settings.derived(frac_bits=frac_bits, parties=ABY3Ring.parties)
        return with_largest_rate(
            own.lr, lambda rate: Step.of_script(own.at_rate(rate), network, rows, expected)
        )

    def check_goes_on(self, missing: Iterable[str]) -> None:
        """Checks that steps may go on with zeros in place of what is missing."""

    @property
    def ledger(self) -> Ledger | None:
        """What the steps have cost so far, if they cost anything that can be told."""
        return None

    def compile(self, weights: Any) -> None:
        """Raises GradientError: the host's models give no single example's gradient."""
        raise GradientError(
            "This optimizer needs tfe_ext.keras.Sequential, because TF Encrypted's own models add "
            "up the gradients of a batch before PEA could clip them."
        )

    def begin(self, step: Step, steps: int) -> None:
        """Checks that so many more steps may be made, at the rates of the schedule if there is one.

        Raises GradientError if hidden weights might leave the range for which bounds are proven.
        """
        schedule, first = self._schedule, step.plan.learning_rate
        rates = None if schedule is None else schedule.rates(self.iterations, steps)

        def at(rate: float) -> UpdateRule:
            return step.rule.of(step.config, replace(step.plan, learning_rate=rate))

        def check(rate: float) -> None:
            scaled = [each * (rate / first) for each in rates or [first]]
            for extreme in (min(scaled), max(scaled)):
                at(extreme)
            self._drift.check(at(rate), steps, None if rates is None else scaled)

        which = "" if rates is None else " in the next step, with later ones in proportion"
        with_largest_rate(first, check, which)

    def account(self, step: Step, steps: int) -> Sequence[int]:
        """Records one of so many steps, and returns its public integers."""
        public = self.public(step.rule)
        self.charge(step, steps)
        self.count(step.rule)
        return public

    def charge(self, step: Step, steps: int, times: int = 1) -> None:
        """Records what so many of these steps cost the records, whether they are made or not."""

    def get_config(self) -> dict[str, Any]:
        """Returns all arguments but the source, as JSON can hold them; not what was counted."""
        own = _arguments(type(self), Argument)
        config = {name: getattr(self._settings, FIELDS.get(name, name)) for name in own}
        if self._schedule is not None:
            config["learning_rate"] = self._schedule.config()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns a new optimizer of such arguments, which has counted nothing yet."""
        return cls(**config)


def _arguments(optimizer: type, kind: type) -> list[str]:
    names = (name for name in dir(optimizer) if name != "lr")
    return [name for name in names if isinstance(getattr(optimizer, name), kind)]


def _attributes(optimizer: type) -> list[str]:
    return [*_arguments(optimizer, Setting), "settings", "source"]
