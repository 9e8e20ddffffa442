"""A chain of stages from records to logits, and what is known of its values and gradients.

Branches, whose results are added, stand in the chain one behind the other
(`extensions.layers.stages.branches`).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from extensions.errors import ArgumentError
from extensions.layers.activations import PiecewiseLinear
from extensions.layers.guards import Guard
from extensions.layers.linear_layers import LayerShape
from extensions.layers.losses import Loss, residual_norm
from extensions.layers.stages.branches import Branching, Fork, Join, Turn, check_branches
from extensions.layers.stages.stage import Activation, Bound, Stage
from extensions.layers.stages.trained import Linear, Trained, training
from extensions.ring.fixed_point import ENCODING_SLACK

GUARD_BITS = 11
"""Behind a guard a layer's gradient is proven to be within 2^GUARD_BITS max_grad_norm."""

_MOST_VALUES = 1 << 26
"""Of all records that are computed at once, at one stage."""

_REACH_OF_BIAS = 8.0
"""Guards take this for the input of a bias alone, which is 1 or less: within the same bound deltas
would be so long that their squares leave the ring."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The public facts about a chain of stages.

    Attributes:
        stages: from the input to the logits; the last one is a linear layer. Activations are
            bounded, since that bounds the norms of the inputs behind them.
        bias_bits: of the input of biases (`extensions.layers.linear_layers.LayerGradient`).
        guarded: whether gradients on their way back are tested where their proven bound is beyond
            use (`extensions.layers.guards`); a chain of many layers needs it.
    """

    stages: tuple[Stage, ...]
    bias_bits: int = 0
    loss: Loss = "sigmoid"
    guarded: bool = False

    def __post_init__(self) -> None:
        if not self.stages or not isinstance(self.stages[-1], Linear):
            kinds = [type(stage).__name__ for stage in self.stages]
            raise ArgumentError("stages", kinds, "a chain that ends with a linear layer")
        for before, after in itertools.pairwise(self.stages):
            if before.outputs != after.inputs:
                raise ArgumentError(
                    "stages",
                    f"{type(before).__name__} of {before.outputs} values before "
                    f"{type(after).__name__} of {after.inputs}",
                    "stages of which each takes what the one before it returns",
                    code="shape",
                )
        check_branches(self.stages)
        for stage in self.stages:
            if isinstance(stage, Activation) and stage.function.bound == math.inf:
                raise ArgumentError("activations", stage.function.name, "bounded functions")
        if not any(stage.is_trained for stage in self.trained):
            raise ArgumentError("stages", "all frozen", "such that a weight or a bias is trained")
        residual_norm(self.loss, self.widths[-1])

    @classmethod
    def dense(
        cls,
        *,
        widths: tuple[int, ...],
        activations: tuple[PiecewiseLinear, ...],
        has_bias: tuple[bool, ...],
        loss: Loss = "sigmoid",
        guarded: bool = False,
    ) -> "Network":
        """Returns linear layers: of n + 1 widths, n - 1 activations between, and n biases."""
        layers = len(widths) - 1
        if layers < 1 or (layers, layers) != (len(activations) + 1, len(has_bias)):
            given = (len(widths), len(activations), len(has_bias))
            allowed = "of n + 1, n - 1 and n entries, n > 0"
            raise ArgumentError("widths, activations, has_bias", given, allowed, code="shape")
        stages: list[Stage] = []
        for i, pair in enumerate(itertools.pairwise(widths)):
            if i:
                stages.append(Activation(activations[i - 1], widths[i]))
            stages.append(Linear(*pair, has_bias[i]))
        return cls(stages=tuple(stages), loss=loss, guarded=guarded)

    @property
    def trained(self) -> list[Trained]:
        """The stages with weights, frozen ones included."""
        return [stage for stage in self.stages if isinstance(stage, Trained)]

    @property
    def lowest(self) -> int:
        """Place of the first stage of which anything is trained: the way back ends there."""
        places = (i for i, s in enumerate(self.stages) if isinstance(s, Trained) and s.is_trained)
        return next(places)

    @property
    def activations(self) -> tuple[PiecewiseLinear, ...]:
        """The functions between linear stages, in order."""
        return tuple(s.function for s in self.stages if isinstance(s, Activation))

    @property
    def is_dense(self) -> bool:
        """Whether its stages are linear layers with an activation between each two."""
        kinds = (Linear, Activation)
        return all(isinstance(s, kinds[i % 2]) for i, s in enumerate(self.stages))

    @property
    def layers(self) -> int:
        """Number of weights."""
        return sum(stage.layers for stage in self.trained)

    @property
    def widths(self) -> tuple[int, ...]:
        """Values of a record at the input, and behind each stage with weights."""
        return self.stages[0].inputs, *(stage.outputs for stage in self.trained)

    @property
    def comparisons(self) -> int:
        """Values of a record that are compared at once, of the stage that has most of them."""
        return max(stage.comparisons for stage in self.stages)

    def rows_at_once(self, most: int) -> int:
        """Returns how many records to compute at once: as many, if they take little memory."""
        return max(1, min(most, _MOST_VALUES // max(stage.values for stage in self.stages)))

    @property
    def has_bias(self) -> tuple[bool, ...]:
        """Of each layer, whether it has a bias that is trained."""
        return tuple(stage.has_bias for stage in self.trained for _ in range(stage.layers))

    @property
    def parameter_shapes(self) -> list[tuple[int, int]]:
        """Shape of the weight of each layer, (outputs, inputs); its bias has as many outputs."""
        return [
            (stage.out_features, stage.in_features)
            for stage in self.trained
            for _ in range(stage.layers)
        ]

    def training(self, parts: Sequence[tuple[bool, bool]]) -> "Network":
        """Returns the network of which only these weights and biases are trained, by stage."""
        if len(parts) != len(self.trained):
            allowed = f"as many as stages: {len(self.trained)}"
            raise ArgumentError("parts", len(parts), allowed, code="shape")
        each = iter(parts)
        stages = []
        for stage in self.stages:
            if isinstance(stage, Trained):
                weights, biases = next(each)
                stage = training(stage, weights=weights, biases=biases)
            stages.append(stage)
        return replace(self, stages=tuple(stages))

    def with_bias_bits(self, bits: int | None) -> "Network":
        """Returns the network whose biases are weights of an input 2^-bits; None: it has none."""
        if bits is None:
            return replace(self, stages=tuple(training(s, biases=False) for s in self.stages))
        return replace(self, bias_bits=bits)

    def shapes(
        self, *, max_feature_norm: float, max_weight_norm: float, max_grad_norm: float = math.inf
    ) -> tuple[LayerShape, ...]:
        """Returns the bounds of every layer's inputs and deltas.

        Args:
            max_feature_norm: of a row of the features, before it is encoded.
            max_weight_norm: bound of the Frobenius norm of each layer's weight and bias together,
                whether they are trained or not.
            max_grad_norm: C, to which the limits of guards are in proportion.

        Guarantees:
            Going back through a layer a gradient grows by the weight's norm at most, and by the
            `stretch` of folding or pooling; slopes are at most 1. Where branches begin, the bounds
            of both are added. Behind a guard that was passed
            the product of both norms of each trained layer is at most 2^GUARD_BITS C. Gradients
            are tested on their way through frozen layers too, and not below the lowest trained one.
        """
        before = self._bounds(max_feature_norm, max_weight_norm)
        logits = self._logits_norm(before[-1].norm, max_weight_norm)
        delta = residual_norm(self.loss, self.widths[-1], logits)
        largest = math.ldexp(max_grad_norm, GUARD_BITS) if self.guarded else math.inf
        shapes: list[LayerShape] = []
        waiting: list[float] = []
        for i in reversed(range(len(self.stages))):
            stage = self.stages[i]
            if isinstance(stage, Branching):
                delta = stage.back(delta, waiting)
                continue
            if not isinstance(stage, Trained):
                delta *= stage.stretch
                continue
            shape = stage.shape(before[i], delta, self.bias_bits)
            delta *= max_weight_norm * stage.stretch
            below = self._below(i - 1, before)
            limit = largest / below if below else math.inf
            if delta > limit:
                guard = Guard(features=stage.inputs, reach=delta, limit=limit)
                shape, delta = replace(shape, guard=guard), limit
            others = [replace(shape, guard=None)] * (stage.layers - 1)
            shapes = [shape, *others, *shapes]
        return tuple(shapes)

    def _bounds(self, max_feature_norm: float, max_weight_norm: float) -> list[Bound]:
        """What is known of the rows before each stage."""
        norm = max_feature_norm * ENCODING_SLACK
        bounds = [Bound(norm, norm)]
        waiting: list[Bound] = []
        for stage in self.stages[:-1]:
            if isinstance(stage, Branching):
                bounds.append(stage.ahead(bounds[-1], waiting))
                continue
            weights = (max_weight_norm,) if isinstance(stage, Trained) else ()
            bounds.append(stage.bound(bounds[-1], *weights))
        return bounds

    def _below(self, i: int, before: Sequence[Bound], stretch: float = 1.0) -> float:
        """By how much a gradient behind stage i is exceeded by that of a layer from there down.

        It is stretched on its way to the next trained layer, and multiplied by what that is applied
        to. 0 if there is no such layer. Of two branches it is the larger one, and twice what comes
        before them, where the gradients of both are added.
        """
        while i >= 0:
            stage = self.stages[i]
            if isinstance(stage, Trained) and stage.is_trained:
                shape = stage.shape(before[i], 1.0, self.bias_bits)
                reach = shape.reach if shape.has_weight else _REACH_OF_BIAS
                return stretch * shape.delta_norm * reach
            if isinstance(stage, Join):
                ends = i - 1, self._opening(i, Turn) - 1
                return max(self._below(end, before, stretch) for end in ends)
            if isinstance(stage, Turn):
                i = self._opening(i, Fork)
                stage = self.stages[i]
            stretch *= 2.0 if isinstance(stage, Fork) else stage.stretch
            i -= 1
        return 0.0

    def _opening(self, i: int, kind: type[Branching]) -> int:
        """Returns the place of the Fork or Turn before stage i that belongs to it."""
        depth = 0
        for j in reversed(range(i)):
            stage = self.stages[j]
            if depth == 0 and isinstance(stage, kind):
                return j
            depth += isinstance(stage, Join) - isinstance(stage, Fork)
        raise AssertionError("branches were checked")

    def _logits_norm(self, input_norm: float, max_weight_norm: float) -> float:
        """Bounds |W a + b| <= |(W, b)|_F |(a, 1)|, and an ulp of 2^-12 for each coordinate.

        A bias that is not trained counts as well: a start may have one.
        """
        length = math.hypot(input_norm, 1.0)
        return max_weight_norm * length + math.ldexp(math.sqrt(self.widths[-1]), -12)
