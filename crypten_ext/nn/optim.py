"""Optimizers for encrypted models: secure DPSGD, and plain SGD with the same arithmetic."""

from collections.abc import Mapping
from typing import Any

from crypten_ext.nn.recorded_step import RecordedStep
from extensions.errors import ArgumentError
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM
from extensions.protocols.noise import NoiseShares
from extensions.protocols.optimizer.counted import Charged
from extensions.protocols.optimizer.sample import SampleFacts
from extensions.protocols.settings import ADAM_FLOOR, ScriptTraining
from extensions.protocols.updates.adam import EPS, FLOOR
from extensions.ring.interface import NoiseSource


class DPSGD(Charged, RecordedStep):
    """Trains with secure DPSGD (Protocol 3): clips each example's gradient and adds shared noise.

    Args:
        model: an encrypted model of `crypten_ext.nn` layers, or of CrypTen's own, which are adopted
            in place (`crypten_ext.nn.layers.adoption` says which).
        lr: learning rate; the update is lr / expected_batch_size times the noisy sum.
        max_grad_norm: C, the bound of each example's gradient over all layers, in 2^-16 .. 2^16.
        noise_multiplier: sigma / C of the noise that `colluders` parties still face after they
            subtract their own. With m parties the total standard deviation is
            sqrt(m / (m - colluders)) times that: sqrt(1.5) for three, sqrt(2) for two.
        sample_rate: Poisson sampling rate of the batches; with 1.0 every batch is the whole data.
        expected_batch_size: public divisor; by default that of the batch.
        max_weight_norm: public bound of the Frobenius norm of any hidden weight, used for models
            of more than one linear layer. Initial weights may use a quarter of it; they are checked
            when the optimizer is built, and whenever something else has set them. A run that might
            use up the rest is stopped.
        colluders: number of parties that may pool what they know; the guarantee holds against them.
        noise_shares: "exact", or "paper" for the paper's variance of each party's noise where that
            is more (`extensions.protocols.noise.party_variance`).
        dealer_noise: whether the dealer, CrypTen's provider "DEALER", adds noise as well, which no
            party knows: the total is sqrt((m + 1) / (m + 1 - colluders)) times.
        degree: of the clip factor's polynomial (2, 3 or 4).
        momentum: momentum coefficient, in 0..0.999. A falling learning rate is then exact to
            2^-10 of the largest one so far.
        average: fraction of the steps, in 0..1. After the last step the model is the mean of the
            last iterates in that fraction; the final one always counts. It needs `steps`. The mean
            is right within an ulp and 2^-11 of itself for weights within max_weight_norm. A linear
            model's weights may exceed that, which can spoil the mean but reveals nothing.
        bias_scale: constant input of the biases, 1 or another power of two down to 2^-8.
        steps: number of planned steps, if known. A run that would exceed max_weight_norm before
            its end is then rejected at its first step.
        source: where noise comes from; by default each party's operating system. With an
            `extensions.privacy.randomness.InsecureSeededSource` steps cost infinity.

    Guarantees:
        Each step is a Poisson-subsampled Gaussian mechanism with sensitivity C (1 + eta), where
        `extensions.protocols.dpsgd_plan.StepPlan.eta` is eta. It protects against everybody who
        sees the model, and against the other parties, who are semi-honest; at most `colluders` of
        them pool what they know. The only opened value is whether the initial weights of a model
        with hidden layers keep their bound.

        The guarantee holds for any script: `step` only uses what the model's own layers computed
        from one fresh batch (`crypten_ext.poisson_batches`, or `crypten_ext.vouch_for`), and it
        takes rate, overflow, norms and padding from that batch. It rejects everything else.

    Cost:
        One step of a linear model takes 11 rounds after the backward pass, also with momentum and
        average; the mean takes one more at the end. A model with hidden layers takes 7 more, once.

    Raises:
        ArgumentError: when built with values out of range, or initial weights beyond their bound.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.DPSGD(
        ...     model, lr=1.0, max_grad_norm=1.0, noise_multiplier=2.0, sample_rate=0.5
        ... )
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=0.5, steps=2, classes=3):
        ...     optimizer.zero_grad()
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        ...     optimizer.step()
        >>> round(optimizer.get_epsilon(delta=1e-4), 1)
        1.5
    """

    private = True

    def __init__(
        self,
        model: Any,
        lr: float,
        max_grad_norm: float,
        noise_multiplier: float,
        sample_rate: float,
        *,
        expected_batch_size: float | None = None,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        colluders: int = 1,
        noise_shares: NoiseShares = "exact",
        dealer_noise: bool = False,
        degree: int = 2,
        momentum: float = 0.0,
        average: float = 0.0,
        bias_scale: float = 1.0,
        steps: int | None = None,
        source: NoiseSource | None = None,
    ) -> None:
        settings = ScriptTraining.of({**locals(), **self._further})
        super().__init__(model, settings, source)

    def _account(self, public: SampleFacts) -> None:
        self.record(self._settings.noise, public.overflow_probability)


class SGD(RecordedStep):
    """Trains with plain SGD, for comparisons: **the model is not private**.

    The arguments are those of `DPSGD`, and so is the arithmetic.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.SGD(model, lr=1.0)
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        ...     optimizer.step()
        >>> optimizer.iterations
        1
    """

    private = False

    def __init__(
        self,
        model: Any,
        lr: float,
        *,
        expected_batch_size: float | None = None,
        max_weight_norm: float = DEFAULT_WEIGHT_NORM,
        momentum: float = 0.0,
    ) -> None:
        settings = ScriptTraining.of({**locals(), **self._further, "private": False})
        super().__init__(model, settings)

    def _account(self, public: SampleFacts) -> None:
        """Does nothing: the model is not private."""


class DPAdam(DPSGD):
    """Trains with Adam on the noisy sums of `DPSGD`, and subtracts the noise's variance.

    Args:
        model: as in `DPSGD`, and so are all other arguments.
        lr: learning rate, of a weight.
        rest: max_grad_norm, noise_multiplier and sample_rate.
        betas: decay of the mean of gradients, and of the mean of their squares.
        floor: least second moment, in units of the noise's variance, in 2^-8..1.
        options: those of `DPSGD`, but for momentum.

    Guarantees:
        Those of `DPSGD`: moments are post-processing of its sums. They stay shares.

    Cost:
        19 rounds a step more than `DPSGD`, and 23 words or so of each party for every weight.

    Source:
        Tang, Shpilevskiy and Lecuyer, AAAI 2024 (`extensions.protocols.updates.adam.AdamRule`).

    Raises:
        ArgumentError: as `DPSGD`; betas out of range, or momentum.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.DPAdam(model, 0.1, 1.0, 2.0, 1.0)
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        ...     optimizer.step()
        >>> round(optimizer.get_epsilon(delta=1e-4), 1)
        1.7
    """

    def __init__(
        self,
        model: Any,
        lr: float,
        *rest: float,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = FLOOR,
        **options: Any,
    ) -> None:
        ADAM_FLOOR.check("floor", floor)
        self._further = _adam(betas, options, adam_floor=floor)
        super().__init__(model, lr, *rest, **options)


class Adam(SGD):
    """Trains with plain Adam, for comparisons: **the model is not private**.

    Args:
        model: as in `SGD`, and so are all other arguments.
        lr: learning rate, of a weight.
        betas: as in `DPAdam`.
        eps: root of the least second moment, which takes the place of PyTorch's sum with eps.
        options: those of `SGD`, but for momentum.

    Raises:
        ArgumentError: as `SGD`; betas out of range, or momentum.

    Examples:
        >>> model = crypten_ext.nn.Linear(4, 3).encrypt()
        >>> optimizer = crypten_ext.optim.Adam(model, lr=0.1)
        >>> for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=1.0, steps=1, classes=3):
        ...     crypten_ext.nn.BCEWithLogitsLoss()(model(xb), yb).backward()
        ...     optimizer.step()
        >>> optimizer.iterations
        1
    """

    def __init__(
        self,
        model: Any,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = EPS,
        **options: Any,
    ) -> None:
        self._further = _adam(betas, options, eps=eps)
        super().__init__(model, lr, **options)


def _adam(
    betas: tuple[float, float], options: Mapping[str, Any], **floors: float
) -> dict[str, Any]:
    """Returns Adam's own settings; ArgumentError if the options have a momentum."""
    if options.get("momentum"):
        rule = "with Adam, whose first beta it is"
        raise ArgumentError("momentum", options["momentum"], rule, code="conflict")
    first, second = betas
    return {"optimizer": "adam", "beta1": first, "beta2": second, **floors}
