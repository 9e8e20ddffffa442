"""What a training run says of itself: the same for every party, and all of it public."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from extensions.network.losses import Loss
from extensions.network.models.own_layers import named
from extensions.network.models.start_file import kept
from extensions.network.spec import Start
from extensions.options import Option
from extensions.privacy.accounting import Neighbours
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM
from extensions.protocols.initialization import STRATEGIES, Strategy, Weighting
from extensions.protocols.noise import NoiseShares
from extensions.protocols.optimizer import Optimizer, RateSchedule
from extensions.protocols.optimizer.adam import FLOOR
from extensions.protocols.sums.choices import Method, Opening, is_hidden
from extensions.runs.providers import Provider

Evaluate = Literal["mpc", "noisy", "opened", "none"]
Metrics = Literal["accuracy", "all"]
Kind = Literal["images", "texts", "tables"]
Init = str


@dataclass(frozen=True, kw_only=True)
class Stated:
    """Everything public about a run, not checked yet.

    Attributes:
        backend: the host: crypten (processes), tfe (TF Encrypted's ABY3), clear (plaintext, one
            process, same arithmetic), or another that is installed; it refuses what it cannot do.
        parties: number of parties, who own the data.
        provider: who deals correlated randomness: dealer or ttp (processes without data), parties
            (nobody: two to four of them make it), or tfp (party 0, which can then reconstruct every
            secret); crypten alone has the choice.
        rows_per_unit: k, the most records of one person, who is drawn with all of them; each is
            clipped to C / k, so that epsilon is a person's.
        class_weights: how much a record of each class counts, in (0, 1]: its clipped gradient times
            that, in steps of 2^-8; None: all count alike.
        data: name of the data set, for the report.
        facts: what is publicly known of the records, by name: a table's columns and classes, or
            their schema.
        features: name of the extractor that each owner used, for the report.
        method: how it is learnt: pea (Protocol 5), or statistics (a linear model from sums of
            products over all records, which are opened once, with noise; loss least-squares).
        open: when the model is opened: never before the end, or after each-step (owners compute on
            their own records, nobody deals, and epsilon is the same).
        model: kind of model: logistic, mlp:H with H hidden units (or mlp:H1,H2), of images lenet or
            cnn, or module:function of one's own, which lists layers.
        classes: number of classes.
        one_output: of two classes train one output alone, half the words; the model that comes of
            it has the other's too, its negative.
        loss: kind of loss: sigmoid or hard-sigmoid (one class against all others), softmax (of all
            classes), squared (of a number in the schema's range; or of each class), or
            least-squares (the same of predictions that are not cut to the range: fewest rounds).
        steps: number of updates.
        lr: learning rate; the update is lr / expected batch size times the noisy sum.
        lr_schedule: how the learning rate falls: constant (not at all), linear, or cosine, to 0
            after the last step.
        momentum: what of an update goes into the next one, in 0..0.999.
        optimizer: what a step makes of the noisy sum: sgd, or adam (both moments in shares, the
            noise's variance taken out of the second one).
        beta1: of adam, what of the mean of gradients stays, in 0..0.999.
        beta2: of adam, what of the mean of their squares stays, in 0.5..0.999.
        adam_floor: least second moment of adam in units of the noise's variance, in 2^-8..1.
        physical_rows: about how many rows of a batch are computed at once: less memory, and more
            rounds. Clipping, noise and epsilon are those of the whole batch.
        average: the last part of all steps whose models' mean is the result, in 0..1; 0: the very
            last model is.
        bias_scale: the input whose weights biases are, a power of two up to 1: less leaves more of
            the bound of each gradient to features; 0: no biases.
        sample_rate: Poisson rate at which a step samples each record, in (0, 1].
        max_grad_norm: C, the bound of each example's gradient.
        max_weight_norm: bound of the norm that the weights of each layer behind the first may
            reach, in 400..2^14: a run of several layers that might go beyond it is refused.
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
        metrics: what is counted: accuracy (correct predictions alone), or all (what majority, AUC,
            Brier score, recall and precision follow from; sums of squares for a regression); by
            default all with a schema, else accuracy.
        count_noise: with noisy, standard deviation of the noise of each number, in records; where
            several sums are opened of two classes' scores, each has as much more that together they
            cost a record as much as one number.
        seed_data: public seed of splitting the data.
        insecure_seed: draw sampling and noise from this seed, which everybody knows: for comparing
            backends only, NOT private.
        init: where training starts: zero (the default of one layer), random (of several), from an
            .npz file of public weights (the same at all parties, as `pea train --save` writes it),
            or from models that owners trained locally: local-average, local-accuracy (the best on
            held-out records), local (the best of both and the start).
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
        data_kind: what the records are, images, texts or tables, which the defaults follow.
        cheap: take fewer steps.
        epochs: instead of steps: steps = epochs / rate.
        chosen: names of settings that nobody gave, which `resolved` finds
            (`extensions.runs.config.defaults`).
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
    model: Annotated[str, Option(parse=named)] = "logistic"
    classes: int = 10
    one_output: bool = False
    loss: Loss = "sigmoid"
    steps: int = 120
    lr: float = 10.0
    lr_schedule: RateSchedule = "constant"
    momentum: float = 0.0
    optimizer: Optimizer = "sgd"
    beta1: float = 0.9
    beta2: float = 0.999
    adam_floor: float = FLOOR
    physical_rows: int | None = None
    average: float = 0.0
    bias_scale: float = 1.0
    sample_rate: float = 0.1
    max_grad_norm: float = 1.0
    max_weight_norm: float = DEFAULT_WEIGHT_NORM
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
    count_noise: float = 5.0
    seed_data: int = 0
    insecure_seed: Annotated[int | None, Option(name="insecure-fixed-randomness")] = None
    init: Annotated[Init | None, Option(parse=kept)] = None
    epsilon_init: float | None = None
    noise_multiplier_init: float | None = None
    init_steps: int | None = None
    init_lr: float | None = None
    init_weighting: Weighting = "records"
    overflow_probability: float = OVERFLOW_PROBABILITY
    settled: bool = False
    data_kind: Kind = "tables"
    cheap: bool = False
    epochs: float | None = None
    chosen: tuple[str, ...] = ()

    @property
    def strategy(self) -> Strategy | None:
        """How local models make the start, or None if there are none."""
        return self.init if self.init in STRATEGIES else None

    @property
    def hidden(self) -> bool:
        """Whether nobody sees a model before the end, and records are shared."""
        return is_hidden(self)

    @property
    def outputs(self) -> int:
        """Number of outputs in training."""
        return 1 if self.one_output else self.classes

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
        return None if self.init in STRATEGIES else self.init
