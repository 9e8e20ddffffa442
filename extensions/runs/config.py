"""The settings of one training run: the same for every party, checked before anything starts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal, cast, get_args

from extensions.checks import check_not_negative, check_positive, check_weights
from extensions.errors import ArgumentError
from extensions.network.losses import SQUARED, Loss, residual_norm
from extensions.network.spec import ModelSpec, Start
from extensions.options import Option
from extensions.privacy.accounting import CALIBRATIONS, NEIGHBOURS, Neighbours, check_real
from extensions.privacy.planning import Phase, Target, plan
from extensions.privacy.sampling import OVERFLOW_PROBABILITY, check_sample_rate
from extensions.protocols.initialization import STRATEGIES, Strategy, Weighting, check_weighting
from extensions.protocols.noise import NoiseShares, least_sigma
from extensions.protocols.optimizer import RateSchedule, check_choices
from extensions.protocols.sums.choices import Method, Opening, check_way, is_hidden
from extensions.protocols.sums.whitened import SHARE, check_whitening
from extensions.ring.fixed_point import check_frac_bits
from extensions.runs.entry_points import check_offered
from extensions.runs.providers import (
    Provider,
    check_dealer_noise,
    check_noise_shares,
    check_provider,
)

HOSTS = "pea.backends"
"""The entry point group of those who make runs (`extensions.runs.hosts`)."""

MAX_PARTIES = 64
MAX_DELTA = 0.01
"""With this probability epsilon may not hold: it may be one in a hundred records that is known."""

Evaluate = Literal["mpc", "noisy", "opened", "none"]
Metrics = Literal["accuracy", "all"]
Init = Start | Strategy
INITS = (*get_args(Start), *STRATEGIES)

CHOSEN_BY_COUNTS = ("local-accuracy", "local")
"""Starts that depend on the held-out records."""

_LOCAL_ONLY = ("epsilon_init", "noise_multiplier_init", "init_steps", "init_lr")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Everything public about a run.

    Attributes:
        backend: the host: crypten (processes), tfe (TF Encrypted's ABY3), clear (plaintext, one
            process, same arithmetic), or another that is installed; it refuses what it cannot do.
        parties: number of parties, who own the data.
        provider: who deals correlated randomness: dealer or ttp (processes without data), or tfp
            (party 0, which can then reconstruct every secret); crypten alone has the choice.
        rows_per_unit: k, the most records of one person, who is drawn with all of them; each is
            clipped to C / k, so that epsilon is a person's.
        class_weights: how much a record of each class counts, in (0, 1]: its clipped gradient times
            that, in steps of 2^-8; None: all count alike.
        data: name of the data set, for the report.
        facts: what is publicly known of the records, by name: a table's columns and classes, or
            their schema.
        features: name of the extractor that each owner used, for the report.
        method: how it is learnt: pea (Protocol 5), or statistics (a linear model from sums of
            products over all records, which are opened once, with noise; loss squared).
        open: when the model is opened: never before the end, or after each-step (owners compute on
            their own records, nobody deals, and epsilon is the same).
        model: kind of model: logistic, or mlp:H with H hidden units.
        classes: number of classes.
        loss: kind of loss: sigmoid or hard-sigmoid (one class against all others), softmax (of all
            classes), squared (of a number in the schema's range; or of each class), or
            least-squares (the same of predictions that are not cut to the range: fewest rounds).
        steps: number of updates.
        lr: learning rate; the update is lr / expected batch size times the noisy sum.
        lr_schedule: how the learning rate falls: constant (not at all), linear, or cosine, to 0
            after the last step.
        momentum: what of an update goes into the next one, in 0..0.999.
        average: the last part of all steps whose models' mean is the result, in 0..1; 0: the very
            last model is.
        bias_scale: the input whose weights biases are, a power of two up to 1: less leaves more of
            the bound of each gradient to features; 0: no biases.
        sample_rate: Poisson rate at which a step samples each record, in (0, 1].
        max_grad_norm: C, the bound of each example's gradient.
        epsilon: target epsilon of the whole run, local models and whitening included; needs
            delta.
        delta: delta of the guarantee, in (0, 1).
        neighbours: for whom epsilon is: add-remove (a record, or a null record in its place) or
            replace (a record, or another). Numbers of records are public.
        noise_multiplier: sigma / C, instead of epsilon.
        colluders: how many parties, t of m, may pool what they know: epsilon holds against them.
        noise_shares: variance of each party's noise: exact (sigma^2 / (m - t), which leaves sigma^2
            against t parties), or paper (3 sigma^2 / (2m) where that is more).
        dealer_noise: the dealer adds noise too, which no party knows, so that sigma^2 / (m + 1 - t)
            from each is enough; that it does is taken on trust.
        whiten: open a noisy sum of x x^T over all training features x, and multiply features by its
            inverse square root.
        whiten_share: of the budget, 1 / sigma^2, what that takes (default 0.15).
        whiten_ridge: what is added to the sum's eigenvalues; by default it follows from the noise.
        noise_multiplier_whiten: sigma of that sum over what a record adds; with noise_multiplier.
        calibration: how epsilon becomes noise: pld, rdp or paper.
        private: False trains without clipping and noise, for comparison.
        max_feature_norm: public bound of the norm of a record's features.
        frac_bits: fractional bits of the ring.
        evaluate: what is opened: the number of correct predictions on held-out records (mpc), that
            number with noise (noisy), the model and the number (opened), or nothing (none). A model
            that is public is opened in any case, and owners count alone what is summed.
        metrics: what is counted: accuracy (correct predictions alone), or all (records of a class
            by bin of their score, for majority, AUC, recall and calibration; sums of squares for a
            regression); by default all with a schema, else accuracy.
        count_noise: with noisy, standard deviation of the noise of each number, in records; one
            record changes one of them, by at most 1.
        seed_data: public seed of splitting the data.
        insecure_seed: draw sampling and noise from this seed, which everybody knows: for comparing
            backends only, NOT private.
        init: where training starts: zero (the default of one layer), random (of several), or from
            models that owners trained locally: local-average, local-accuracy (the best on held-out
            records), local (the best of both and the start).
        epsilon_init: of epsilon, what each owner's local model may take, at the same delta; the
            joint training takes the rest.
        noise_multiplier_init: sigma / C of the local models; None until `resolved`.
        init_steps: steps of each local model; by default a quarter of the joint ones.
        init_lr: their learning rate; by default lr / parties: batches are that much smaller, so
            that a step's noise moves weights as far as in the joint training.
        init_weighting: weights of the local models' average: by the owners' numbers of records
            (records), or equal (uniform).
        overflow_probability: that a batch of the joint training, or of a local one, is too small
            for its sample; part of delta, from which `resolved` derives it.
        settled: whether noise and overflow are those that `resolved` found for the epsilons.
    """

    backend: str = "crypten"
    parties: int = 3
    provider: Provider = "dealer"
    rows_per_unit: int = 1
    class_weights: Sequence[float] | None = None
    data: str = "digits"
    facts: Mapping[str, Any] = field(default_factory=dict, hash=False)
    features: str = "raw"
    method: Method = "pea"
    open: Opening = "never"
    model: str = "logistic"
    classes: int = 10
    loss: Loss = "sigmoid"
    steps: int = 120
    lr: float = 10.0
    lr_schedule: RateSchedule = "constant"
    momentum: float = 0.0
    average: float = 0.0
    bias_scale: float = 1.0
    sample_rate: float = 0.1
    max_grad_norm: float = 1.0
    epsilon: float | None = None
    delta: float | None = None
    neighbours: Neighbours = "add-remove"
    noise_multiplier: float | None = None
    colluders: int = 1
    noise_shares: NoiseShares = "exact"
    dealer_noise: bool = False
    whiten: bool = False
    whiten_share: float | None = None
    whiten_ridge: float | None = None
    noise_multiplier_whiten: float | None = None
    calibration: str = "pld"
    private: Annotated[
        bool, Option(name="no-dp", help="no clipping and no noise: NOT private.", negated=True)
    ] = True
    max_feature_norm: float = 1.0
    frac_bits: int = 20
    evaluate: Evaluate = "mpc"
    metrics: Metrics | None = None
    count_noise: float = 10.0
    seed_data: int = 0
    insecure_seed: Annotated[int | None, Option(name="insecure-fixed-randomness")] = None
    init: Init | None = None
    epsilon_init: float | None = None
    noise_multiplier_init: float | None = None
    init_steps: int | None = None
    init_lr: float | None = None
    init_weighting: Weighting = "records"
    overflow_probability: float = OVERFLOW_PROBABILITY
    settled: bool = False

    def __post_init__(self) -> None:
        check_offered(HOSTS, "backend", self.backend)
        check_provider(self.provider)
        if self.evaluate not in get_args(Evaluate):
            raise ArgumentError("evaluate", self.evaluate, f"one of {get_args(Evaluate)}")
        if self.metrics is not None and self.metrics not in get_args(Metrics):
            raise ArgumentError("metrics", self.metrics, f"one of {get_args(Metrics)}")
        if not 1 <= self.parties <= MAX_PARTIES:
            raise ArgumentError("parties", self.parties, f"in 1..{MAX_PARTIES}")
        check_noise_shares(self.parties, self.colluders, self.noise_shares)
        if self.dealer_noise:
            check_dealer_noise(self.parties, self.provider, self.insecure_seed)
        if self.classes == 1 and "schema target" in self.facts and self.loss not in SQUARED:
            allowed = "'squared' where a number is learnt"
            raise ArgumentError("loss", self.loss, allowed, "Type: --loss squared")
        fewest = 1 if self.loss in SQUARED else 2
        floors = (("steps", 1), ("rows_per_unit", 1), ("classes", fewest), ("seed_data", 0))
        for name, floor in floors:
            if getattr(self, name) < floor:
                raise ArgumentError(name, getattr(self, name), f"at least {floor}")
        for name in ("lr", "max_grad_norm", "max_feature_norm", "count_noise"):
            check_positive(name, getattr(self, name))
        if self.calibration not in CALIBRATIONS:
            raise ArgumentError("calibration", self.calibration, f"one of {CALIBRATIONS}")
        if self.neighbours not in NEIGHBOURS:
            raise ArgumentError("neighbours", self.neighbours, f"one of {NEIGHBOURS}")
        check_real("overflow_probability", self.overflow_probability)
        if self.insecure_seed is not None and not 0 <= self.insecure_seed < 2**63:
            raise ArgumentError("insecure_seed", self.insecure_seed, "in 0..2^63 - 1")
        residual_norm(self.loss, self.classes)
        check_choices(self)
        spec = ModelSpec.parse(self.model, 1, self.classes)
        if self.class_weights is not None:
            if len(self.class_weights) != self.classes:
                allowed = f"one for each of {self.classes} classes"
                raise ArgumentError("class_weights", self.class_weights, allowed)
            check_weights("class_weights", self.class_weights)
        self._check_init()
        check_way(self)
        spec.initial_parameters(self.public_init)
        check_sample_rate(self.sample_rate)
        check_frac_bits(self.frac_bits)
        if self.evaluate == "noisy":
            self._check_count_noise()
        if self.private:
            self._check_privacy()
        check_whitening(self)

    def _check_count_noise(self) -> None:
        least = least_sigma(
            self.parties,
            frac_bits=self.frac_bits,
            colluders=self.colluders,
            noise_shares=self.noise_shares,
        )
        if self.count_noise < least:
            raise ArgumentError(
                "count_noise",
                self.count_noise,
                f"at least {least:.3g} with frac_bits = {self.frac_bits}",
                "Raise frac_bits, or the noise.",
            )

    def _check_privacy(self) -> None:
        self._check_target("", "Or ask for a run without privacy by name.")
        if self.delta is None or not 0.0 < self.delta <= MAX_DELTA:
            allowed = f"in (0, {MAX_DELTA}]"
            raise ArgumentError("delta", self.delta, allowed, "1 / (10 records) is usual.")
        if self.strategy is not None:
            self._check_target("_init", "Each owner's local model is private on its own.")
            if self.epsilon and self.epsilon_init and self.epsilon_init >= self.epsilon:
                raise ArgumentError(
                    "epsilon_init",
                    self.epsilon_init,
                    f"below epsilon = {self.epsilon}, the whole run's",
                    "A quarter of it is a good start.",
                )

    def _check_target(self, part: str, advice: str) -> None:
        names = (f"epsilon{part}", f"noise_multiplier{part}")
        epsilon, sigma = (getattr(self, name) for name in names)
        both = self.settled and epsilon is not None and sigma is not None
        if (epsilon is None) == (sigma is None) and not both:
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
        if self.evaluate == "noisy" and self.init in CHOSEN_BY_COUNTS:
            raise ArgumentError(
                "init",
                self.init,
                f"none of {CHOSEN_BY_COUNTS} with evaluate = 'noisy'",
                "Such a start is chosen by exact counts, which later noise does not make private.",
            )
        if self.classes == 1 and self.init in CHOSEN_BY_COUNTS:
            allowed = f"none of {CHOSEN_BY_COUNTS} where a number is learnt"
            raise ArgumentError("init", self.init, allowed, "No prediction is right or wrong.")
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
    def hidden(self) -> bool:
        """Whether nobody sees a model before the end, and records are shared."""
        return is_hidden(self)

    @property
    def judged(self) -> Metrics:
        """What is counted on held-out records."""
        if self.classes == 1:
            return "all"
        return self.metrics or ("all" if "schema target" in self.facts else "accuracy")

    @property
    def local_steps(self) -> int:
        """Steps of each local model."""
        return self.init_steps or max(1, self.steps // 4)

    @property
    def public_init(self) -> Start | None:
        """The public start, that of the local models if there are any; None for the default."""
        return None if self.init in STRATEGIES else cast(Start | None, self.init)

    def resolved(self, noise_failure: float = 0.0) -> "TrainConfig":
        """Returns the config with the noise that the epsilons call for, and the overflow for them.

        Epsilon is that of the run as the accountant composes it, local models and whitening
        included. It stays in the config, as what was asked for.

        Args:
            noise_failure: that noise deviates over the joint training from what is accounted.

        Raises:
            ArgumentError: no noise meets a target, or no epsilon could be told at the end; or steps
                of a method that has none.
        """
        if not self.private or self.settled:
            return self
        if self.method == "statistics" and (self.steps, self.sample_rate) != (1, 1.0):
            raise ArgumentError(
                "steps, sample_rate",
                (self.steps, self.sample_rate),
                "(1, 1.0) with method = 'statistics'",
                "All records are summed once.",
            )
        assert self.delta is not None
        joint = Phase(
            steps=self.steps,
            sample_rate=self.sample_rate,
            noise_multiplier=self.noise_multiplier,
            epsilon=self.epsilon,
            failure_probability=noise_failure,
        )
        local = Phase(
            steps=self.local_steps,
            sample_rate=self.sample_rate,
            noise_multiplier=self.noise_multiplier_init,
            epsilon=self.epsilon_init,
        )
        whitening = Phase(
            steps=1,
            sample_rate=1.0,
            noise_multiplier=self.noise_multiplier_whiten,
            epsilon=self.epsilon,
            share=self.whiten_share or SHARE,
            padded=False,
        )
        phases = {
            **({} if self.strategy is None else {"init": local}),
            **({"whiten": whitening} if self.whiten else {}),
            "joint": joint,
        }
        target = Target(delta=self.delta, neighbours=self.neighbours, calibration=self.calibration)
        found, overflow = plan(tuple(phases.values()), target)
        noises = dict(zip(phases, found, strict=True))
        return replace(
            self,
            noise_multiplier=noises["joint"],
            noise_multiplier_init=noises.get("init"),
            noise_multiplier_whiten=noises.get("whiten"),
            overflow_probability=overflow,
            settled=True,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as the keyword arguments that make an equal config."""
        return asdict(self)
