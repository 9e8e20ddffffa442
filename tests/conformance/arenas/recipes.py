"""The protocols by name, as functions of a ring and shares: what every host must run alike.

A recipe takes the ring, its inputs as shares and public options, and returns a list of shares.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from extensions.layers import activations, linear_layers, passes, softmax
from extensions.layers import chain as network
from extensions.layers.activations import PiecewiseLinear
from extensions.layers.linear_layers import LayerGradient
from extensions.layers.losses import Loss, row_weights
from extensions.layers.tally import summary, tally
from extensions.privacy.randomness import InsecureSeededSource
from extensions.protocols import clipping, dpsgd, initialization
from extensions.protocols import inverse_sqrt as one_hot
from extensions.protocols.clipping import ClipPlan
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.inverse_sqrt import InverseSqrtPlan
from extensions.protocols.paper import inverse_sqrt_paper
from extensions.protocols.updates.adam import AdamRule, Moments, adam_step
from extensions.ring.interface import Ring, Share

Shares = list[Share]


def bits(ring: Ring, x: Share, *, positions: Sequence[int]) -> Shares:
    return [ring.bits_to_arithmetic(ring.bit_decompose(x), positions)]


def suffix_or(ring: Ring, x: Share) -> Shares:
    return [ring.bits_to_arithmetic(ring.suffix_or(ring.bit_decompose(x)), range(64))]


def word_operations(ring: Ring, x: Share, y: Share, *, mask: int) -> Shares:
    a, b = ring.bit_decompose(x), ring.bit_decompose(y)
    words = [a ^ b, a & mask, a << 7, a >> 9, ((a ^ (b >> 1)) & mask) << 3]
    return [ring.bits_to_arithmetic(word, range(64)) for word in words]


def less_than(ring: Ring, x: Share, *, thresholds: Sequence[int]) -> Shares:
    return [ring.less_than(x, thresholds)]


def truncate(ring: Ring, z: Share, *, shifts: Sequence[int]) -> Shares:
    return ring.truncate([(z, shift) for shift in shifts])


def select(
    ring: Ring, x: Share, *, thresholds: Any, slopes: Any, constants: Any, shift: int
) -> Shares:
    found = ring.select(x, thresholds, slopes, constants, shift)
    return [found.value, *found.slopes, *found.products, *found.constants]


def truncate_and_multiply(ring: Ring, *items: Share, shifts: Any, pairs: Any) -> Shares:
    values, products = ring.truncate_and_multiply(list(zip(items, shifts, strict=True)), pairs)
    return [*values, *products]


def scaled_rows(
    ring: Ring, first: Share, second: Share, beside: Share, factor: Share, *, shift: int
) -> Shares:
    """Returns squared norms, the scaled rows, and these once more."""
    rows, squares = ring.square_rows([first, second], shift, [beside])
    return [*squares, *ring.scale_rows(rows, factor), *ring.scale_rows(rows, factor)]


def of_products(ring: Ring, x: Share, y: Share, *, shift: int) -> Shares:
    """What is fused of products, untruncated; they are rows, and factors in the first column."""
    (product,) = ring.mul([(x, y)])
    found = ring.select(product, [5], [[1]], [], shift)
    rows, squares = ring.square_rows([product], shift, [product])
    return [found.value, *found.products, *squares, *ring.scale_rows(rows, product[:, 0])]


def products(ring: Ring, x: Share, y: Share) -> Shares:
    column = y[:, :1]
    return [
        *ring.mul([(x, y), (x, column), (x[0], x[1])]),
        *ring.matmul([(x, y.T), (y.T, x)]),
    ]


def local_operations(ring: Ring, x: Share, y: Share, *, public: Any, rows: Any) -> Shares:
    return [
        ring.add_public(x, public[0]),
        ring.add_public(x, public[1]),
        *ring.linear(ring.stack([x, y, -x]), rows),
        (x - y) * rows[0][0],
        x.reshape(-1)[3:].reshape(-1, 1),
        x.sum(0),
        y.sum(-1),
        x[1:, 0],
        x.T,
    ]


def noise(ring: Ring, *x: Share, scale: Sequence[float], seed: int) -> Shares:
    return ring.add_noise(x, scale, InsecureSeededSource(seed))


def inverse_sqrt(ring: Ring, x: Share, *, plan: InverseSqrtPlan) -> Shares:
    return [one_hot.inverse_sqrt(ring, x, plan)]


def paper_inverse_sqrt(ring: Ring, x: Share, *, width: int) -> Shares:
    return [inverse_sqrt_paper.inverse_sqrt_paper(ring, x, width=width)]


def clip_factor(ring: Ring, r: Share, *, plan: ClipPlan) -> Shares:
    return [clipping.clip_factor(ring, r, plan)]


def clip_by_norm(ring: Ring, x: Share, *, max_norm: float, plan: ClipPlan) -> Shares:
    return [clipping.clip_by_norm(ring, x, max_norm, plan)]


def activate(ring: Ring, x: Share, *, function: PiecewiseLinear) -> Shares:
    return list(activations.activate(ring, x, function))


def through(ring: Ring, gradient: Share, slope: Share, *, function: PiecewiseLinear) -> Shares:
    return [activations.activation_gradient(ring, gradient, slope, function)]


def tallied(ring: Ring, logits: Share, targets: Share, *, loss: Loss) -> Shares:
    return [tally(ring, loss, logits, targets)]


def summed(ring: Ring, counts: Share, *, classes: int, records: int) -> Shares:
    return [summary(ring, counts, classes, records, hidden=True)]


def probabilities(ring: Ring, logits: Share) -> Shares:
    return [softmax.softmax(ring, logits)]


def linear(ring: Ring, inputs: Share, weight: Share, bias: Share | None = None) -> Shares:
    return [linear_layers.linear(ring, inputs, weight, bias)]


def backpropagate(ring: Ring, deltas: Share, weight: Share) -> Shares:
    return [linear_layers.backpropagate(ring, deltas, weight)]


def dpsgd_step(
    ring: Ring, *given: Share, plan: StepPlan, seed: int, supplied: bool = False
) -> Shares:
    """Inputs: inputs and deltas of each layer, then the supplied norms, then the padding if any."""
    gradients, padding = _gradients(given, plan, supplied)
    updates = dpsgd.dpsgd_step(ring, gradients, plan, InsecureSeededSource(seed), padding)
    return [share for pair in updates for share in pair if share is not None]


def step_of_a_model(
    ring: Ring,
    x: Share,
    targets: Share,
    norms: Share,
    weight: Share,
    bias: Share,
    *last: Share,
    plan: StepPlan,
    loss: Loss,
    seed: int,
) -> Shares:
    """A linear model's updates, from rows on; with momentum `last` are those of the step before."""
    widths = (weight.shape[1], weight.shape[0])
    chain = network.Network.dense(widths=widths, activations=(), has_bias=(True,), loss=loss)
    trace = passes.forward(ring, chain, [(weight, bias)], x)
    ((dw, db),) = dpsgd.dpsgd_step(
        ring,
        trace.backward(targets, norms),
        plan,
        InsecureSeededSource(seed),
        velocity=[(last[0], last[1])] if last else None,
    )
    return [dw, db]


def weighted_sums(
    ring: Ring, inputs: Share, deltas: Share, targets: Share, *, plan: StepPlan, weights: Any
) -> Shares:
    """Clipped sums of one layer whose rows count as much as their classes."""
    rows = row_weights(ring, targets, weights)
    layer = LayerGradient(inputs=inputs, deltas=deltas, squared_norm=None, has_bias=True)
    sums = dpsgd.clipped_sums(ring, [layer], plan, None, rows)
    return [rows, *(share for pair in sums for share in pair if share is not None)]


def _gradients(
    given: Sequence[Share], plan: StepPlan, supplied: bool
) -> tuple[list[LayerGradient], Share | None]:
    pairs, rest = given[: 2 * len(plan.layers)], list(given[2 * len(plan.layers) :])
    norms = rest.pop(0) if supplied else None
    return [
        LayerGradient(
            inputs=a,
            deltas=d,
            squared_norm=None if i else norms,
            has_bias=shape.has_bias,
        )
        for i, (a, d, shape) in enumerate(zip(pairs[::2], pairs[1::2], plan.layers, strict=True))
    ], (rest[0] if rest else None)


def windows(ring: Ring, x: Share, weight: Share, *, places: Any) -> Shares:
    """Returns x at places, products of unfolded rows with a weight, and each record's own."""
    factor = ring.unfold(x, places)
    (outputs,) = ring.matmul([(factor, weight.T)])
    (sums,) = ring.matmul([(outputs.T, factor)])
    sizes = (-1, *places.shape)
    values = ring.gather(x, places)
    (own,) = ring.matmul([(values, factor.reshape(*sizes))])
    return [values, outputs, sums, own]


def step_of_a_network(
    ring: Ring,
    x: Share,
    targets: Share,
    padding: Share,
    *parameters: Share,
    chain: network.Network,
    plan: StepPlan,
    seed: int,
) -> Shares:
    """A network's updates, from rows on."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    trace = passes.forward(ring, chain, pairs, x)
    gradients = trace.backward(targets, None, plan.guard_shifts)
    updates = dpsgd.dpsgd_step(ring, gradients, plan, InsecureSeededSource(seed), padding)
    return [trace.logits, *(share for pair in updates for share in pair if share is not None)]


def model_gradients(
    ring: Ring, x: Share, targets: Share, *parameters: Share, loss: Loss = "sigmoid"
) -> Shares:
    """Returns the logits, then inputs and deltas of each layer."""
    pairs = list(zip(parameters[::2], parameters[1::2], strict=True))
    widths = (x.shape[1], *(bias.shape[0] for _, bias in pairs))
    relus = (activations.relu(),) * (len(pairs) - 1)
    chain = network.Network.dense(
        widths=widths, activations=relus, has_bias=(True,) * len(pairs), loss=loss
    )
    trace = passes.forward(ring, chain, pairs, x)
    gradients = trace.backward(targets, None)
    inputs = [getattr(g.inputs, "share", g.inputs) for g in gradients]
    deltas = [g.deltas for g in gradients]
    return [trace.logits, *itertools.chain(*zip(inputs, deltas, strict=True))]


def initialize(
    ring: Ring,
    x: Share,
    targets: Share,
    *parts: Share,
    strategy: Any,
    records: Sequence[int],
    weighting: Any = "records",
) -> Shares:
    """`parts`: the local models' stacked weight and bias of each layer, then those of the start."""
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    middle = len(pairs) // 2
    started = initialization.initialize(
        ring,
        strategy,
        pairs[:middle],
        records,
        start=pairs[middle:],
        held_out=() if strategy == "local-average" else [(x, targets)],
        weighting=weighting,
    )
    return [part for pair in started for part in pair]


def first_smallest(ring: Ring, values: Share) -> Shares:
    return [initialization.first_smallest(ring, values)]


def train(
    ring: Ring,
    x: Share,
    targets: Share,
    padding: Share,
    weight: Share,
    bias: Share,
    *,
    plan: StepPlan,
    seed: int,
) -> Shares:
    """Returns weight and bias after one step on each batch, the leading axis of the first three."""
    source = InsecureSeededSource(seed)
    widths = (weight.shape[1], weight.shape[0])
    chain = network.Network.dense(widths=widths, activations=(), has_bias=(True,))
    for t in range(x.shape[0]):
        pairs = [(weight, bias)]
        gradients = passes.forward(ring, chain, pairs, x[t]).backward(targets[t], None)
        ((dw, db),) = dpsgd.dpsgd_step(ring, gradients, plan, source, padding[t])
        weight, bias = weight - dw, bias - db
    return [weight, bias]


def adam(ring: Ring, *given: Share, plan: AdamRule, steps: int, bits: Sequence[int]) -> Shares:
    """Returns what the last of equal steps takes from weights and biases, and the moments."""
    half = len(given) // 3
    sums, moments = given[:half], Moments(list(given[half : 2 * half]), list(given[2 * half :]))
    moved: Shares = []
    for t in range(1, steps + 1):
        moved, moments = adam_step(ring, sums, moments, plan, plan.public(t), bits)
    return [*moved, *moments.first, *moments.second]


RECIPES: dict[str, Callable[..., Shares]] = {
    recipe.__name__: recipe
    for recipe in (
        bits,
        suffix_or,
        word_operations,
        less_than,
        truncate,
        select,
        truncate_and_multiply,
        scaled_rows,
        of_products,
        products,
        local_operations,
        noise,
        inverse_sqrt,
        paper_inverse_sqrt,
        clip_factor,
        clip_by_norm,
        activate,
        through,
        probabilities,
        summed,
        tallied,
        weighted_sums,
        linear,
        backpropagate,
        dpsgd_step,
        step_of_a_model,
        windows,
        step_of_a_network,
        model_gradients,
        initialize,
        first_smallest,
        train,
        adam,
    )
}
