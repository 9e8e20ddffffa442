"""The settings of a training, in groups: what runs, scripts and commands have in common."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, Self

from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.layers.losses import Loss
from extensions.layers.models.custom import named
from extensions.layers.models.start_file import with_digest
from extensions.layers.spec import ModelSpec, Start
from extensions.options import Option
from extensions.privacy.accounting import CALIBRATIONS, Ledger, Neighbours
from extensions.privacy.sampling import OVERFLOW_PROBABILITY
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, LEAST_RATE, MOMENTUM, MOST_RATE
from extensions.protocols.initialization import STRATEGIES, Strategy, Weighting
from extensions.protocols.noise import Noise
from extensions.protocols.polynomial import MINIMAX
from extensions.protocols.updates import RULES
from extensions.protocols.updates.adam import BETA_BITS, EPS, FLOOR
from extensions.ring.fixed_point import MAX_FRAC_BITS, MIN_FRAC_BITS
from extensions.rules import (
    NOT_NEGATIVE,
    PART,
    POSITIVE,
    Between,
    Each,
    OneOf,
    Whole,
    check_fields,
    one_of,
)

Cells = Literal["fine", "coarse", "equal"]
Opening = Literal["never", "each-step"]
Method = Literal["pea", "statistics"]
Split = Literal["rows", "columns"]
RateSchedule = Literal["constant", "linear", "cosine"]
Init = str

TRAINING = "training"
"""Name in ledgers of the joint steps, to whose noise all parties contribute."""
SHARE = 0.15
"""Of the budget, 1 / sigma^2, that whitening takes."""
MOST_BIAS_BITS = 8
MAX_PARTIES = 64

_SCALES = (0.0, *(2.0**-bits for bits in range(MOST_BIAS_BITS + 1)))
_MOST_BETA = 1.0 - 2.0**-BETA_BITS


class _BiasScale(Between):
    """One with which sums of biases are exact."""

    def holds(self, value: Any) -> bool:
        return super().holds(value) and float(value) in _SCALES


ADAM_FLOOR = Between(2.0**-8, 1.0, words="in 2^-8..1, of the noise's variance")
AVERAGE = Between(0.0, 1.0, words="in 0..1, the part of the steps")
RATE = Between(LEAST_RATE, MOST_RATE, words="positive, in 2^-40..2^40")
PARTIES = Whole(1, MAX_PARTIES)
DELTA = Between(0.0, 1.0, above=True, below=True, hint="1 / (10 records) is usual.")
BIAS_SCALE = _BiasScale(
    0.0,
    1.0,
    words=f"0 for no bias, or a power of two in 2^-{MOST_BIAS_BITS}..1",
    hint="Other scales would be rounded, and the bound of each gradient with them.",
)


@dataclass(frozen=True, kw_only=True)
class Model:
    """What is learnt.

    Attributes:
        model: kind of model: logistic, mlp:H with H hidden units (or mlp:H1,H2), for images lenet
            or cnn, or module:function of your own, which lists the layers.
        classes: number of classes.
        one_output: for two classes, train one output and halve the traffic. The saved model has
            both.
        loss: kind of loss: sigmoid or hard-sigmoid (each class against the others), softmax (over
            all classes), squared (a number in the schema's range, or each class), or least-squares
            (like squared, but unclipped: fewest rounds).
        class_weights: weight of each class, in (0, 1] in steps of 2^-8: a record's clipped gradient
            is multiplied by it; None: all count alike.
        bias_scale: constant input of biases, a power of two up to 1. A smaller one leaves more of
            each gradient's bound to the features; 0: no biases.
        max_feature_norm: public bound of the norm of a record's features.
        max_weight_norm: bound of the norm of the weights of each layer but the first, in 400..2^14.
            PEA rejects a run of several layers that might exceed it.
        frac_bits: fractional bits of the ring.
        whiten: multiply features by the inverse square root of a noisy sum of x x^T over all
            training features. The sum is opened.
        whiten_ridge: number added to the sum's eigenvalues; by default it follows from the noise.
        cells: in which an additive model's records are counted.
    """

    model: Annotated[str, Option(parse=named)] = "logistic"
    classes: Annotated[int, Whole(1)] = 10
    one_output: bool = False
    loss: Loss = "sigmoid"
    class_weights: Annotated[Sequence[float] | None, Each(PART)] = None
    bias_scale: Annotated[float, BIAS_SCALE] = 1.0
    max_feature_norm: Annotated[float, POSITIVE] = 1.0
    max_weight_norm: Annotated[float, POSITIVE] = DEFAULT_WEIGHT_NORM
    frac_bits: Annotated[int, Whole(MIN_FRAC_BITS, MAX_FRAC_BITS)] = 20
    whiten: bool = False
    whiten_ridge: Annotated[float | None, POSITIVE] = None
    cells: Cells = "fine"

    @property
    def outputs(self) -> int:
        """Number of outputs in training: 1 where that of one of two classes is the other's too."""
        return 1 if self.one_output else self.classes

    @property
    def bias_bits(self) -> int | None:
        """The bits b of the bias's input 2^-b; None for no bias."""
        return 1 - math.frexp(self.bias_scale)[1] if self.bias_scale else None

    def spec(self, features: int = 1, *, whole: bool = False) -> ModelSpec:
        """Returns the model for records with so many features.

        If it is whole, it has an output for each class, as a run returns it; else as in training.
        """
        outputs = self.classes if whole else self.outputs
        return ModelSpec.parse(self.model, features, outputs, self.loss)

    def network(self, features: int, *, whole: bool = False) -> Network:
        """Returns the public facts about `spec`; where no bias is trained, it is of zeros."""
        return self.spec(features, whole=whole).network.with_bias_bits(self.bias_bits)


@dataclass(frozen=True, kw_only=True)
class Descent:
    """How it is learnt.

    Attributes:
        method: how to train: pea (Protocol 5), or statistics (a linear model with least-squares
            loss, from noisy sums of products over all records, which are opened once).
        open: when to open the model: never before the end, or after each-step (owners compute on
            their own records without a dealer, and epsilon is the same).
        steps: number of updates.
        lr: learning rate; the update is lr / expected batch size times the noisy sum.
        lr_schedule: how the learning rate falls: constant (not at all), or linear or cosine, to 0
            after the last step.
        momentum: momentum coefficient, in 0..0.999.
        optimizer: optimizer: sgd, or adam (with both moments in shares, and the noise's variance
            subtracted from the second).
        beta1: decay of Adam's first moment, in 0..0.999.
        beta2: decay of Adam's second moment, in 0.5..0.999.
        adam_floor: least second moment of Adam, in units of the noise's variance, in 2^-8..1.
        average: average the models of this last fraction of the steps, in 0..1; 0: take the last
            model.
        physical_rows: compute about this many rows of a batch at once, for less memory and more
            rounds. Clipping, noise and epsilon are those of the whole batch.
        init: start of training: zero (the default for one layer), random (for several), or an .npz
            file of public weights (the same at all parties, as `pea train --save` writes it). Or
            models that the owners trained locally: local-average, local-accuracy (the best on
            held-out records), or local (the best of both and the start).
        init_steps: steps of each local model; by default a quarter of the joint ones.
        init_lr: learning rate of the local models; by default lr / parties, because their batches
            are that much smaller.
        init_weighting: weights of the local models in their average: the owners' numbers of records
            (records), or equal (uniform).
    """

    method: Method = "pea"
    open: Opening = "never"
    steps: Annotated[int, Whole(1)] = 120
    lr: Annotated[float, RATE] = 10.0
    lr_schedule: RateSchedule = "constant"
    momentum: Annotated[float, MOMENTUM] = 0.0
    optimizer: Annotated[str, OneOf(RULES)] = "sgd"
    beta1: Annotated[float, Between(0.0, _MOST_BETA, words="in 0..0.999")] = 0.9
    beta2: Annotated[float, Between(0.5, _MOST_BETA, words="in 0.5..0.999")] = 0.999
    adam_floor: Annotated[float, ADAM_FLOOR] = FLOOR
    average: Annotated[float, AVERAGE] = 0.0
    physical_rows: Annotated[int | None, Whole(1)] = None
    init: Annotated[Init | None, Option(parse=with_digest)] = None
    init_steps: Annotated[int | None, Whole(1)] = None
    init_lr: Annotated[float | None, RATE] = None
    init_weighting: Weighting = "records"

    @property
    def strategy(self) -> Strategy | None:
        """How local models make the start, or None if there are none."""
        return self.init if self.init in STRATEGIES else None

    @property
    def public_init(self) -> Start | None:
        """The public start, that of the local models if there are any; None for the default."""
        return None if self.init in STRATEGIES else self.init

    @property
    def hidden(self) -> bool:
        """Whether nobody sees a model before the end, and records are shared."""
        return self.open == "never" and self.method == "pea"

    @property
    def local_steps(self) -> int:
        """Steps of each local model."""
        return self.init_steps or max(1, self.steps // 4)


@dataclass(frozen=True, kw_only=True)
class Privacy(Noise):
    """What it may cost, and against whom.

    Attributes:
        parties: number of parties, who own the data.
        epsilon: target epsilon of the whole run, local models and whitening included; needs delta.
        delta: delta of the guarantee, in (0, 1).
        neighbours: neighbouring data sets: add-remove (a record or a null record in its place; the
            default) or replace (one record or another; the default with columns). Numbers of
            records are public.
        calibration: how noise is calibrated to epsilon: pld, rdp or paper.
        epsilon_init: part of epsilon for each owner's local model, at the same delta; the joint
            training takes the rest.
        noise_multiplier_init: sigma / C of the local models; None until `resolved`.
        whiten_share: share of the budget, 1 / sigma^2, for whitening (default 0.15).
        noise_multiplier_whiten: standard deviation of whitening's noise, over the most that a
            record adds; needs noise_multiplier.
        noise_multiplier_counts: sigma of an additive model's counts over what a record adds to
            them; None until `resolved`.
    """

    parties: Annotated[int, PARTIES] = 3
    epsilon: float | None = None
    delta: Annotated[float | None, DELTA] = None
    neighbours: Neighbours = None  # type: ignore[assignment]  # until the split is known
    calibration: Annotated[str, one_of(CALIBRATIONS)] = "pld"
    epsilon_init: float | None = None
    noise_multiplier_init: Annotated[float | None, NOT_NEGATIVE] = None
    whiten_share: Annotated[
        float | None, Between(0.0, 1.0, above=True, below=True, hint=f"{SHARE} is usual.")
    ] = None
    noise_multiplier_whiten: Annotated[float | None, NOT_NEGATIVE] = None
    noise_multiplier_counts: Annotated[float | None, NOT_NEGATIVE] = None


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which records enter a step.

    Attributes:
        split: how the owners divide the records: rows (each has other records) or columns (each has
            other columns of the same persons in the same order, and one has the labels).
        sample_rate: Poisson rate at which a step samples each record, in (0, 1].
        rows_per_unit: k, the most records of one person, who is drawn with all of them; each is
            clipped to C / k, so that epsilon is a person's.
        overflow_probability: that a batch of the joint training, or of a local one, is too small
            for its sample; part of delta, from which `resolved` derives it.
    """

    split: Split = "rows"
    sample_rate: Annotated[float, PART] = 0.1
    rows_per_unit: Annotated[int, Whole(1)] = 1
    overflow_probability: Annotated[float, Between(0.0, 1.0, below=True)] = OVERFLOW_PROBABILITY


@dataclass(frozen=True, kw_only=True)
class Training(Model, Descent, Privacy, Sampling):
    """The settings of a training, each of them in its range."""

    def __post_init__(self) -> None:
        if self.neighbours is None:  # co-owners know who is in
            usual = "replace" if self.split == "columns" else "add-remove"
            object.__setattr__(self, "neighbours", usual)
        check_fields(self)

    @property
    def own_norm(self) -> float:
        """Public bound of the norm of what one owner has of a record: all together keep theirs."""
        return self.max_feature_norm / math.sqrt(self.parties if self.split == "columns" else 1)

    def records_of(self, sizes: Sequence[int]) -> int:
        """Returns the number of all records, given that of each party."""
        return sizes[0] if self.split == "columns" else sum(sizes)

    def derived(self, **settings: Any) -> Self:
        """Returns them with others that follow from checked ones, and are not checked again."""
        other = copy(self)
        vars(other).update(settings)
        return other

    def at_rate(self, lr: float) -> Self:
        """Returns them with a learning rate, which is checked if it is another one."""
        return self if lr == self.lr else replace(self, lr=lr)


@dataclass(frozen=True, kw_only=True)
class ScriptTraining(Training):
    """Those of an optimizer of scripts, which makes one step after the other.

    Attributes:
        steps: number of them, if it is known.
        expected_batch_size: public divisor of sums; None: that of the batch.
        degree: of the clip factor's polynomial.
        eps: of Adam without noise, the root of the least second moment.
    """

    steps: Annotated[int | None, Whole(1)] = None  # type: ignore[assignment]
    expected_batch_size: Annotated[float | None, POSITIVE] = None
    degree: Annotated[int, one_of(sorted(MINIMAX))] = 2
    eps: Annotated[float, Between(2.0**-16, 1.0, words="in 2^-16..1")] = EPS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.private:
            NOT_NEGATIVE.check("noise_multiplier", self.noise_multiplier)
        if not self.bias_scale:
            advice = "Or make layers with bias=False, in Keras with use_bias=False."
            raise ArgumentError("bias_scale", self.bias_scale, "above 0 here", advice)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Returns those that are among a constructor's arguments, whose model is an object."""
        names = {field.name for field in fields(cls)} - {"model"}
        return cls(**{name: value for name, value in arguments.items() if name in names})

    @property
    def bias_bits(self) -> int:
        """The bits b of the bias's input 2^-b."""
        return super().bias_bits or 0


def account(
    ledger: Ledger, name: str, config: Training, steps: int, noise_failure: float = 0.0
) -> None:
    """Records that many steps of a run, if it is private.

    Args:
        noise_failure: how probable it is that noise of these steps is not what it should be.
    """
    if config.private:
        ledger.record(
            name,
            noise_multiplier=config.noise,
            sample_rate=config.sample_rate,
            steps=steps,
            overflow_probability=config.overflow_probability * steps / config.steps + noise_failure,
        )
