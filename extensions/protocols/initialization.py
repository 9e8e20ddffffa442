"""Protocol 4: the weights that training starts from, out of models that owners trained locally.

Candidates are stacked: of each layer the weights (candidates, out_features, in_features) and the
biases (candidates, out_features), so that all candidates take the same rounds as one.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np

from extensions.errors import ArgumentError
from extensions.layers.activations import activate, relu
from extensions.layers.chain import Network
from extensions.layers.evaluation import FLAGS_OF_A_WORD, any_of, count_misses
from extensions.layers.linear_layers import parameter_norm
from extensions.layers.passes import Parameters, forward
from extensions.protocols.dpsgd_plan import DEFAULT_WEIGHT_NORM, INITIAL_WEIGHT_SHARE
from extensions.protocols.host import flat, pairs
from extensions.ring.fixed_point import SAFE_BITS, Integers, Reals, encode
from extensions.ring.interface import Ring, Share
from extensions.rules import one_of

Strategy = Literal["local", "local-average", "local-accuracy"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
AVERAGING: tuple[Strategy, ...] = ("local", "local-average")

Weighting = Literal["records", "uniform"]
"""What owners count in the average: their numbers of records, or all the same."""
WEIGHTINGS: tuple[Weighting, ...] = get_args(Weighting)

MAX_NORM = INITIAL_WEIGHT_SHARE * DEFAULT_WEIGHT_NORM
"""Bound of the Frobenius norm of a layer's weights and biases together, before training."""

_NORM_BITS = 7
_ROUNDING = 1.0 + 2.0**-8

Stacked = Sequence[tuple[Share, Share]]


def initialize(
    ring: Ring,
    strategy: Strategy,
    local: Stacked,
    records: Sequence[int],
    *,
    start: Sequence[tuple[Share, Share]],
    held_out: Sequence[tuple[Share, Share]] = (),
    weighting: Weighting = "records",
    network: Network | None = None,
) -> Parameters:
    """Returns shares of the weights and biases that training starts from; opens nothing.

    Args:
        strategy: "local-average": the average of the local models. "local-accuracy": the local
            model with the fewest misses on the held-out records. "local": of the average, the local
            models and the public start, in this order, the first with the fewest misses.
        local: all owners' models, stacked; each layer's norm is at most MAX_NORM.
        start: the public start that the local models share.
        held_out: blocks of all parties' records, which no local model was trained on, as shares of
            features (records, features) and one-hot labels. Only the average does without.
        weighting: of the average: "records" by the owners' numbers of records, "uniform" equally,
            as in the paper.
        network: of the models; layers with ReLU between them if left out.

    Guarantees:
        Local models and held-out records determine the result, but for the average's rounding.
        Counts of misses, comparisons and the winner stay shared. The result is as private for the
        training records as the local models are. Held-out records influence which candidate is
        taken; nothing is charged for them.

    Cost:
        1 round for the average. A selection: one forward pass a block, and two each of comparison,
        suffix-or, conversion and product for all candidates; in CrypTen 18 for one layer.

    Source:
        Ruan et al., S&P 2023, Protocol 4.

    Deviation:
        "local" compares more candidates; the default average counts every record the same.
    """
    check_choice(strategy, weighting, held_out)
    if strategy == "local-average":
        return average(ring, local, counts_of(records, weighting))
    tried = candidates(ring, strategy, local, records, start=start, weighting=weighting)
    each = (misses(ring, tried, x, targets, network) for x, targets in held_out)
    return best(ring, tried, functools.reduce(operator.add, each))


def candidates(
    ring: Ring,
    strategy: Strategy,
    local: Stacked,
    records: Sequence[int],
    *,
    start: Sequence[tuple[Share, Share]],
    weighting: Weighting = "records",
) -> Stacked:
    """Returns the models of which a strategy takes the `best`, in the order of its preference.

    The arguments are those of `initialize`; "local-average" has no candidates.
    """
    if strategy != "local":
        return local
    return _between(ring, average(ring, local, counts_of(records, weighting)), local, start)


def number_of_candidates(strategy: Strategy, owners: int) -> int:
    """Returns how many `candidates` there are."""
    return owners + 2 if strategy == "local" else owners


def misses(
    ring: Ring, candidates: Stacked, x: Share, targets: Share, network: Network | None = None
) -> Share:
    """Returns shares of how many records each candidate gets wrong, (candidates,).

    Those of several blocks of records add up. A candidate that says the same of all classes is
    right nowhere.
    """
    logits = logits_of(ring, candidates, x, network)
    return count_misses(ring, logits, targets, ties="wrong")


def best(ring: Ring, candidates: Stacked, misses: Share) -> Parameters:
    """Returns the first of the candidates with the fewest misses, shared afresh."""
    chosen, products = first_smallest(ring, misses), []
    for weight, bias in candidates:
        count, _ = tuple(bias.shape)
        products += [(chosen.reshape(count, 1, 1), weight), (chosen.reshape(count, 1), bias)]
    return pairs([product.sum(0) for product in ring.mul(products)])


def counts_of(records: Sequence[int], weighting: Weighting) -> Sequence[int]:
    """Returns what each owner counts in the average."""
    return [1] * len(records) if weighting == "uniform" else records


def check_choice(strategy: str, weighting: str, held_out: object) -> None:
    """Raises ArgumentError unless there is such a choice, and what it needs.

    Args:
        weighting: of the average, which only strategies with one take if it is not usual.
        held_out: records, or None or none of them, without which only an average can do.
    """
    one_of(Strategy).check("strategy", strategy)
    one_of(Weighting).check("weighting", weighting)
    if weighting != WEIGHTINGS[0] and strategy not in AVERAGING:
        rule = "unless local models are averaged"
        raise ArgumentError("weighting", weighting, rule, code="conflict")
    if strategy != "local-average" and not held_out:
        raise ArgumentError("held_out", None, f"with {{strategy={strategy}}}", code="missing")


def encode_model(model: Sequence[tuple[Reals, Reals]], frac_bits: int) -> list[Integers]:
    """Returns each layer's weights and biases as ring integers, with a leading axis of one.

    Raises:
        ArgumentError: a layer's norm is above MAX_NORM by more than rounding, or not a number.
    """
    for weight, bias in model:
        norm = parameter_norm(weight, bias)
        if not norm <= MAX_NORM * _ROUNDING:
            raise ArgumentError(
                "local", f"a layer of norm {norm:.4g}", f"of norm at most {MAX_NORM:g}"
            )
    return [encode(part, frac_bits, name="local")[None] for part in flat(model)]


def average(ring: Ring, local: Stacked, records: Sequence[int]) -> Parameters:
    """Returns the local models' average, weighted by positive integers, `records`; 1 round.

    The weights are rounded to 54 - f bits and sum to exactly 1, so that the result is less than
    1 + owners * 2^(2f - 47) ulp off, and equal models are their own average.
    """
    owners, _ = tuple(local[0][1].shape)
    if len(records) != owners or min(records, default=0) < 1:
        raise ArgumentError("records", list(records), f"{owners} numbers, each at least 1")
    bits = SAFE_BITS - 1 - _NORM_BITS - ring.frac_bits
    ends = np.cumsum([0, *records]).tolist()
    marks = [(end << bits) // ends[-1] for end in ends]
    weights = [after - before for before, after in zip(marks[:-1], marks[1:], strict=True)]
    sums = [ring.linear(part, [weights])[0] for part in flat(local)]
    return pairs(ring.truncate([(total, bits) for total in sums]))


def logits_of(ring: Ring, candidates: Stacked, x: Share, network: Network | None = None) -> Share:
    """Returns shares of every candidate's logits, (candidates, rows, classes).

    Args:
        network: of the models. If it has other layers than linear ones with an activation between
            them, each candidate takes the rounds of a pass of its own.
    """
    if network is not None and not network.is_dense:
        count = candidates[0][1].shape[0]
        models = [[(weight[k], bias[k]) for weight, bias in candidates] for k in range(count)]
        return ring.stack([forward(ring, network, model, x).logits for model in models])
    value: Share = None
    for i, (weight, bias) in enumerate(candidates):
        count, outputs, inputs = tuple(weight.shape)
        if i == 0:
            (wide,) = ring.matmul([(x, weight.reshape(count * outputs, inputs).T)])
            products = [wide[:, k * outputs : (k + 1) * outputs] for k in range(count)]
        else:
            value, _ = activate(
                ring, value, relu() if network is None else network.activations[i - 1]
            )
            products = ring.matmul([(value[k], weight[k].T) for k in range(count)])
        offset = bias.reshape(count, 1, outputs) * (1 << ring.frac_bits)
        (value,) = ring.truncate([(ring.stack(products) + offset, ring.frac_bits)])
    return value


def first_smallest(ring: Ring, values: Share) -> Share:
    """Returns shares of integers (n,) that are 1 at the first of the smallest values, else 0.

    Args:
        values: integers in 0..2^56, (n,); n at most 62.
    """
    (count,) = tuple(values.shape)
    if count > FLAGS_OF_A_WORD:
        raise ArgumentError("candidates", count, f"at most {FLAGS_OF_A_WORD}", "Use local-average.")
    scores = ring.add_public(values * count, np.arange(count, dtype=np.int64))
    smaller = ring.less_than_bits(scores.reshape(count, 1) - scores.reshape(1, count), 0)
    beaten = any_of(ring, [smaller[k] for k in range(count)])
    return ring.add_public(-beaten, 1)


def _between(
    ring: Ring, first: Parameters, stacked: Stacked, last: Sequence[tuple[Share, Share]]
) -> Stacked:
    """Returns the stack with one more candidate before it and one behind."""
    return [
        (_join(ring, a[0], w, z[0]), _join(ring, a[1], b, z[1]))
        for a, (w, b), z in zip(first, stacked, last, strict=True)
    ]


def _join(ring: Ring, first: Share, stacked: Share, last: Share) -> Share:
    count, *_ = tuple(stacked.shape)
    return ring.stack([first, *(stacked[k] for k in range(count)), last])
