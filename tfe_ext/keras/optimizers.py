"""Optimizers for models of the host's layers: secure DPSGD, and plain SGD in equal arithmetic."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from extensions.checks import check_not_negative, check_positive
from extensions.errors import ArgumentError, GradientError
from extensions.network.chain import Network
from extensions.privacy.accounting import Ledger, Neighbours
from extensions.privacy.gaussian_table import failure_bound
from extensions.privacy.randomness import SystemSource
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, check_sample_rate
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, StepPlan
from extensions.protocols.drift import Drift
from extensions.ring.interface import NoiseSource
from tfe_ext.ring.aby3_ring import ABY3Ring


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The arguments of `DPSGD` and `SGD`, which say what each means.

    Raises:
        ArgumentError: a value out of range.
    """

    learning_rate: float
    sample_rate: float
    l2_norm_clip: float = 1.0
    noise_multiplier: float = 0.0
    expected_batch_size: float | None
    max_feature_norm: float
    max_weight_norm: float
    colluders: int = 1
    degree: int = 2
    overflow_probability: float

    def __post_init__(self) -> None:
        for name in ("learning_rate", "l2_norm_clip", "max_feature_norm", "max_weight_norm"):
            check_positive(name, getattr(self, name))
        check_not_negative("noise_multiplier", self.noise_multiplier)
        check_sample_rate(self.sample_rate)


class Setting:
    """An attribute that is a field of an optimizer's `Settings`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, optimizer: Any, owner: type) -> Any:
        return self if optimizer is None else getattr(optimizer.settings, self._name)

    def __set__(self, optimizer: Any, value: Any) -> None:
        optimizer.settings = replace(optimizer.settings, **{self._name: value})


class Optimizer:
    """What DPSGD and SGD have in common; see there.

    Arguments are attributes too. A new value holds from the next step on, within `fit` as well;
    of the learning rate and the expected batch size without another trace.
    """

    private: bool
    learning_rate = Setting()
    sample_rate = Setting()
    expected_batch_size = Setting()
    max_feature_norm = Setting()
    max_weight_norm = Setting()
    overflow_probability = Setting()

    def __init__(self, settings: Settings, source: NoiseSource | None) -> None:
        self._settings = settings
        self._source = source or SystemSource()
        self._drift = Drift(settings.max_weight_norm)

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
                f"left as it is; what can be set is {', '.join(_attributes(type(self)))}",
                "Make another optimizer, and compile the model with it.",
            )
        super().__setattr__(name, value)

    @property
    def settings(self) -> Settings:
        """All arguments but the source; another value holds from the next step on.

        Raises:
            ArgumentError: on setting, an argument that this optimizer does not have, or a lower
                max_weight_norm, of which the weights may have moved too far already.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        own = _attributes(type(self))
        for field in fields(Settings):
            before, value = getattr(self._settings, field.name), getattr(settings, field.name)
            if value != before and field.name not in own:
                raise ArgumentError(
                    field.name, value, f"{before}: {type(self).__name__} has no such argument"
                )
        self._drift = self._drift.within(settings.max_weight_norm)
        self._settings = settings

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
        return StepPlan(
            frac_bits=frac_bits,
            layers=network.shapes(
                max_feature_norm=settings.max_feature_norm,
                max_weight_norm=settings.max_weight_norm,
            ),
            rows=rows,
            learning_rate=settings.learning_rate,
            expected_batch_size=settings.expected_batch_size or expected,
            max_grad_norm=settings.l2_norm_clip,
            noise_multiplier=settings.noise_multiplier,
            parties=ABY3Ring.parties,
            colluders=settings.colluders,
            degree=settings.degree,
            private=self.private,
        )

    def compile(self, weights: Any) -> None:
        """Raises GradientError: the host's models give no single example's gradient."""
        raise GradientError(
            "This optimizer trains tfe_ext.keras.Sequential: TF Encrypted's own models add up the "
            "gradients of a batch before anything could be clipped."
        )

    def begin(self, plan: StepPlan, steps: int) -> None:
        """Checks that so many more steps may be made.

        Raises:
            GradientError: hidden weights might leave the range for which bounds are proven.
        """
        self._drift.check(plan, steps)

    def account(self, plan: StepPlan, steps: int) -> None:
        """Records one of so many steps."""
        self._drift.count(plan)

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, public, as values that JSON can hold."""
        return {"drift": self._drift.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights of then."""
        self._drift.restore(state["drift"])


class DPSGD(Optimizer):
    """Secure DPSGD (Protocol 3): every example's gradient is clipped, noise is distributed.

    Args:
        learning_rate: the update is learning_rate / expected_batch_size times the noisy sum.
        l2_norm_clip: C, the bound of each example's gradient over all layers, in 2^-16 .. 2^16.
        noise_multiplier: sigma / C of the noise that `colluders` servers still face after they
            subtract their own; the total standard deviation is sqrt(1.5) times that.
        sample_rate: Poisson rate with which `fit` draws each record in each step; with 1.0 every
            batch is the whole data.
        expected_batch_size: public divisor; by default sample_rate times the number of records.
        max_feature_norm: public bound of the Euclidean norm of a record's features; checked for
            the records that owners give in the clear.
        max_weight_norm: public bound of the Frobenius norm that any hidden weight may reach, used
            for models of more than one Dense layer. A quarter of it is for the initial weights,
            which are checked before the first step; whether they fit is opened.
        colluders: number of servers whose pooled knowledge of noise must not weaken the guarantee;
            ABY3 itself bears only one.
        degree: of the clip factor's polynomial (2, 3 or 4).
        overflow_probability: probability over one call of `fit` that a sample exceeds its rows; 1 +
            exp(epsilon) times it is taken off delta
            (`extensions.privacy.accounting.allowed_overflow`).
        source: where noise and sampling come from; by default each player's own stream, drawn on
            its own device whenever the graph runs.

    Guarantees:
        Each step is a Poisson-subsampled Gaussian mechanism with sensitivity C (1 + eta), eta
        documented in `extensions.protocols.dpsgd_plan.StepPlan.eta`, against one server
        (semi-honest) and whoever sees the model. Nothing is opened, not the loss either.

    Raises:
        ArgumentError: when built with values out of range.
    """

    private = True
    l2_norm_clip = Setting()
    noise_multiplier = Setting()
    colluders = Setting()
    degree = Setting()

    def __init__(
        self,
        learning_rate: float,
        l2_norm_clip: float,
        noise_multiplier: float,
        sample_rate: float,
        *,
        expected_batch_size: float | None = None,
        max_feature_norm: float = 1.0,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        colluders: int = 1,
        degree: int = 2,
        overflow_probability: float = OVERFLOW_PROBABILITY,
        source: NoiseSource | None = None,
    ) -> None:
        settings = Settings(
            learning_rate=learning_rate,
            l2_norm_clip=l2_norm_clip,
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            expected_batch_size=expected_batch_size,
            max_feature_norm=max_feature_norm,
            max_weight_norm=max_weight_norm,
            colluders=colluders,
            degree=degree,
            overflow_probability=overflow_probability,
        )
        super().__init__(settings, source)
        self._ledger = Ledger()

    @property
    def ledger(self) -> Ledger:
        """What the steps have cost so far; local training and openings are recorded in it too."""
        return self._ledger

    def account(self, plan: StepPlan, steps: int) -> None:
        """Records one of so many steps, and how its sampling or noise tables may fail."""
        super().account(plan, steps)
        self.ledger.record(
            "training",
            noise_multiplier=plan.noise_multiplier,
            sample_rate=self.settings.sample_rate,
            steps=1,
            overflow_probability=self.settings.overflow_probability / steps
            + noise_failure(plan.parameters, 1),
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far, the ledger included."""
        return {**super().state_dict(), "ledger": self.ledger.to_json()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights of then."""
        super().load_state_dict(state)
        self._ledger = Ledger.from_json(state["ledger"])

    def get_epsilon(self, delta: float, *, neighbours: Neighbours = "add-remove") -> float:
        """Returns the epsilon spent so far at `delta`, by the PLD accountant.

        Args:
            delta: of all steps together.
            neighbours: "add-remove", where one record of one owner counts or has a null record in
                its place, or "replace", where it is another. Numbers of records are public.

        Raises:
            ArgumentError: as `Ledger.get_epsilon`.
        """
        return self.ledger.get_epsilon(delta, neighbours=neighbours)


class SGD(Optimizer):
    """Plain SGD in the same arithmetic: no clipping, no noise, **no privacy of the model**.

    It exists to be compared with; its arguments mean what they mean in `DPSGD`.
    """

    private = False

    def __init__(
        self,
        learning_rate: float,
        sample_rate: float = 1.0,
        *,
        expected_batch_size: float | None = None,
        max_feature_norm: float = 1.0,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        overflow_probability: float = OVERFLOW_PROBABILITY,
        source: NoiseSource | None = None,
    ) -> None:
        settings = Settings(
            learning_rate=learning_rate,
            sample_rate=sample_rate,
            expected_batch_size=expected_batch_size,
            max_feature_norm=max_feature_norm,
            max_weight_norm=max_weight_norm,
            overflow_probability=overflow_probability,
        )
        super().__init__(settings, source)


def _attributes(optimizer: type) -> list[str]:
    """Returns the names of what can be set."""
    names = [field.name for field in fields(Settings)]
    own = [name for name in names if isinstance(getattr(optimizer, name, None), Setting)]
    return [*own, "settings", "source"]


def noise_failure(parameters: int, steps: int) -> float:
    """Returns a bound of the probability that any draw of a run lies beyond its table.

    Args:
        parameters: of the model; every server draws one summand for each, in every step.
        steps: of the run.
    """
    return failure_bound(ABY3Ring.parties * parameters * steps)
