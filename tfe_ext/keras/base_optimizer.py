"""What the optimizers of private training have in common: arguments, plans, and counts of steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, Self

from extensions.errors import ArgumentError, GradientError
from extensions.network.chain import Network
from extensions.privacy.accounting import Ledger
from extensions.privacy.ledger import GO_ON
from extensions.privacy.randomness import SystemSource
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.drift import Drift, with_largest_rate
from extensions.protocols.settings import ScriptTraining
from extensions.protocols.updates import UpdateRule, rule_for
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.learning_rates import RateSetting, Schedule
from tfe_ext.keras.settings import FIELDS, Setting, argument_of, training_of
from tfe_ext.ring.aby3_ring import ABY3Ring


class Optimizer:
    """What all optimizers have in common; see `DPSGD`.

    Arguments are attributes too. A new value holds from the next step on, within `fit` as well;
    of the learning rate and the expected batch size without another trace.
    """

    private: bool
    _stays: ClassVar[tuple[str, ...]] = ("momentum",)
    """The arguments that stay as they are."""
    _beside: Mapping[str, Any] = {}
    """Arguments beside those that all optimizers have."""
    learning_rate = lr = RateSetting("learning_rate")
    sample_rate = Setting()
    expected_batch_size = Setting()
    max_feature_norm = Setting()
    max_weight_norm = Setting()
    overflow_probability = Setting()

    def __init__(
        self, arguments: Mapping[str, Any], schedule: Schedule | None, source: NoiseSource | None
    ) -> None:
        settings = training_of({**arguments, **self._beside, "private": self.private})
        self._settings = settings
        self._schedule = schedule
        self._source = source or SystemSource()
        self._drift = Drift(settings.max_weight_norm)
        self._shift: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute that steps take notice of.

        Raises:
            ArgumentError: it is none, or may not be set.
        """
        own = getattr(type(self), name, None)
        fixed = isinstance(own, property) and own.fset is None
        if not name.startswith("_") and (fixed or not isinstance(own, property | Setting)):
            raise ArgumentError(
                f"{type(self).__name__}.{name}",
                type(value).__name__,
                f"what can be is {', '.join(_attributes(type(self)))}",
                f"Make another optimizer, compile the model with it, and {GO_ON}",
                code="fixed",
            )
        super().__setattr__(name, value)

    @property
    def settings(self) -> ScriptTraining:
        """All arguments but the source; another value holds from the next step on.

        Raises:
            ArgumentError: on setting, an argument that this optimizer does not have, or a lower
                max_weight_norm, of which the weights may have moved too far already.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: ScriptTraining) -> None:
        own = _attributes(type(self))
        for field in fields(ScriptTraining):
            name = argument_of(field.name)
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

    @property
    def momentum(self) -> float:
        """What of an update goes into the next one."""
        return self._settings.momentum

    @property
    def bias_scale(self) -> float:
        """The input whose weights biases are."""
        return self._settings.bias_scale

    @property
    def iterations(self) -> int:
        """Number of steps made."""
        return self._drift.steps

    def follow(self) -> None:
        """Takes the learning rate of the next step from the schedule, if there is one."""
        if self._schedule is not None:
            rate = self._schedule.at(self.iterations)
            self._settings = replace(self._settings, lr=rate)

    @property
    def source(self) -> NoiseSource:
        """Where noise and sampling come from; another one holds from the next step on."""
        return self._source

    @source.setter
    def source(self, source: NoiseSource | None) -> None:
        self._source = source or SystemSource()

    def plan(self, network: Network, *, frac_bits: int, rows: int, expected: float) -> StepPlan:
        """Returns the public constants of a step.

        Args:
            network: public facts about the model.
            frac_bits: fractional bits of the protocol.
            rows: of a batch, padding included.
            expected: expected number of real ones.

        Raises:
            ArgumentError: the step's integers would not fit the ring.
        """
        settings = self.settings
        own = settings.expected_batch_size
        made = partial(
            StepPlan.of,
            settings,
            frac_bits=frac_bits,
            layers=network.shapes(
                max_feature_norm=settings.max_feature_norm,
                max_weight_norm=settings.max_weight_norm,
                max_grad_norm=settings.max_grad_norm,
            ),
            rows=rows,
            expected_batch_size=expected if own is None else own,
            parties=ABY3Ring.parties,
        )
        return with_largest_rate(settings.lr, lambda rate: made(learning_rate=rate))

    def names(self) -> Sequence[str]:
        """Of what goes on from step to step beside the weights."""
        return rule_for(self.settings).names_of(self.settings)

    def rule(self, plan: StepPlan) -> UpdateRule:
        """Returns what the next step makes of such sums.

        Raises:
            ArgumentError: what it needs besides does not fit the ring.
        """
        return rule_for(self.settings).of(self.settings, plan)

    def public(self, plan: StepPlan) -> Sequence[int]:
        """Returns the public integers of the next step, which its rule takes."""
        return self.rule(plan).public(self.iterations + 1, last=self._shift)

    def check_goes_on(self, missing: Iterable[str]) -> None:
        """Returns only if steps may go on with zeros in place of what is missing."""

    @property
    def ledger(self) -> Ledger | None:
        """What the steps have cost so far, if they cost anything that can be told."""
        return None

    def compile(self, weights: Any) -> None:
        """Raises GradientError: the host's models give no single example's gradient."""
        raise GradientError(
            "This optimizer trains tfe_ext.keras.Sequential: TF Encrypted's own models add up the "
            "gradients of a batch before anything could be clipped."
        )

    def begin(self, plan: StepPlan, steps: int) -> None:
        """Checks that so many more steps may be made, at the rates of the schedule if there is one.

        Raises:
            ArgumentError: a rate does not fit.
            GradientError: hidden weights might leave the range for which bounds are proven.
        """
        schedule, first = self._schedule, plan.learning_rate
        rates = None if schedule is None else schedule.rates(self.iterations, steps)

        def check(rate: float) -> None:
            scaled = [each * (rate / first) for each in rates or [first]]
            for extreme in (min(scaled), max(scaled)):
                self.rule(replace(plan, learning_rate=extreme))
            of_rate = self.rule(replace(plan, learning_rate=rate))
            self._drift.check(of_rate, steps, None if rates is None else scaled)

        which = "" if rates is None else " in the next step, with later ones in proportion"
        with_largest_rate(first, check, which)

    def account(self, plan: StepPlan, steps: int) -> None:
        """Records one of so many steps."""
        rule = self.rule(plan)
        self._shift = rule.last(rule.public(self.iterations + 1, last=self._shift))
        self._drift.count(rule)

    def charge(self, plan: StepPlan, steps: int, times: int = 1) -> None:
        """Records what so many of these steps cost the records, whether they are made or not."""

    def get_config(self) -> dict[str, Any]:
        """Returns all arguments but the source, as JSON can hold them; not what was counted."""
        own = [*_arguments(type(self)), *self._stays]
        config = {name: getattr(self._settings, FIELDS.get(name, name)) for name in own}
        if self._schedule is not None:
            config["learning_rate"] = self._schedule.config()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Returns a new optimizer of such arguments, which has counted nothing yet."""
        return cls(**config)

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, public, as values that JSON can hold."""
        return {"drift": self._drift.state(), "shift": self._shift}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights of then."""
        self._drift.restore(state["drift"])
        self._shift = state.get("shift")


def _arguments(optimizer: type) -> list[str]:
    """Returns the names of the arguments that can be set."""
    return [
        name
        for name in dir(optimizer)
        if isinstance(getattr(optimizer, name), Setting) and name != "lr"
    ]


def _attributes(optimizer: type) -> list[str]:
    """Returns the names of what can be set."""
    return [*_arguments(optimizer), "settings", "source"]
