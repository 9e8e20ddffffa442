"""Optimizers for models of the host's layers: secure DPSGD, and plain SGD in equal arithmetic."""

from typing import Any

from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM
from extensions.protocols.optimizer.counted import Charged
from extensions.protocols.step import Step
from extensions.ring.interface import NoiseSource
from tfe_ext.keras.base_optimizer import Optimizer
from tfe_ext.keras.settings import Argument, Setting
from tfe_ext.ring.aby3_ring import noise_failure


class DPSGD(Charged, Optimizer):
    """Secure DPSGD (Protocol 3): every example's gradient is clipped, noise is distributed.

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
        colluders: number of servers whose pooled knowledge of noise must not weaken the guarantee;
            ABY3 itself bears only one.
        degree: of the clip factor's polynomial (2, 3 or 4).
        momentum: what of an update goes into the next one, in 0..0.999; it costs nothing, and stays
            as it is.
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
        (semi-honest) and whoever sees the model. Nothing is opened, not the loss either.

    Raises:
        ArgumentError: when built with values out of range.
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
    """Plain SGD in the same arithmetic: no clipping, no noise, **no privacy of the model**.

    It exists to be compared with; its arguments mean what they mean in `DPSGD`.
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
