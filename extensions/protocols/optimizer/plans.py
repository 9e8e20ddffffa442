"""From the settings of a training to what is public of its steps: constants, rates, weights."""

import math
from dataclasses import replace

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.layers.linear_layers import parameter_norm
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.initialization import MAX_NORM
from extensions.protocols.optimizer.state import iterates
from extensions.protocols.settings import RateSchedule, Training
from extensions.protocols.updates import UpdateRule, rule_for
from extensions.ring.fixed_point import Reals


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
            max_feature_norm=norm, max_weight_norm=bound, max_grad_norm=config.max_grad_norm / k
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
            f"In {config.steps} steps weights and residuals may grow to a norm of {bound:.4g}. "
            "Lower the learning rate, the momentum, the number of steps, or the norm of the start."
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


def multipliers(schedule: RateSchedule, steps: int) -> list[float]:
    """Returns what the learning rate is multiplied by in each of so many steps.

    "constant" leaves it as it is; "linear" and "cosine" begin with the whole and would be 0 one
    step after the last: 1 - t / T, and (1 + cos(pi t / T)) / 2, for t = 0 .. T - 1.
    """
    times = [t / steps for t in range(steps)]
    match schedule:
        case "constant":
            return [1.0] * steps
        case "linear":
            return [1.0 - t for t in times]
        case "cosine":
            return [(1.0 + math.cos(math.pi * t)) / 2 for t in times]


def response(config: Training) -> Reals:
    """Returns how far each step's sum moves the result, in units of rate / batch size, (steps,).

    A sum goes into the updates of its own step and, by momentum m, of later ones, so that s steps
    later it has moved weights by 1 + m + ... + m^s times the rate of its step; the result is the
    mean of the last iterates.
    """
    steps, m = config.steps, config.momentum
    moved = np.cumsum(m ** np.arange(steps, dtype=np.float64))
    last = np.arange(steps - iterates(config.average, steps), steps)
    mean = [moved[last[last >= t] - t].sum() / len(last) for t in range(steps)]
    return np.array(mean) * multipliers(config.lr_schedule, steps)
