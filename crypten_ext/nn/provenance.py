"""Where an encrypted tensor of training comes from: its batch, and what our layers made of it.

A private step is right only for rows that are one record's each, of one fresh sample. No operation
of CrypTen keeps note of that, so the tensors of a batch are marked here, our layers take marked
tensors and mark what they return, and everything else has no mark.
"""

import zlib
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Literal, Self

import torch
from torch.utils.weak import WeakIdKeyDictionary

from crypten_ext.ring.factors import Factor
from crypten_ext.ring.foreseen import active, is_foreseen
from extensions.errors import GradientError
from extensions.network.chain import Network
from extensions.network.losses import Loss
from extensions.network.stages.branches import places
from extensions.network.stages.stage import Stage
from extensions.network.stages.trained import Trained

from crypten.mpc import MPCTensor

Pairs = list[tuple[torch.Tensor | None, torch.Tensor | None]]
"""The shares of a weight matrix and its bias, layer by layer; None of what there is none."""


@dataclass(frozen=True, kw_only=True)
class PublicBatch:
    """Public facts about a batch.

    Attributes:
        feature_norm: bound of the Euclidean norm of a record's features, before it is encoded.
        expected_size: sample_rate times the number of records of all parties.
        sample_rate: Poisson rate that drew it.
        overflow_probability: of this one batch.
    """

    feature_norm: float
    expected_size: float
    sample_rate: float
    overflow_probability: float


@dataclass(frozen=True)
class SharedBatch:
    """What owners supply with a batch.

    Attributes:
        features: its rows, as a factor of the first layer's products.
        squared_norms: shares of exact squared norms, 2f fractional bits.
        padding: shares of flags.
    """

    features: Factor
    squared_norms: torch.Tensor
    padding: torch.Tensor


@dataclass(frozen=True, eq=False)
class Piece:
    """Which part of a batch it is.

    Attributes:
        whole: the batch.
        index: from 0 on.
        count: number of pieces.
        rows: of the whole batch.
    """

    whole: "Batch"
    index: int
    count: int
    rows: int


@dataclass(frozen=True, eq=False)
class Batch:
    """One sample of the records, which serves one step, or a piece of one.

    Attributes:
        public: what everybody knows of it.
        shared: what its owners supply; None where a caller vouches for it.
        piece: None of a whole one.
    """

    public: PublicBatch
    shared: SharedBatch | None
    piece: Piece | None = None
    _users: list[Any] = field(default_factory=list)

    def use(self, optimizer: Any) -> None:
        """Notes that the optimizer makes its step on the batch.

        Raises:
            GradientError: it made one before; or it is private, and so was another that did.
        """
        if self.piece is not None and self.piece.index == 0:
            self.piece.whole.use(optimizer)
        if any(user is optimizer or (user.private and optimizer.private) for user in self._users):
            raise GradientError(
                "The batch was used for an earlier step: the accounting takes each batch as a "
                "fresh sample. Take the next one from poisson_batches; for the whole of the data "
                "(sample_rate=1.0) call vouch_for in each step."
            )
        self._users.append(optimizer)


@dataclass(frozen=True, eq=False)
class Version:
    """A parameter's share as it was, to tell whether it was replaced or changed since.

    Cost:
        One reading of the share, at about 2 GB/s, whenever it is taken or compared.
    """

    share: torch.Tensor
    changes: int
    content: int

    @classmethod
    def of(cls, parameter: Any) -> Self:
        """Returns the present one."""
        return cls(parameter.share, parameter.share._version, content_of(parameter.share))

    def holds(self, parameter: Any) -> bool:
        """Whether it is still the present one."""
        share = parameter.share
        if share is not self.share or share._version != self.changes:
            return False
        return content_of(share) == self.content


@dataclass(frozen=True, eq=False)
class StageUse:
    """A stage of the model's network as it was applied.

    Attributes:
        stage: which.
        kept: what its way back needs.
    """

    stage: Stage
    kept: Any


def are_trained(weight: Any, bias: Any) -> tuple[bool, bool]:
    """Whether a weight is trained, and whether there is a bias that is (requires_grad)."""
    return bool(weight.requires_grad), bias is not None and bool(bias.requires_grad)


def apart(stage: Trained, weight: torch.Tensor | None, bias: torch.Tensor | None) -> Pairs:
    """Returns the matrix and the bias of each layer of a stage, as views of a module's."""
    matrix = None if weight is None else weight.reshape(weight.shape[0], -1)
    parts = (
        [None] * stage.layers if part is None else part.chunk(stage.layers)
        for part in (matrix, bias)
    )
    return list(zip(*parts, strict=True))


@dataclass(frozen=True, eq=False)
class LayerUse(StageUse):
    """A stage with weights as it was applied.

    Attributes:
        inputs: what it was applied to, (rows, ...).
        origin: of the inputs.
        weight: encrypted, as the module has it: (outputs, ...).
        bias: (outputs,), or None.
        tape: that of the optimizer that has adopted the layer.
        versions: of weight and bias, where there is one.
    """

    stage: Trained
    inputs: MPCTensor
    origin: "Provenance"
    weight: Any
    bias: Any
    tape: Any
    versions: tuple[Version, ...]

    @property
    def parameters(self) -> list[Any]:
        """The weight, and the bias if there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    @property
    def is_unchanged(self) -> bool:
        """Whether inputs and parameters are what they were when the layer was applied.

        Of parameters that is which of them are trained, too.
        """
        pairs = zip(self.versions, self.parameters, strict=True)
        unchanged = all(version.holds(parameter) for version, parameter in pairs)
        trained = are_trained(self.weight, self.bias) == (
            self.stage.has_weight,
            self.stage.has_bias,
        )
        return unchanged and trained and provenance_of(self.inputs) is self.origin

    def apart(self, weight: torch.Tensor | None, bias: torch.Tensor | None) -> Pairs:
        """Returns the matrix and the bias of each layer of the stage, of shares like a module's."""
        return apart(self.stage, weight, bias)

    def together(self, pairs: Pairs) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Returns what `apart` has taken apart, but for what there is none of."""
        matrices = [matrix for matrix, _ in pairs if matrix is not None]
        biases = [bias for _, bias in pairs if bias is not None]
        weight = torch.cat(matrices).reshape(self.weight.size()) if matrices else None
        return weight, torch.cat(biases) if biases else None


@dataclass(frozen=True, eq=False)
class Provenance:
    """What is known of a tensor of which row j depends on the batch's record j alone.

    Attributes:
        batch: whose rows they are.
        part: which of its two tensors it was made of.
        uses: the stages that made it, in turn; none for what the batch yielded.
    """

    batch: Batch
    part: Literal["features", "targets"]
    uses: tuple[StageUse, ...] = ()

    def after(self, use: StageUse) -> "Provenance":
        """Returns that of what the stage returned."""
        return Provenance(self.batch, self.part, (*self.uses, use))

    def beside(self, other: "Provenance", outputs: int) -> "Provenance":
        """Returns that of the sum of two tensors: behind what both have in common, two branches.

        The second branch has the trained layers if only one has: its way back comes first.

        Args:
            other: of the other tensor.
            outputs: values of a record of either.

        Raises:
            GradientError: they are of different batches, or use a layer with weights twice.
        """
        if (other.batch, other.part) != (self.batch, self.part):
            raise GradientError(
                f"A sum adds {self} and {other} of another batch, so that its rows depend on two "
                "records. Add what the model's layers make of one batch."
            )
        pairs = zip(self.uses, other.uses, strict=False)
        common = [use for use, _ in takewhile(lambda pair: pair[0] is pair[1], pairs)]
        left, right = self.uses[len(common) :], other.uses[len(common) :]
        one, two = ([use for use in way if isinstance(use, LayerUse)] for way in (left, right))
        if any(layer.weight is again.weight for layer in one for again in two):
            raise GradientError(
                "Both branches of a sum lead through the same layer, behind the place where they "
                "part, so that it is used twice. Give each branch layers of its own."
            )
        if not any(layer.stage.is_trained for layer in two):
            left, right = right, left
        inputs = next((use.stage.inputs for use in (*left, *right)), outputs)
        fork, turn, join = (StageUse(stage, None) for stage in places(inputs, outputs))
        return Provenance(self.batch, self.part, (*common, fork, *left, turn, *right, join))

    @property
    def layers(self) -> list[LayerUse]:
        """The stages with weights that made it, from input to output."""
        return [use for use in self.uses if isinstance(use, LayerUse)]

    @property
    def pairs(self) -> Pairs:
        """The shares of the weight and the bias of each layer of them, as they are now."""
        return [
            pair
            for use in self.layers
            for pair in use.apart(use.weight.share, None if use.bias is None else use.bias.share)
        ]

    def network(self, loss: Loss, bias_bits: int) -> Network:
        """Returns the stages as a network.

        Gradients of networks with convolutions, or of more than two layers, are guarded.

        Raises:
            ArgumentError: they do not end with a linear layer.
        """
        trained = [use.stage for use in self.layers]
        return Network(
            stages=tuple(use.stage for use in self.uses),
            bias_bits=bias_bits,
            loss=loss,
            guarded=len(trained) > 2 or any(stage.positions > 1 for stage in trained),
        )

    def __str__(self) -> str:
        if self.uses:
            return f"the output of stage {len(self.uses)} on a batch"
        return f"the {self.part} of a batch"


class _Mark:
    """Binds a provenance to one tensor's share as it is now, whatever way it may be changed."""

    def __init__(self, tensor: MPCTensor, provenance: Provenance) -> None:
        self.provenance = provenance
        self._share: torch.Tensor = tensor.share
        self._state = _state(tensor)

    def holds(self, tensor: MPCTensor) -> bool:
        return tensor.share is self._share and _state(tensor) == self._state


_marks: MutableMapping[MPCTensor, _Mark] = WeakIdKeyDictionary()


def _state(tensor: MPCTensor) -> tuple[Any, ...]:
    """Returns what changes when the tensor's value does: torch counts no change through .data."""
    share = tensor.share
    scale = int(tensor.encoder.scale)
    return share._version, tensor.ptype, scale, share.shape, content_of(share)


def content_of(share: torch.Tensor) -> int:
    """Returns what changes when the share does, whatever way; 0 where values are only foreseen."""
    if is_foreseen(share) or active() is not None:
        return 0
    return zlib.crc32(share.contiguous().numpy().data)


def mark(tensor: MPCTensor, provenance: Provenance) -> MPCTensor:
    """Returns the tensor, of which the provenance is known until anything changes it."""
    _marks[tensor] = _Mark(tensor, provenance)
    return tensor


def provenance_of(tensor: MPCTensor) -> Provenance | None:
    """Returns where the tensor comes from; None if that is unknown or it was changed since.

    Cost:
        One reading of the share, at about 2 GB/s.
    """
    found = _marks.get(tensor)
    return found.provenance if found is not None and found.holds(tensor) else None


def features_of(tensor: MPCTensor) -> Provenance | None:
    """Returns where the tensor comes from if that is the features of a batch."""
    found = provenance_of(tensor)
    return found if found is not None and found.part == "features" else None


def refusal(name: str, tensor: MPCTensor, wanted: str) -> GradientError:
    """Returns the error about a tensor that a private step may not use.

    Args:
        name: what it was given as.
        tensor: the tensor.
        wanted: what it had to be.
    """
    return GradientError(
        f"{name} is {_describe(tensor)}, not {wanted}. Whatever is done to a batch outside the "
        "model's own layers, in place too, may mix records or scale them. Pass on what "
        "poisson_batches yields as it is, and scale or augment records before they are shared. "
        "For records that the script shared itself, state what cannot be checked: "
        "crypten_ext.vouch_for(x, y, sample_rate=..., max_feature_norm=...). To predict only, call "
        "model.eval() or use crypten.no_grad()."
    )


def _describe(tensor: MPCTensor) -> str:
    found = _marks.get(tensor)
    if found is not None:
        known = str(found.provenance)
        return known if found.holds(tensor) else f"changed since it was {known}"
    made_by = getattr(tensor.grad_fn, "name", None)
    return f"the result of {made_by!r}" if made_by else "a tensor of unknown origin"
