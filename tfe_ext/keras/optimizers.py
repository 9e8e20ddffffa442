"""Optimizers for models of the host's layers: secure DPSGD and Adam behind it, and plain ones."""

from collections.abc import Iterable, Mapping
from typing import Any

from extensions.errors import ArgumentError, GradientError
from extensions.layers.chain import Network
from extensions.privacy.ledger import GO_ON
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM
from extensions.protocols.optimizer.counted import Charged
from extensions.protocols.step import Step
from extensions.protocols.updates import AdamRule, UpdateRule
from extensions.protocols.updates.adam import EPS, FLOOR
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.settings import Argument, Setting
from tfe_ext.ring.aby3_ring import noise_failure


class DPSGD(Charged, Optimizer):
    """Trains with secure DPSGD (Protocol 3): clips each example's gradient and adds shared noise.

    Args:
        learning_rate: the update is learning_rate / expected_batch_size times the noisy sum. A
            number, or a `tf_keras.optimizers.schedules.LearningRateSchedule` of steps.
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
        colluders: number of servers that may pool what they know of the noise;
            ABY3 itself bears only one.
        degree: of the clip factor's polynomial (2, 3 or 4).
        momentum: momentum coefficient, in 0..0.999; free, and fixed for the run.
        bias_scale: the input whose weights biases are, 1 or another power of two down to 2^-8; it
            stays as it is.
        overflow_probability: probability over one call of `fit` that a sample exceeds its rows; 1 +
            exp(epsilon) times it is taken off delta
            (`extensions.privacy.accounting.allowed_overflow`).
        source: where noise and sampling come from; by default each player's own stream, drawn on
            its own device whenever the graph runs. With an
            `extensions.privacy.randomness.InsecureSeededSource` steps cost infinity.
        delta: at which callbacks are told epsilon; by default the power of ten that is at most a
            tenth of one over the number of records.

    Guarantees:
        Each step is a Poisson-subsampled Gaussian mechanism with sensitivity C (1 + eta), eta
        documented in `extensions.protocols.dpsgd_plan.StepPlan.eta`, against one server
        (semi-honest) and whoever sees the model. Everything stays shared, also the loss.

    Examples:
        >>> optimizer = tfe_ext.keras.DPSGD(
        ...     learning_rate=1.0, l2_norm_clip=1.0, noise_multiplier=2.0, sample_rate=0.5
        ... )
        >>> optimizer.get_epsilon(delta=1e-5)  # before any step
        0.0
    """

    private = True
    bias_scale = Argument()
    l2_norm_clip = Setting()
    noise_multiplier = Setting()
    colluders = Setting()
    degree = Setting()
    delta = Setting()

    def __init__(
        self,
        learning_rate: Any,
        l2_norm_clip: float,
        noise_multiplier: float,
        sample_rate: float,
        *,
        expected_batch_size: float | None = None,
        max_feature_norm: float = 1.0,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        colluders: int = 1,
        degree: int = 2,
        momentum: float = 0.0,
        bias_scale: float = 1.0,
        overflow_probability: float = OVERFLOW_PROBABILITY,
        source: NoiseSource | None = None,
        delta: float | None = None,
    ) -> None:
        super().__init__(learning_rate, source, locals())

    def charge(self, step: Step, steps: int, times: int = 1) -> None:
        """Records so many of these steps, and how their sampling or noise tables may fail."""
        failure = times * self.settings.overflow_probability / steps
        failure += noise_failure(step.plan.parameters, times)
        self.record(step.plan.noise, failure, times)


class SGD(Optimizer):
    """Trains with plain SGD, for comparisons: **the model is not private**.

    The arguments are those of `DPSGD`, and so is the arithmetic.

    Examples:
        >>> model = tfe_ext.keras.Sequential([Dense(3, batch_input_shape=[1, 4])])
        >>> model.compile(tfe_ext.keras.SGD(1.0), tfe_ext.keras.BinaryCrossentropy())
        >>> history = model.fit(x, y, steps=1, verbose=False)
        >>> model.get_weights()[0].shape
        (4, 3)
    """

    private = False

    def __init__(
        self,
        learning_rate: Any,
        sample_rate: float = 1.0,
        *,
        expected_batch_size: float | None = None,
        max_feature_norm: float = 1.0,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        momentum: float = 0.0,
        overflow_probability: float = OVERFLOW_PROBABILITY,
        source: NoiseSource | None = None,
    ) -> None:
        super().__init__(learning_rate, source, locals())


class _ByMoments(Optimizer):
    """Steps by the quotient of both moments of sums (`extensions.protocols.updates.adam`)."""

    beta_1 = Argument()
    beta_2 = Argument()
    _unit: float | None = None

    def __init__(self, learning_rate: Any, *rest: Any, momentum: float = 0.0, **options: Any):
        if momentum:
            rule = "with Adam, whose beta_1 it is"
            raise ArgumentError("momentum", momentum, rule, code="conflict")
        super().__init__(learning_rate, *rest, **options)

    def step(self, network: Network, **facts: Any) -> Step:
        """Returns the next step; GradientError if moments are in another unit than its own."""
        try:
            step = super().step(network, **facts)
        except ArgumentError as error:
            raise error.of("epsilon" if error.argument == "eps" else error.argument) from None
        unit = _unit_of(step.rule)
        if self._unit not in (None, unit):
            raise GradientError(
                f"After {self.iterations} steps moments are in units of {self._unit:.6g}, and "
                f"these settings need {unit:.6g}. Keep the gradients' bound, the noise and, "
                "without privacy, the expected batch size. Or compile the model with another "
                f"optimizer, and {GO_ON}"
            )
        return step

    def count(self, rule: UpdateRule) -> None:
        """Counts a step, and in which unit its moments are."""
        super().count(rule)
        self._unit = _unit_of(rule)

    def check_goes_on(self, missing: Iterable[str]) -> None:
        """Raises GradientError if steps were made whose moments are missing."""
        if self.iterations and list(missing):
            raise GradientError(
                f"The optimizer has made {self.iterations} steps, but this model lacks the "
                "moments. Restore them with tfe_ext.keras.Checkpoints, or compile another one."
            )

    def get_config(self) -> dict[str, Any]:
        """Returns all arguments but the source, as in `Optimizer`; Adam has no momentum."""
        return {name: own for name, own in super().get_config().items() if name != "momentum"}

    def state_dict(self) -> dict[str, Any]:
        """Returns what was counted so far; moments are shares, which `Checkpoints` keep."""
        return {**super().state_dict(), "unit": self._unit}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, with the weights and moments of then."""
        super().load_state_dict(state)
        self._unit = state["unit"]


class DPAdam(_ByMoments, DPSGD):
    """Trains with Adam on the noisy sums of `DPSGD`, and subtracts the noise's variance.

    Args:
        learning_rate: of a weight; a number or a schedule, as in `DPSGD`.
        rest: l2_norm_clip, noise_multiplier and sample_rate, as there.
        beta_1: what stays of the mean of gradients, in 0..0.999; like the next two it stays as it
            is.
        beta_2: what stays of the mean of their squares, in 0.5..0.999.
        floor: least second moment in units of the noise's variance, in 2^-8..1; it takes the place
            of Keras's epsilon.
        options: those of `DPSGD`, but for momentum.

    Guarantees:
        Those of `DPSGD`: moments are post-processing of its sums. They stay shares. Units of
        moments are the noise's, so l2_norm_clip and noise_multiplier are fixed after a step.

    Cost:
        19 rounds a step more than `DPSGD`; servers 0 and 1 send 216 bytes more for every weight and
        bias, server 2 some 1,230.

    Source:
        Tang, Shpilevskiy and Lecuyer, AAAI 2024 (`extensions.protocols.updates.adam.AdamRule`).

    Examples:
        >>> optimizer = tfe_ext.keras.DPAdam(0.1, 1.0, 2.0, 0.5, beta_1=0.9)
        >>> optimizer.get_epsilon(delta=1e-5)
        0.0
    """

    floor = Argument()

    def __init__(
        self,
        learning_rate: Any,
        *rest: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        floor: float = FLOOR,
        **options: Any,
    ) -> None:
        self._beside = {"optimizer": "adam", "beta_1": beta_1, "beta_2": beta_2, "floor": floor}
        super().__init__(learning_rate, *rest, **options)


class Adam(_ByMoments, SGD):
    """Trains with plain Adam, for comparisons: **the model is not private**.

    Betas are those of `DPAdam`, and options those of `SGD` except
    momentum. `epsilon` is the root of the least second moment, in 2^-16..1; Keras adds it to the
    root instead.

    Examples:
        >>> optimizer = tfe_ext.keras.Adam(0.1, beta_1=0.9)
        >>> optimizer.get_config()["learning_rate"]
        0.1
    """

    epsilon = Argument()

    def __init__(
        self,
        learning_rate: Any,
        sample_rate: float = 1.0,
        *,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = EPS,
        **options: Any,
    ) -> None:
        self._beside = {"optimizer": "adam", "beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        super().__init__(learning_rate, sample_rate, **options)


def _unit_of(rule: UpdateRule) -> float:
    assert isinstance(rule, AdamRule)
    return rule.unit
