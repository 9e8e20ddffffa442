"""From the settings of a training to the public constants of its steps."""

import math
from dataclasses import replace

from extensions.errors import ArgumentError
from extensions.network.chain import Network
from extensions.network.layers import parameter_norm
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.initialization import MAX_NORM
from extensions.protocols.optimizer.schedule import multipliers
from extensions.protocols.settings import Training
from extensions.protocols.updates import UpdateRule, rule_for


def rule_of(
    config: Training, network: Network, rows: int, expected: float, lr: float | None = None
) -> UpdateRule:
    """Returns what steps make of their sums, with the public constants of each, all of them proven.

    Args:
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
    k = config.rows_per_unit
    plan = StepPlan.of(
        config,
        layers=network.shapes(
            max_feature_norm=norm,
            max_weight_norm=bound,
            max_grad_norm=config.max_grad_norm / k,
        ),
        rows=rows,
        learning_rate=config.lr if lr is None else lr,
        expected_batch_size=expected,
        max_grad_norm=config.max_grad_norm / k,
        noise_multiplier=config.noise * k,
    )
    rule = rule_for(config).of(config, plan)
    if reached:
        rule = rule_for(config).of(config, _uncut(config, network, rule))
    rule.check_moved(multipliers(config.lr_schedule, config.steps), config.max_weight_norm)
    return rule


def _uncut(config: Training, network: Network, rule: UpdateRule) -> StepPlan:
    """Returns the plan with bounds of residuals that nothing cuts, as long as weights may get."""
    bound = largest_weight(config, network, rule)
    try:
        shapes = network.shapes(max_feature_norm=config.max_feature_norm, max_weight_norm=bound)
        return replace(rule.plan, layers=shapes)
    except ArgumentError as error:
        error.add_note(
            f"In {config.steps} steps weights may reach a norm of {bound:.4g}, and what is not cut "
            "with them: lower the learning rate, the momentum, the number of steps, or the norm of "
            "the start."
        )
        raise


def largest_weight(config: Training, network: Network, rule: UpdateRule) -> float:
    """Returns a bound of the norm of all weights and biases together, in all steps.

    It is that of the start, and what all steps' sums and noise, with their momentum, may add; and
    so is that of each weight. Sums are bounded in any case; noise but with probability 2^-70.
    Without privacy gradients are taken to average `PLAIN_NORM` at most.
    """
    begin = config.spec(network.widths[0]).initial_parameters(config.public_init)
    start = math.hypot(*(parameter_norm(*layer) for layer in begin))
    plan = rule.plan
    if config.strategy is not None:
        start = max(start, MAX_NORM * math.sqrt(len(plan.layers)))
    ulps = math.sqrt(plan.parameters) * math.ldexp(config.steps * plan.lasting, -plan.frac_bits)
    moved = rule.moved(multipliers(config.lr_schedule, config.steps))
    return start + moved * (1 + 2.0**-9) + ulps
