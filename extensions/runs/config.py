"""The settings of one training run: the same for every party, checked before anything starts."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Annotated, Any, Literal, cast, get_args

from extensions.checks import check_not_negative, check_positive
from extensions.errors import ArgumentError
from extensions.network.losses import Loss, residual_norm
from extensions.network.spec import ModelSpec, Start
from extensions.options import Option
from extensions.privacy.accounting import (
    CALIBRATIONS,
    SubsampledGaussian,
    calibrate_noise,
    total_epsilon,
)
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, check_sample_rate
from extensions.protocols.initialization import STRATEGIES, Strategy, Weighting, check_weighting
from extensions.ring.fixed_point import check_frac_bits
from extensions.runs.entry_points import check_offered
from extensions.runs.providers import Provider

HOSTS = "pea.backends"
"""The entry point group of those who make runs (`extensions.runs.hosts`)."""

MAX_PARTIES = 64

Evaluate = Literal["mpc", "opened"]
Init = Start | Strategy
INITS = (*get_args(Start), *STRATEGIES)

_WORKLOAD = {"workload": True}
"""Marks the settings that decide what the parties compute, whatever their records are."""

_LOCAL_ONLY = ("epsilon_init", "delta_init", "noise_multiplier_init", "init_steps", "init_lr")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything public about a run.

    Attributes:
        backend: the host: crypten (processes), tfe (TF Encrypted's ABY3), clear (plaintext, one
            process, same arithmetic), or another that is installed; it refuses what it cannot do.
        parties: number of parties, who own the data.
        provider: who deals correlated randomness: dealer or ttp (processes without data), or tfp
            (party 0, which can then reconstruct every secret); crypten alone has the choice.
        data: name of the data set, for the report.
        features: name of the extractor that each owner used, for the report.
        model: kind of model: logistic, or mlp:H with H hidden units.
        classes: number of classes.
        loss: kind of loss: sigmoid (one class against all others) or softmax (of all classes).
        steps: number of updates.
        lr: learning rate; the update is lr / expected batch size times the noisy sum.
        sample_rate: Poisson rate at which a step samples each record, in (0, 1].
        max_grad_norm: C, the bound of each example's gradient.
        epsilon: target epsilon; needs delta.
        delta: delta of the guarantee, in (0, 1).
        noise_multiplier: sigma / C, instead of epsilon.
        calibration: how epsilon becomes noise: pld, rdp or paper.
        private: False trains without clipping and noise, for comparison.
        max_feature_norm: public bound of the norm of a record's features.
        frac_bits: fractional bits of the ring.
        evaluate: what is opened: the number of correct predictions (mpc), or the model (opened).
        seed_data: public seed of splitting the data.
        insecure_seed: draw sampling and noise from this seed, which everybody knows: for comparing
            backends only, NOT private.
        init: where training starts: zero (the default of one layer), random (of several), or from
            models that owners trained locally: local-average, local-accuracy (the best on held-out
            records), local (the best of both and the start).
        epsilon_init: epsilon of each owner's local model; the joint training then has epsilon and
            what is left of delta.
        delta_init: part of delta for it; by default its half.
        noise_multiplier_init: sigma / C of the local models; None until `resolved`.
        init_steps: steps of each local model; by default a quarter of the joint ones.
        init_lr: their learning rate; by default lr / parties: batches are that much smaller, so
            that a step's noise moves weights as far as in the joint training.
        init_weighting: weights of the local models' average: by the owners' numbers of records
            (records), or equal (uniform).
    """

    backend: str = "crypten"
    parties: int = field(default=3, metadata=_WORKLOAD)
    provider: Provider = "dealer"
    data: str = "digits"
    features: str = "raw"
    model: str = field(default="logistic", metadata=_WORKLOAD)
    classes: int = field(default=10, metadata=_WORKLOAD)
    loss: Loss = field(default="sigmoid", metadata=_WORKLOAD)
    steps: int = field(default=120, metadata=_WORKLOAD)
    lr: float = field(default=10.0, metadata=_WORKLOAD)
    sample_rate: float = field(default=0.1, metadata=_WORKLOAD)
    max_grad_norm: float = field(default=1.0, metadata=_WORKLOAD)
    epsilon: float | None = None
    delta: float | None = None
    noise_multiplier: float | None = field(default=None, metadata=_WORKLOAD)
    calibration: str = "pld"
    private: Annotated[
        bool, Option(name="no-dp", help="no clipping and no noise: NOT private.", negated=True)
    ] = field(default=True, metadata=_WORKLOAD)
    max_feature_norm: float = field(default=1.0, metadata=_WORKLOAD)
    frac_bits: int = field(default=20, metadata=_WORKLOAD)
    evaluate: Evaluate = "mpc"
    seed_data: int = 0
    insecure_seed: Annotated[int | None, Option(name="insecure-fixed-randomness")] = None
    init: Init | None = field(default=None, metadata=_WORKLOAD)
    epsilon_init: float | None = None
    delta_init: float | None = None
    noise_multiplier_init: float | None = field(default=None, metadata=_WORKLOAD)
    init_steps: int | None = field(default=None, metadata=_WORKLOAD)
    init_lr: float | None = field(default=None, metadata=_WORKLOAD)
    init_weighting: Weighting = field(default="records", metadata=_WORKLOAD)

    def __post_init__(self) -> None:
        check_offered(HOSTS, "backend", self.backend)
        if self.evaluate not in get_args(Evaluate):
            raise ArgumentError("evaluate", self.evaluate, f"one of {get_args(Evaluate)}")
        if not 1 <= self.parties <= MAX_PARTIES:
            raise ArgumentError("parties", self.parties, f"in 1..{MAX_PARTIES}")
        for name, floor in (("steps", 1), ("classes", 2), ("seed_data", 0)):
            if getattr(self, name) < floor:
                raise ArgumentError(name, getattr(self, name), f"at least {floor}")
        for name in ("lr", "max_grad_norm", "max_feature_norm"):
            check_positive(name, getattr(self, name))
        if self.calibration not in CALIBRATIONS:
            raise ArgumentError("calibration", self.calibration, f"one of {CALIBRATIONS}")
        if self.insecure_seed is not None and not 0 <= self.insecure_seed < 2**63:
            raise ArgumentError("insecure_seed", self.insecure_seed, "in 0..2^63 - 1")
        residual_norm(self.loss, self.classes)
        spec = ModelSpec.parse(self.model, 1, self.classes)
        self._check_init()
        spec.initial_parameters(self.public_init)
        check_sample_rate(self.sample_rate)
        check_frac_bits(self.frac_bits)
        if self.private:
            self._check_privacy()

    def _check_privacy(self) -> None:
        self._check_target("", "Or ask for a run without privacy by name.")
        if self.delta is None or not 0.0 < self.delta < 1.0:
            raise ArgumentError("delta", self.delta, "in (0, 1)", "1 / (10 records) is usual.")
        if self.strategy is not None:
            self._check_target("_init", "Each owner's local model is private on its own.")
            if self.delta_init is not None and not 0.0 < self.delta_init < self.delta:
                raise ArgumentError(
                    "delta_init", self.delta_init, f"in (0, delta), delta = {self.delta}"
                )

    def _check_target(self, part: str, advice: str) -> None:
        names = (f"epsilon{part}", f"noise_multiplier{part}")
        epsilon, sigma = (getattr(self, name) for name in names)
        if (epsilon is None) == (sigma is None):
            allowed = "exactly one of them given"
            raise ArgumentError(", ".join(names), (epsilon, sigma), allowed, advice)
        if epsilon is not None:
            check_positive(names[0], epsilon)
        if sigma is not None:
            check_not_negative(names[1], sigma)

    def _check_init(self) -> None:
        if self.init is not None and self.init not in INITS:
            raise ArgumentError("init", self.init, f"one of {INITS}")
        for name in _LOCAL_ONLY:
            if self.strategy is None and getattr(self, name) is not None:
                raise ArgumentError(
                    name, getattr(self, name), f"left out, but with init one of {STRATEGIES}"
                )
        if self.init_steps is not None and self.init_steps < 1:
            raise ArgumentError("init_steps", self.init_steps, "at least 1")
        if self.init_lr is not None:
            check_positive("init_lr", self.init_lr)
        check_weighting(self.strategy, self.init_weighting, "init_weighting")

    @property
    def strategy(self) -> Strategy | None:
        """How local models make the start, or None if there are none."""
        return self.init if self.init in STRATEGIES else None

    @property
    def local_steps(self) -> int:
        """Steps of each local model."""
        return self.init_steps or max(1, self.steps // 4)

    @property
    def public_init(self) -> Start | None:
        """The public start, that of the local models if there are any; None for the default."""
        return None if self.init in STRATEGIES else cast(Start | None, self.init)

    def resolved(self, failure_probability: float = OVERFLOW_PROBABILITY) -> "TrainConfig":
        """Returns the config with the noise multipliers that the epsilons and delta call for.

        With a local init the joint training gets what `delta_init` leaves of delta, so that the
        run costs at most (epsilon_init + epsilon, delta) by basic composition. What is reported is
        less: both are composed by the accountant.

        Args:
            failure_probability: that sampling or noise deviates over the joint training from what
                is accounted; part of delta.
        """
        if not self.private:
            return self
        assert self.delta is not None
        sigma, sigma_init, delta = self.noise_multiplier, self.noise_multiplier_init, self.delta
        if self.epsilon_init is not None:
            part = self.delta / 2 if self.delta_init is None else self.delta_init
            sigma_init = self._noise(
                self.epsilon_init, part, self.local_steps, OVERFLOW_PROBABILITY
            )
            delta -= part
        if self.epsilon is not None:
            sigma = self._noise(self.epsilon, delta, self.steps, failure_probability)
        if self.strategy is not None:
            self._check_total(sigma or 0.0, sigma_init or 0.0, failure_probability)
        return replace(
            self,
            noise_multiplier=sigma,
            noise_multiplier_init=sigma_init,
            epsilon=None,
            epsilon_init=None,
            delta_init=None,
        )

    def _check_total(self, sigma: float, sigma_init: float, failure: float) -> None:
        """Raises ArgumentError, before the run, if no epsilon of both parts could be reported."""
        parts = [
            SubsampledGaussian(
                noise_multiplier=noise,
                sample_rate=self.sample_rate,
                steps=steps,
                overflow_probability=probability,
            )
            for noise, steps, probability in (
                (sigma_init, self.local_steps, OVERFLOW_PROBABILITY),
                (sigma, self.steps, failure),
            )
        ]
        assert self.delta is not None
        total_epsilon(parts, delta=self.delta, accountant="pld")

    def _noise(self, epsilon: float, delta: float, steps: int, failure: float) -> float:
        return calibrate_noise(
            epsilon=epsilon,
            delta=delta,
            sample_rate=self.sample_rate,
            steps=steps,
            calibration=self.calibration,
            overflow_probability=failure,
        )

    def workload(self) -> dict[str, Any]:
        """Returns the settings that decide what the parties compute, whatever their records are."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if "workload" in each.metadata
        }

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as the keyword arguments that make an equal config."""
        return asdict(self)
