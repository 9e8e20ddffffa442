"""Protocol 3: one step of secure DPSGD, stated once for every ring.

Clipped gradients are never materialised: for a linear layer ||g_j||^2 is
||delta_j||^2 (||a_j||^2 + s^2), s the input of the bias, one factor is computed per example, and
the clipped sum is one matrix product a layer. `extensions.protocols.norms.unfolded` has the squared
norms of layers with several positions.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from extensions.errors import ArgumentError
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.losses import WEIGHT_BITS
from extensions.protocols.clipping import PADDING_BITS, ratio_up, unrounded_factor
from extensions.protocols.dpsgd_plan import MOMENTUM_BITS, StepPlan
from extensions.protocols.noise import add_gaussian_noise
from extensions.protocols.norms.unfolded import Unfolded, passed
from extensions.ring.interface import NoiseSource, Ring, Rows, Share
from extensions.ring.words import power

Sums = Sequence[tuple[Share | None, Share | None]]
"""For each layer that of its weight and that of its bias, None where it is frozen or missing."""


def squared_norm_ratios(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan
) -> tuple[Share, int, Rows]:
    """Returns ||g_j||^2 / C^2 of every example, rounded up, and deltas that its factor can scale.

    ||g_j||^2 is the sum over layers of ||delta_j||^2 (||a_j||^2 + s^2), with s of
    `extensions.layers.linear_layers.LayerGradient` where there is a bias, or of what
    `extensions.protocols.norms.unfolded` says of those with positions; of s^2 ||delta_j||^2 where
    the bias alone is trained. Frozen layers have no part in it.

    Returns:
        The ratios, their fractional bits beyond f, and the deltas of each trained layer.

    Cost:
        A round for the squares, and those of products of truncated values
        (`Ring.truncate_and_multiply`); a round more with positions.
    """
    f = ring.frac_bits
    both = list(zip(layers, plan.layers, strict=True))
    unknown = [x.inputs for x, shape in both if shape.way == "linear" and x.squared_norm is None]
    trained = [x.deltas for x, shape in both if shape.is_trained]
    rows, squares = ring.square_rows(trained, plan.clip.factor_shift, unknown)
    of_deltas, of_inputs = iter(squares[: len(trained)]), iter(squares[len(trained) :])
    unfolded = Unfolded(ring, layers, plan)
    raw, alone, raised = [], [], []
    for (layer, shape), bits in zip(both, plan.norm_bits, strict=True):
        deltas = next(of_deltas) if shape.is_trained else None
        if shape.way == "bias":
            kept = plan.bias_norm_bits(shape)
            alone.append((deltas, 2 * (f + shape.bias_bits) - kept))
            raised.append(sum(bits) - kept)
        if shape.way != "linear":
            continue
        inputs = next(of_inputs) if layer.squared_norm is None else layer.squared_norm
        if layer.has_bias:
            inputs = ring.add_public(inputs, 1 << (2 * (f - layer.bias_bits)))
        raw += [(deltas, 2 * f - bits[0]), (inputs, 2 * f - bits[1])]
    places = [(i, i + 1) for i in range(0, len(raw), 2)]
    pairs = [*places, *unfolded.pairs(len(raw))]
    items = [*raw, *unfolded.items, *alone]
    norms, products = (
        ring.truncate_and_multiply(items, pairs) if pairs else (ring.truncate(items), [])
    )
    # (x + 1) (y + 1): both are rounded up.
    count, end = len(places), len(items) - len(alone)
    summands = [*products[:count], *norms[: 2 * count]]
    summands += unfolded.squares(norms[2 * count : end], products[count:])
    summands += [norm * (1 << up) for norm, up in zip(norms[end:], raised, strict=True)]
    total = functools.reduce(operator.add, summands)
    ratio, shift = ratio_up(
        ring.add_public(total, count + sum(1 << up for up in raised)),
        f,
        plan.norm_bound,
        bits=sum(plan.norm_bits[0]),
    )
    return ratio, shift, rows


def clipped_sums(
    ring: Ring,
    layers: Sequence[LayerGradient],
    plan: StepPlan,
    padding: Share | None,
    weights: Share | None = None,
) -> Sums:
    """Returns, for each layer, the sum over the batch of clipped gradients, exact in its last bit.

    Args:
        padding: shares of the integers 1 for rows that are padding and 0 for real ones, (rows,);
            None if all rows are real. Padding rows cost no round: they are put beyond the range in
            which the clip factor is not 0.
        weights: shares of what each row counts once it is clipped, 1 at most, `WEIGHT_BITS`
            fractional bits, (rows,); None if all rows count alike.

    Returns:
        (weight, bias) pairs with frac_bits + factor_bits fractional bits; None of what is frozen.

    Guarantees:
        Adding or removing one example changes the result, over all layers together, by an L2 norm
        of at most max_grad_norm (1 + plan.eta).

    Cost:
        `squared_norm_ratios`, `unrounded_factor`, the rounds of scaled rows (`Ring.scale_rows`) and
        2 for the sums, two more with weights, and with guards one more than `passed` takes; one
        ring element a row for the factor. No (rows, parameters) tensor anywhere, but of layers
        with positions whose plan says so.
    """
    _check_match(ring, layers, plan)
    each = iter(_scaled(ring, layers, plan, padding, weights))
    own = [next(each) if shape.is_trained else None for shape in plan.layers]
    scaled: list[Any] = [
        delta if shape.positions == 1 or delta is None else delta.reshape(-1, shape.out_features)
        for delta, shape in zip(own, plan.layers, strict=True)
    ]
    both = list(zip(scaled, layers, strict=True))
    factors = [(delta.T, layer.inputs) for delta, layer in both if layer.has_weight]
    sums = iter(ring.matmul(factors) if factors else [])
    f = ring.frac_bits
    return [
        (
            next(sums) if layer.has_weight else None,
            delta.sum(0) * (1 << (f - layer.bias_bits)) if layer.has_bias else None,
        )
        for delta, layer in both
    ]


def _scaled(
    ring: Ring,
    layers: Sequence[LayerGradient],
    plan: StepPlan,
    padding: Share | None,
    weights: Share | None,
) -> list[Share]:
    """Returns each trained layer's deltas as they count, with `factor_bits` fractional bits."""
    f = ring.frac_bits
    extra = 0 if weights is None else WEIGHT_BITS
    if plan.private:
        ratio, shift, rows = squared_norm_ratios(ring, layers, plan)
        if plan.guards:
            ratio = _where_passed(ring, ratio, passed(ring, layers, plan, padding))
        elif padding is not None:
            ratio = ratio + padding * (1 << PADDING_BITS)
        factor = unrounded_factor(ring, ratio, plan.clip, shift)
        if weights is not None:
            factor, rows = _weighted(ring, factor, weights, rows)
        products = ring.scale_rows(rows, factor)
        return ring.truncate([(product, 2 * f + extra - plan.factor_bits) for product in products])
    both = zip(layers, plan.layers, strict=True)
    deltas = [layer.deltas for layer, shape in both if shape.is_trained]
    if padding is not None:
        real = ring.add_public(-padding, 1).reshape(-1, 1)
        deltas = ring.mul([(real, delta) for delta in deltas])
    if weights is not None:
        deltas = ring.mul([(weights.reshape(-1, 1), delta) for delta in deltas])
    return _rescale(ring, deltas, f + extra, plan.factor_bits)


def _where_passed(ring: Ring, ratio: Share, flags: Share) -> Share:
    """Returns the ratios where the flags are 1, else one whose factor is 0; one round.

    A ratio of a record that did not pass may be anything, so that nothing can be added to it.
    """
    beyond = 1 << PADDING_BITS
    (product,) = ring.mul([(flags, ring.add_public(ratio, -beyond))])
    return ring.add_public(product, beyond)


def _weighted(ring: Ring, factor: Share, weights: Share, rows: Rows) -> tuple[Share, Rows]:
    """Returns the truncated factors times weights, and rows that these scale as they are."""
    (factor,) = ring.truncate([(factor, rows.shift)])
    (factor,) = ring.mul([(factor, weights)])
    return factor, Rows(rows.values, 0)


def _check_match(ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan) -> None:
    for name in ("frac_bits", "parties"):
        ours, theirs = getattr(plan, name), getattr(ring, name)
        if ours != theirs:
            raise ArgumentError("plan", f"{name} {ours}", f"made for the ring's {name}, {theirs}")
    trained, planned = (
        [(x.has_weight, x.has_bias, x.bias_bits * x.has_bias) for x in of]
        for of in (layers, plan.layers)
    )
    if trained != planned:
        allowed = f"those of the plan: (has_weight, has_bias, bias_bits) {planned}"
        raise ArgumentError("layers", f"of which is trained {trained}", allowed)


def _rescale(ring: Ring, shares: list[Share], bits: int, new_bits: int) -> list[Share]:
    if new_bits >= bits:
        return [share * (1 << (new_bits - bits)) for share in shares]
    return ring.truncate([(share, bits - new_bits) for share in shares])


def dpsgd_step(
    ring: Ring,
    layers: Sequence[LayerGradient],
    plan: StepPlan,
    source: NoiseSource,
    padding: Share | None = None,
    velocity: Sequence[tuple[Share, Share]] | None = None,
) -> Sums:
    """Returns, for each layer, what to subtract from its weight and bias; None of what is frozen.

    With momentum that is the update and, of what the last step subtracted (`velocity`), the part
    that the plan says, in one truncation. `padding` is that of `clipped_sums`.

    Guarantees:
        The update is post-processing of a Gaussian mechanism with sensitivity max_grad_norm (1 +
        eta) and standard deviation at least noise_multiplier times that, against any `colluders`
        parties together. Nothing is opened.

    Cost:
        `clipped_sums` and one round.

    Source:
        Ruan et al., S&P 2023, Protocol 3.

    Deviation:
        comparison, inverse root and selection are fused, norms are ghost norms, noise is discrete.
    """
    if plan.momentum_numerator and velocity is None:
        raise ArgumentError("velocity", None, "with momentum", code="missing")
    sums = with_noise(ring, clipped_sums(ring, layers, plan, padding), plan, source)
    return updates_of(ring, sums, plan, plan.step_ratio, velocity)


def with_noise(ring: Ring, sums: Sums, plan: StepPlan, source: NoiseSource) -> Sums:
    """Returns sums with the noise of all parties, or as they are if the plan is not private; local.

    Args:
        sums: of `clipped_sums` over all rows of a step, or of its parts, added up.
    """
    if not plan.private:
        return sums
    noisy = add_gaussian_noise(
        ring,
        parts_of(sums),
        plan.sigma,
        frac_bits=ring.frac_bits + plan.factor_bits,
        source=source,
        split=plan,
        dealer_noise=plan.dealer_noise,
    )
    return paired(noisy, plan)


def added(sums: Sums, more: Sums, plan: StepPlan) -> Sums:
    """Returns the sums of two parts of one step's rows; local."""
    both = zip(parts_of(sums), parts_of(more), strict=True)
    return paired([one + other for one, other in both], plan)


def updates_of(
    ring: Ring,
    sums: Sums,
    plan: StepPlan,
    ratio: tuple[Any, Any],
    velocity: Sequence[tuple[Share, Share]] | None,
) -> Sums:
    """Returns, for each layer, what noisy sums and momentum take from its weight and bias.

    Sums of biases count times s^2 and s, for the input s that they are weights of.

    Args:
        sums: of `clipped_sums`, with noise.
        ratio: `StepPlan.step_ratio`; where a program outlives its learning rate, what stands for
            it: a public factor and an `extensions.ring.words.Exponent`, read when it runs.

    Cost:
        One truncation.
    """
    numerator, exponent = ratio
    items = []
    for (i, j), part in zip(plan.parts, parts_of(sums), strict=True):
        bits = plan.factor_bits + j * plan.layers[i].bias_bits
        scaled = part * numerator
        if velocity is not None:
            kept = power(exponent + (bits - MOMENTUM_BITS)) * plan.momentum_numerator
            scaled = scaled + velocity[i][j] * kept
        items.append((scaled, exponent + bits))
    return paired(ring.truncate(items), plan)


def parts_of(sums: Sums) -> list[Share]:
    """Returns weights' and biases' parts in turn, without those that there are not."""
    return [share for pair in sums for share in pair if share is not None]


def paired(parts: Sequence[Share], plan: StepPlan) -> Sums:
    """Returns the pairs of which `parts_of` returned these."""
    each = iter(parts)
    return [
        (next(each) if layer.has_weight else None, next(each) if layer.has_bias else None)
        for layer in plan.layers
    ]
