"""The public settings of Protocol 5, and the constants that follow from them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from extensions.errors import ArgumentError
from extensions.network.chain import Network
from extensions.network.layers import parameter_norm
from extensions.network.losses import Loss
from extensions.network.spec import ModelSpec, Start
from extensions.privacy.accounting import Ledger
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.initialization import MAX_NORM, Strategy, Weighting
from extensions.protocols.noise import NoiseShares, NoiseSplit
from extensions.protocols.optimizer import Choices, adam_of, bias_bits, multipliers, numerators

TRAINING = "training"
"""Name in ledgers of the joint steps, to whose noise all parties contribute."""


class Settings(Choices, Protocol):
    """What all parties of a run have in common; `extensions.runs.config.TrainConfig` says more."""

    @property
    def parties(self) -> int:
        """Number of parties over which the noise is summed."""

    @property
    def model(self) -> str:
        """Name of the model (`extensions.network.spec.ModelSpec.parse`)."""

    @property
    def classes(self) -> int:
        """Number of outputs of the model that comes of a run."""

    @property
    def outputs(self) -> int:
        """Number of outputs in training: 1 where that of one of two classes is the other's too."""

    @property
    def loss(self) -> Loss:
        """Whose gradients are taken."""

    @property
    def class_weights(self) -> Sequence[float] | None:
        """How much a record of each class counts, in (0, 1]; None: all count alike."""

    @property
    def lr(self) -> float:
        """Learning rate."""

    @property
    def sample_rate(self) -> float:
        """Poisson rate q of each record in each step."""

    @property
    def private(self) -> bool:
        """Whether gradients are clipped, and noise is added."""

    @property
    def max_grad_norm(self) -> float:
        """The bound C of each example's gradient, or of all of a person together."""

    @property
    def max_weight_norm(self) -> float:
        """The bound of the norm that the weights of a layer behind the first may reach."""

    @property
    def rows_per_unit(self) -> int:
        """The most records k of one person, who is drawn with all of them."""

    @property
    def physical_rows(self) -> int | None:
        """The most rows that are computed at once; None: all of a step's."""

    @property
    def noise_multiplier(self) -> float | None:
        """The noise's standard deviation over C."""

    @property
    def colluders(self) -> int:
        """Number of parties that may pool what they know of the noise."""

    @property
    def noise_shares(self) -> NoiseShares:
        """How much of the noise each party adds."""

    @property
    def dealer_noise(self) -> bool:
        """Whether who deals correlated randomness adds noise as well."""

    @property
    def overflow_probability(self) -> float:
        """How probable it is, over all steps, that a sample exceeds its rows."""

    @property
    def max_feature_norm(self) -> float:
        """Bound of the norm of a record's features."""

    @property
    def frac_bits(self) -> int:
        """Fractional bits of the ring."""

    @property
    def public_init(self) -> Start | None:
        """The public start, that of the local models if there are any; None for the default."""

    @property
    def strategy(self) -> Strategy | None:
        """How local models make the start, or None if there are none."""

    @property
    def init_weighting(self) -> Weighting:
        """What owners count in the average of local models."""


def network_of(config: Settings, features: int) -> Network:
    """Returns the public facts about the model in training, for records with so many features.

    The model has a bias of zeros where none is trained.
    """
    return _network(config, features, config.outputs)


def whole_network_of(config: Settings, features: int) -> Network:
    """Returns the public facts about the model that comes of a run: an output of each class."""
    return _network(config, features, config.classes)


def _network(config: Settings, features: int, outputs: int) -> Network:
    network = ModelSpec.parse(config.model, features, outputs, config.loss).network
    return network.with_bias_bits(bias_bits(config.bias_scale))


def plan_of(
    config: Settings, network: Network, rows: int, expected: float, lr: float | None = None
) -> StepPlan:
    """Returns the public constants of each step.

    Args:
        config: of the run.
        network: of the model.
        rows: of a batch, padding included.
        expected: expected number of rows of those who are drawn.
        lr: learning rate; by default that of the run.

    Guarantees:
        Each record is clipped to C / k, and a person has at most k: the clipped sum moves by at
        most C (1 + eta) with a person, against which the noise is sigma.

        With "least-squares" residuals are as long as logits, which nothing cuts. Those of one layer
        are within the norm of its features times `largest_weight`, but with probability 2^-70, and
        so squared norms keep to the range in which clipping is right; those of more layers within
        the bound of all weights.

    Raises:
        ArgumentError: the step's integers do not fit the ring, or the weights of hidden layers
            might leave their bound within all steps.
    """
    norm = config.max_feature_norm
    reached = config.loss == "least-squares" and network.layers == 1
    bound = 1.0 if reached else config.max_weight_norm
    plan = StepPlan(
        frac_bits=config.frac_bits,
        layers=network.shapes(
            max_feature_norm=norm,
            max_weight_norm=bound,
            max_grad_norm=config.max_grad_norm / config.rows_per_unit,
        ),
        rows=rows,
        learning_rate=config.lr if lr is None else lr,
        expected_batch_size=expected,
        max_grad_norm=config.max_grad_norm / config.rows_per_unit,
        noise_multiplier=(config.noise_multiplier or 0.0) * config.rows_per_unit,
        parties=config.parties,
        colluders=config.colluders,
        noise_shares=config.noise_shares,
        dealer_noise=config.dealer_noise,
        momentum=config.momentum,
        private=config.private,
    )
    if reached:
        plan = _uncut(config, network, plan)
    plan.check_moved(_moved(config, plan), config.steps, config.max_weight_norm)
    return plan


def _uncut(config: Settings, network: Network, plan: StepPlan) -> StepPlan:
    """Returns the plan with bounds of residuals that nothing cuts, as long as weights may get."""
    bound = largest_weight(config, network, plan)
    try:
        shapes = network.shapes(max_feature_norm=config.max_feature_norm, max_weight_norm=bound)
        return replace(plan, layers=shapes)
    except ArgumentError as error:
        error.add_note(
            f"In {config.steps} steps weights may reach a norm of {bound:.4g}, and what is not cut "
            "with them: lower the learning rate, the momentum, the number of steps, or the norm of "
            "the start."
        )
        raise


def _moved(config: Settings, plan: StepPlan) -> float:
    """A bound of the norm by which all steps move all weights together."""
    if config.optimizer == "adam":
        return adam_of(config, plan).moved(multipliers(config.lr_schedule, config.steps))
    return plan.moved(_rates(config, plan))


def _rates(config: Settings, plan: StepPlan) -> list[float]:
    """The learning rate of each step, as it is used, over the first one's."""
    first, _ = plan.step_ratio
    return [each / first for each in numerators(plan, config.lr_schedule, config.steps)]


def largest_weight(config: Settings, network: Network, plan: StepPlan) -> float:
    """Returns a bound of the norm of all weights and biases together, in all steps.

    It is that of the start, and what all steps' sums and noise, with their momentum, may add; and
    so is that of each weight. Sums are bounded in any case; noise but with probability 2^-70.
    Without privacy gradients are taken to average `PLAIN_NORM` at most.

    Args:
        config: of the run.
        network: of the model.
        plan: of its steps.
    """
    widths = network.widths
    spec = ModelSpec.parse(config.model, widths[0], widths[-1])
    begin = spec.initial_parameters(config.public_init)
    start = math.hypot(*(parameter_norm(*layer) for layer in begin))
    if config.strategy is not None:
        start = max(start, MAX_NORM * math.sqrt(len(plan.layers)))
    ulps = math.sqrt(plan.parameters) * math.ldexp(config.steps * plan.lasting, -plan.frac_bits)
    return start + _moved(config, plan) * (1 + 2.0**-9) + ulps


def split_of(config: Settings) -> NoiseSplit:
    """Returns how the parties of a run divide noise among them."""
    return NoiseSplit(colluders=config.colluders, noise_shares=config.noise_shares)


def account(
    ledger: Ledger, name: str, config: Settings, steps: int, noise_failure: float = 0.0
) -> None:
    """Records that many steps of a run, if it is private.

    Args:
        ledger: that takes them.
        name: of the phase.
        config: of the run.
        steps: number of steps.
        noise_failure: how probable it is that noise of these steps is not what it should be.
    """
    if config.private:
        ledger.record(
            name,
            noise_multiplier=config.noise_multiplier or 0.0,
            sample_rate=config.sample_rate,
            steps=steps,
            overflow_probability=config.overflow_probability * steps / config.steps + noise_failure,
        )
