"""What the two parties of a turn have in common, in public, before they compute."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Self, get_type_hints

from extensions.data.datasets import Labels
from extensions.errors import ArgumentError
from extensions.layers.chain import Network
from extensions.layers.losses import LOSSES, Loss
from extensions.layers.spec import ModelSpec
from extensions.layers.stages.stage import Activation
from extensions.privacy.sampling import OwnRecords, check_records
from extensions.protocols.dpsgd_plan import StepPlan
from extensions.protocols.settings import Training
from extensions.ring.fixed_point import MAX_FRAC_BITS, MIN_FRAC_BITS, Reals
from extensions.rules import POSITIVE, Whole, check_fields, one_of

MESSAGE_BYTES = 4096
_MOST_FEATURES, _MOST_CLASSES = 1 << 16, 1 << 10
_MOST_WEIGHTS = 1 << 27
_MOST_ROWS = 256
"""Of a piece; of models with more values in between than that, as many fewer."""


class _Message:
    """What one party tells the other, as JSON padded to one size."""

    def pack(self) -> bytes:
        """Returns the message."""
        text = json.dumps(asdict(self)).encode()  # type: ignore[call-overload]
        if len(text) > MESSAGE_BYTES:
            raise ArgumentError("terms", f"{len(text)} bytes", f"at most {MESSAGE_BYTES} bytes")
        return text.ljust(MESSAGE_BYTES)

    @classmethod
    def unpack(cls, message: bytes) -> Self:
        """Returns what `pack` was called on; ArgumentError if it is no such message."""
        try:
            found: Any = json.loads(message)
            kinds = get_type_hints(cls)
            if not isinstance(found, Mapping) or set(found) != set(kinds):
                raise ValueError("other fields")
            values = {name: _value(kinds[name], found[name]) for name in kinds}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            advice = "Both sides must have the same version."
            raise ArgumentError(
                "terms", "in another", "in the form of this version", advice
            ) from error
        return cls(**values)


def _value(kind: Any, value: Any) -> Any:
    """Returns what JSON has for a field of this type; a `Literal` is text."""
    allowed = {float: (int, float), int: (int,)}.get(kind, (str,))
    if type(value) not in allowed:
        raise ValueError(f"a {type(value).__name__}")
    return float(value) if kind is float else value


@dataclass(frozen=True, kw_only=True)
class Terms(_Message):
    """What the model's owner states of the model and its training.

    Attributes:
        model: as in `pea train`; one's own as a list of layers.
        features: of a record.
        classes: number of outputs.
        loss: of training.
        frac_bits: fractional bits of shared values.
        max_grad_norm: bound of each example's gradient.
        max_feature_norm: bound of the norm of a record's features.

    Raises ArgumentError for a value out of range, or no such model.
    """

    model: str
    features: Annotated[int, Whole(1, _MOST_FEATURES)]
    classes: Annotated[int, Whole(1, _MOST_CLASSES)]
    loss: Annotated[Loss, one_of(loss for loss in LOSSES if loss != "least-squares")] = "sigmoid"
    frac_bits: Annotated[int, Whole(MIN_FRAC_BITS, MAX_FRAC_BITS)] = 16
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    max_feature_norm: Annotated[float, POSITIVE] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if (count := self.spec.parameters) > _MOST_WEIGHTS:  # refuses unknown models, too
            fewer = f"a model of at most {_MOST_WEIGHTS} weights and biases"
            raise ArgumentError("model", f"{self.model}, of {count}", fewer)

    @property
    def spec(self) -> ModelSpec:
        """The model."""
        return ModelSpec.parse(self.model, self.features, self.classes, self.loss)

    @property
    def network(self) -> Network:
        """The layers as every host computes them."""
        return self.spec.network

    @property
    def piece(self) -> int:
        """Rows that are computed at once, at most: their tuples take a gigabyte of memory."""
        network = self.network
        values = sum(s.inputs for s in network.stages if isinstance(s, Activation))
        return network.rows_at_once(max(1, _MOST_ROWS // max(1, values // _MOST_ROWS)))

    def in_pieces(self, rows: int) -> int:
        """Returns the least number of at least `rows` rows of which all pieces are equal."""
        pieces = -(-rows // self.piece)
        return -(-rows // pieces) * pieces

    def encoded(self, x: Reals, y: Labels) -> OwnRecords:
        """Returns a data owner's records as it takes part with them.

        Raises ArgumentError if they do not fit.
        """
        if x.shape[1] != self.features:
            raise ArgumentError("features", x.shape[1], f"{self.features}, the model's")
        return check_records(
            x,
            y,
            frac_bits=self.frac_bits,
            classes=self.classes,
            max_feature_norm=self.max_feature_norm,
        )

    def plan(self, offer: Offer) -> StepPlan:
        """Returns the public constants of a step on a data owner's records.

        The model's owner divides by what it likes, and its rate is its own: neither is in the plan.

        Raises ArgumentError if the step's integers do not fit the ring.
        """
        training = self.training(offer.noise_multiplier)
        return StepPlan.of(
            training,
            layers=self.network.shapes(
                max_feature_norm=self.max_feature_norm,
                max_weight_norm=training.max_weight_norm,
                max_grad_norm=self.max_grad_norm,
            ),
            rows=offer.rows,
            learning_rate=1.0,
            expected_batch_size=1.0,
        )

    def training(self, noise_multiplier: float) -> Training:
        """Returns the public settings of training, with a data owner's noise."""
        told = {name: value for name, value in vars(self).items() if name != "features"}
        return Training(**told, noise_multiplier=noise_multiplier, parties=2)


@dataclass(frozen=True, kw_only=True)
class Offer(_Message):
    """What a data owner states of its records and of the noise that it adds.

    Attributes:
        rows: of each batch, padding included.
        expected: number of records that are drawn on average.
        noise_multiplier: standard deviation of its noise over `Terms.max_grad_norm`.
        steps: that its budget still allows.
        problem: why it does not take part; empty if it does.

    Raises ArgumentError for a value out of range.
    """

    rows: Annotated[int, Whole(1, 1 << 20, "in 1..2^20")]
    expected: Annotated[float, POSITIVE]
    noise_multiplier: float
    steps: int
    problem: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.problem:
            POSITIVE.check("noise_multiplier", self.noise_multiplier)
