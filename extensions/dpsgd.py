"""Protocol 3: one step of secure DPSGD, stated once for every ring.

Per-example gradients are never materialised: for a linear layer ||g_j||^2 is
||delta_j||^2 (||a_j||^2 + 1), one factor is computed per example, and the clipped sum is one
matrix product a layer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from extensions.clipping import ClipPlan, clip_factor, inverse_square_up
from extensions.errors import ArgumentError
from extensions.fixed_point import SAFE_BITS, check_frac_bits
from extensions.layers import LayerGradient
from extensions.noise import TAIL, add_gaussian_noise, party_variance
from extensions.randomness import NoiseSource
from extensions.ring import Ring, Share

LEARNING_RATE_BITS = 10
FACTOR_EXTRA_BITS = 6
MIN_NORM_BITS = 8
MAX_ETA = 2.0**-8
DEFAULT_WEIGHT_NORM = 400.0
PLAIN_NORM = 64.0
"""Plain SGD, which clips nothing, fits the ring while gradients average at most this norm."""
ENCODING_SLACK = 1.0 + MAX_ETA
"""Rounding of features to the ring lifts the norm of a row by less than this factor."""


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """The public facts about one linear layer that the bounds need.

    Attributes:
        in_features: columns of its weight.
        out_features: rows of its weight.
        has_bias: whether it has a bias.
        input_norm: bound of ||a_j||, the Euclidean norm of one row of its input.
        delta_norm: bound of ||delta_j||.
    """

    in_features: int
    out_features: int
    has_bias: bool
    input_norm: float
    delta_norm: float

    def __post_init__(self) -> None:
        for name in ("input_norm", "delta_norm"):
            value = getattr(self, name)
            if not 0.0 < value <= 2.0**20:
                raise ArgumentError(
                    name, value, "in (0, 2^20]", "Rescale the features or cap them."
                )


def chain_of_shapes(
    layers: Sequence[tuple[int, int, bool, float]], *, delta_norm: float, weight_norm: float
) -> tuple[LayerShape, ...]:
    """Returns the shapes of a chain of linear layers, from input to output.

    Args:
        layers: (in_features, out_features, has_bias, input_norm) of each.
        delta_norm: bound of ||delta_j|| at the output.
        weight_norm: bound of each weight's Frobenius norm; slopes in between are at most 1.
    """
    shapes: list[LayerShape] = []
    for in_features, out_features, has_bias, input_norm in reversed(layers):
        shapes.insert(
            0,
            LayerShape(
                in_features=in_features,
                out_features=out_features,
                has_bias=has_bias,
                input_norm=input_norm,
                delta_norm=delta_norm,
            ),
        )
        delta_norm *= weight_norm
    return tuple(shapes)


@dataclass(frozen=True, kw_only=True)
class StepPlan:
    """The public constants of one step, and the bounds that they prove.

    Args:
        frac_bits: fractional bits f.
        layers: shapes of the linear layers.
        rows: rows of the batch, padding included.
        learning_rate: public; the noisy sum is multiplied by learning_rate / expected_batch_size.
        expected_batch_size: public divisor of the sum.
        max_grad_norm: C.
        noise_multiplier: sigma / C that any `colluders` parties still face.
        colluders: how many parties may subtract their own noise.
        degree: of the clip factor's polynomial.
        private: False leaves clipping and noise out (plain SGD, for comparison).

    Raises:
        ArgumentError: a value out of range, or a step whose integers do not fit the ring.
    """

    frac_bits: int
    layers: tuple[LayerShape, ...]
    rows: int
    learning_rate: float
    expected_batch_size: float
    max_grad_norm: float
    noise_multiplier: float
    parties: int
    colluders: int = 1
    degree: int = 2
    private: bool = True
    clip: ClipPlan = field(init=False)

    def __post_init__(self) -> None:
        check_frac_bits(self.frac_bits)
        for name in ("learning_rate", "expected_batch_size", "max_grad_norm"):
            value = getattr(self, name)
            if not (0.0 < value < math.inf):
                raise ArgumentError(name, value, "positive and finite")
        if not (0.0 <= self.noise_multiplier < math.inf):
            raise ArgumentError("noise_multiplier", self.noise_multiplier, "finite, at least 0")
        inverse_square_up(self.max_grad_norm, name="max_grad_norm")
        if not self.layers:
            raise ArgumentError("layers", self.layers, "at least one LayerShape")
        if self.rows < 1:
            raise ArgumentError("rows", self.rows, "at least 1")
        party_variance(self.parties, self.colluders)
        clip = ClipPlan(
            frac_bits=self.frac_bits,
            range_bits=min(ClipPlan.range_bits, 2 * self.frac_bits - 4),
            degree=self.degree,
        )
        object.__setattr__(self, "clip", clip)
        if self.private:
            self._check_norms()
        self._check_update()

    def _check_norms(self) -> None:
        worst = max(max(s.delta_norm, s.input_norm) for s in self.layers)
        room = 2.0 ** ((SAFE_BITS - 1) / 2 - self.frac_bits)
        if worst > room or min(bits for bits, _ in self.norm_bits) < MIN_NORM_BITS:
            raise ArgumentError(
                "layers",
                [(s.input_norm, s.delta_norm) for s in self.layers],
                f"norm bounds (input, delta) below {room:.3g} whose product leaves "
                f"{MIN_NORM_BITS} bits for squared norms",
                "Lower the bounds on features, activations or weights, or lower frac_bits.",
            )
        if self.eta > MAX_ETA:
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"such that eta, now {self.eta:.3g}, is at most {MAX_ETA}",
                "Raise frac_bits or max_grad_norm.",
            )

    def _check_update(self) -> None:
        shift = self.step_ratio[1] + self.factor_bits
        if not 0 <= shift < SAFE_BITS:
            raise ArgumentError(
                "learning_rate",
                self.learning_rate,
                "such that learning_rate / expected_batch_size is in "
                f"2^{self.factor_bits - 52} .. 2^{self.factor_bits + 9}",
            )

    @property
    def norm_bits(self) -> list[tuple[int, int]]:
        """Fractional bits of ||delta||^2 and of ||a||^2 + 1, for each layer.

        Their sum is the same for all layers and leaves the sum of the products, scaled by
        1 / C^2, below 2^61.
        """
        ranges = [
            (math.ceil(2 * math.log2(s.delta_norm)) + 1, math.ceil(math.log2(s.input_norm**2 + 2)))
            for s in self.layers
        ]
        numerator, shift = inverse_square_up(self.max_grad_norm)
        taken = max(max(d, 0) + a for d, a in ranges) + math.ceil(math.log2(len(ranges)))
        budget = SAFE_BITS - 1 - taken - numerator.bit_length()
        budget = min(
            budget, 4 * self.frac_bits, 2 * (SAFE_BITS // 2 - 1), SAFE_BITS + self.frac_bits - shift
        )
        result = []
        for _, a in ranges:
            a_bits = min(max((budget - a) // 2, 3), 2 * self.frac_bits)
            result.append((min(budget - a_bits, 2 * self.frac_bits), a_bits))
        total = min(d + a for d, a in result)
        if total + shift < self.frac_bits:
            raise ArgumentError("max_grad_norm", self.max_grad_norm, "larger", "Rescale the data.")
        return [(total - a, a) for _, a in result]

    @property
    def factor_bits(self) -> int:
        """Fractional bits of the clipped deltas: what the sum and the update leave free."""
        if self.private:
            largest = self.rows * self.max_grad_norm * (1 + MAX_ETA) + TAIL * self.noise_scale(1.0)
        else:
            largest = self.rows * PLAIN_NORM
        free = SAFE_BITS - 1 - self.frac_bits - LEARNING_RATE_BITS - math.ceil(math.log2(largest))
        if free < self.frac_bits - 4:
            raise ArgumentError(
                "frac_bits",
                self.frac_bits,
                f"at most {(free + self.frac_bits + 4) // 2} for this batch, bound and noise",
                "Lower frac_bits, the batch size or the noise.",
            )
        return min(free, self.frac_bits + FACTOR_EXTRA_BITS)

    def noise_scale(self, slack: float) -> float:
        """Returns the standard deviation of all parties' noise together, before the division."""
        variance = party_variance(self.parties, self.colluders)
        return (
            self.noise_multiplier * self.max_grad_norm * slack * math.sqrt(variance * self.parties)
        )

    @property
    def eta(self) -> float:
        """One example moves the sum by at most max_grad_norm (1 + eta): the sensitivity.

        The factor is one-sided, squared norms and 1 / C^2 are rounded up, and the final product
        is not rounded at all; what remains is the rounding of delta * factor, below one unit of
        2^-factor_bits in each of out_features coordinates, times the norm of (a_j, 1).
        """
        error = (
            sum(s.out_features * (s.input_norm**2 + s.has_bias) for s in self.layers)
            * 4.0**-self.factor_bits
        )
        return math.sqrt(error) / self.max_grad_norm

    @property
    def largest_pull(self) -> float:
        """Bound of the Frobenius norm by which the clipped sum of one step moves all weights."""
        ratio = self.learning_rate / self.expected_batch_size
        return ratio * self.rows * self.max_grad_norm * (1 + self.eta)

    @property
    def largest_noise(self) -> float:
        """Bound of the norm by which one step's noise moves them, but with probability 2^-70.

        Over several steps these bounds add in squares.
        """
        parameters = sum(s.out_features * (s.in_features + s.has_bias) for s in self.layers)
        ratio = self.learning_rate / self.expected_batch_size
        return ratio * self.noise_scale(1 + self.eta) * (math.sqrt(parameters) + 10.0)

    @property
    def step_ratio(self) -> tuple[int, int]:
        """(K, m) with K / 2^m nearest to learning_rate / expected_batch_size, K of 10 bits."""
        mantissa, exponent = math.frexp(self.learning_rate / self.expected_batch_size)
        return round(mantissa * (1 << LEARNING_RATE_BITS)), LEARNING_RATE_BITS - exponent


def squared_norm_ratios(ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan) -> Share:
    """Returns ||g_j||^2 / C^2 of every example, rounded up, f fractional bits; 4 rounds."""
    f = ring.frac_bits
    wanted = [layer for layer in layers if layer.squared_norm is None]
    squares = ring.mul(
        [(layer.deltas, layer.deltas) for layer in layers] + [(w.inputs, w.inputs) for w in wanted]
    )
    computed = iter(squares[len(layers) :])
    raw = []
    for layer, square, (delta_bits, input_bits) in zip(
        layers, squares, plan.norm_bits, strict=False
    ):
        norm = next(computed).sum(-1) if layer.squared_norm is None else layer.squared_norm
        if layer.has_bias:
            norm = ring.add_public(norm, 1 << (2 * f))
        raw += [(square.sum(-1), 2 * f - delta_bits), (norm, 2 * f - input_bits)]
    norms = [ring.add_public(value, 1) for value in ring.truncate(raw)]
    products = ring.mul(list(zip(norms[::2], norms[1::2], strict=True)))
    total = products[0]
    for product in products[1:]:
        total = total + product
    numerator, shift = inverse_square_up(plan.max_grad_norm)
    shift += sum(plan.norm_bits[0]) - f
    (ratio,) = ring.truncate([(total * numerator, shift)])
    return ring.add_public(ratio, 1)


def padding_offset(plan: ClipPlan) -> int:
    """Returns what to add to the ratio of a padding row, so that its factor is exactly 0."""
    return 1 << (plan.live_bits + 1)


def clipped_sums(
    ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan, padding: Share | None
) -> list[tuple[Share, Share | None]]:
    """Returns, for each layer, the sum over the batch of clipped gradients, exact in its last bit.

    Args:
        ring: the host.
        layers: per-example gradients of every linear layer of the model.
        plan: the public constants.
        padding: shares of the integers 1 for rows that are padding and 0 for real ones, (rows,);
            None if all rows are real. Padding rows cost no round: they are put beyond the range in
            which the clip factor is not 0.

    Returns:
        (weight, bias) pairs with frac_bits + factor_bits fractional bits.

    **Guarantees.** Adding or removing one example changes the result, over all layers together, by
    an L2 norm of at most max_grad_norm (1 + plan.eta).

    **Cost.** 4 rounds for the norms, one `clip_factor`, 3 for the sums; one ring element a row for
    the factor and no (rows, parameters) tensor anywhere.
    """
    _check_match(ring, layers, plan)
    f = ring.frac_bits
    if plan.private:
        ratios = squared_norm_ratios(ring, layers, plan)
        if padding is not None:
            ratios = ratios + padding * padding_offset(plan.clip)
        factor = clip_factor(ring, ratios, plan.clip).reshape(-1, 1)
        products = ring.mul([(factor, layer.deltas) for layer in layers])
        scaled = ring.truncate([(product, 2 * f - plan.factor_bits) for product in products])
    else:
        deltas = [layer.deltas for layer in layers]
        if padding is not None:
            real = ring.add_public(-padding, 1).reshape(-1, 1)
            deltas = ring.mul([(real, delta) for delta in deltas])
        scaled = _rescale(ring, deltas, f, plan.factor_bits)
    weights = ring.matmul(
        [(delta.T, layer.inputs) for delta, layer in zip(scaled, layers, strict=True)]
    )
    return [
        (weight, delta.sum(0) * (1 << f) if layer.has_bias else None)
        for weight, delta, layer in zip(weights, scaled, layers, strict=True)
    ]


def _check_match(ring: Ring, layers: Sequence[LayerGradient], plan: StepPlan) -> None:
    for name in ("frac_bits", "parties"):
        ours, theirs = getattr(plan, name), getattr(ring, name)
        if ours != theirs:
            raise ArgumentError("plan", f"{name} {ours}", f"made for the ring's {name}, {theirs}")
    biases, planned = [[x.has_bias for x in of] for of in (layers, plan.layers)]
    if biases != planned:
        raise ArgumentError(
            "layers", f"has_bias {biases}", f"those of the plan: has_bias {planned}"
        )


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
) -> list[tuple[Share, Share | None]]:
    """Returns, for each layer, what to subtract from its weight and bias.

    **Guarantees.** The update is post-processing of a Gaussian mechanism with sensitivity
    max_grad_norm (1 + eta) and standard deviation at least noise_multiplier times that, against
    any `colluders` parties together. Nothing is opened.

    **Cost.** `clipped_sums` and one round.

    **Source.** Ruan et al., S&P 2023, Protocol 3. **Deviation**: comparison, inverse root and
    selection are fused, norms are ghost norms, noise is discrete.
    """
    sums = clipped_sums(ring, layers, plan, padding)
    flat = [share for pair in sums for share in pair if share is not None]
    bits = ring.frac_bits + plan.factor_bits
    if plan.private:
        flat = add_gaussian_noise(
            ring,
            flat,
            plan.noise_multiplier * plan.max_grad_norm * (1 + plan.eta),
            frac_bits=bits,
            source=source,
            colluders=plan.colluders,
        )
    numerator, shift = plan.step_ratio
    updates = iter(
        ring.truncate([(share * numerator, shift + bits - ring.frac_bits) for share in flat])
    )
    return [(next(updates), None if bias is None else next(updates)) for _, bias in sums]
