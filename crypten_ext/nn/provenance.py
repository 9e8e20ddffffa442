"""Where an encrypted tensor of training comes from: its batch, and what our layers made of it.

A private step is right only for rows that are one record's each, of one fresh sample. No operation
of CrypTen keeps note of that. So the tensors of a batch are marked here, our layers take marked
tensors and mark what they return, and everything else has no mark.

Torch counts a share's changes, except those written through ``.data`` or numpy. So a mark holds a
checksum, which is compared once, where the tensor is used last: in `step` for the input of a layer
with weights, else where another layer or the loss takes it.
"""

import zlib
from collections.abc import MutableMapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self

import torch
from torch.utils.weak import WeakIdKeyDictionary

from crypten_ext.ring.crypten_ring import held_by
from crypten_ext.ring.forecast import active, is_valueless
from extensions.errors import GradientError
from extensions.layers.stages.branches import places
from extensions.layers.stages.stage import Stage
from extensions.layers.stages.trained import Trained
from extensions.protocols.optimizer.sample import Half

from crypten.mpc import MPCTensor

Pairs = list[tuple[torch.Tensor | None, torch.Tensor | None]]
"""The shares of a weight matrix and its bias, layer by layer; None of what there is none."""


@dataclass(frozen=True, eq=False)
class Version:
    """A tensor's share as it was, to tell whether it was replaced or changed since.

    `state` is what torch and CrypTen note of changes; `content` a checksum, read at about 2 GB/s.
    """

    share: torch.Tensor
    state: tuple[Any, ...]
    content: int

    @classmethod
    def of(cls, tensor: Any) -> Self:
        """Returns the present one."""
        share = held_by(tensor).share
        return cls(share, _state(tensor), content_of(share))

    def is_noted(self, tensor: Any) -> bool:
        """Whether it is the present one as far as changes are noted; nothing is read."""
        return held_by(tensor).share is self.share and _state(tensor) == self.state

    def holds(self, tensor: Any) -> bool:
        """Whether it is still the present one."""
        return self.is_noted(tensor) and content_of(self.share) == self.content

    def is_same(self, other: "Version | None") -> bool:
        """Whether the other is of the same share, unchanged in between; nothing is read."""
        if other is None or self.share is not other.share:
            return False
        return (self.state, self.content) == (other.state, other.content)


@dataclass(frozen=True, eq=False)
class StageUse:
    """A stage of the model's network as it was applied; `kept` is what its way back needs."""

    stage: Stage
    kept: Any


def are_trained(weight: Any, bias: Any) -> tuple[bool, bool]:
    """Whether a weight is trained, and whether there is a bias that is (requires_grad)."""
    return bool(weight.requires_grad), bias is not None and bool(bias.requires_grad)


def split_parameters(
    stage: Trained, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> Pairs:
    """Returns the matrix and the bias of each layer of a stage, as views of a module's."""
    matrix = None if weight is None else weight.reshape(weight.shape[0], -1)
    parts = (
        [None] * stage.layers if part is None else part.chunk(stage.layers)
        for part in (matrix, bias)
    )
    return list(zip(*parts, strict=True))


def shares_of(stage: Trained, weight: Any, bias: Any) -> Pairs:
    """Returns the same of a module's encrypted weight, and of its bias if it has one."""
    return split_parameters(stage, weight.share, None if bias is None else bias.share)


@dataclass(frozen=True, eq=False)
class LayerUse(StageUse):
    """A stage with weights as it was applied to inputs, (rows, ...).

    The weight, (outputs, ...), and bias, if any, are encrypted, as the module has them; `tape` is
    that of the optimizer that has adopted the layer.
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
    def is_as_trained(self) -> bool:
        """Whether the same of its parameters are trained as when it was applied."""
        return are_trained(self.weight, self.bias) == (self.stage.has_weight, self.stage.has_bias)


@dataclass(frozen=True, eq=False)
class Provenance(Half):
    """What is known of a tensor of which row j depends only on the batch's record j.

    `uses` are the stages that made it, in turn; none for what the batch yielded.
    """

    uses: tuple[StageUse, ...] = ()

    def after(self, use: StageUse) -> "Provenance":
        """Returns that of what the stage returned."""
        return Provenance(self.batch, self.side, (*self.uses, use))

    def added_to(self, other: "Provenance", outputs: int) -> "Provenance":
        """Returns that of the sum of two tensors: behind what both have in common, two branches.

        Either has `outputs` values a record. The second branch has the trained layers if only one
        has: its way back comes first.

        Raises GradientError if they are of different batches, or use a layer with weights twice.
        """
        if (other.batch, other.side) != (self.batch, self.side):
            raise GradientError(
                f"A sum adds {self} and {other} of another batch, so its rows depend on two "
                "records. Add only results of the model's layers for one batch."
            )
        pairs = zip(self.uses, other.uses, strict=False)
        common = [use for use, _ in takewhile(lambda pair: pair[0] is pair[1], pairs)]
        left, right = self.uses[len(common) :], other.uses[len(common) :]
        one, two = ([use for use in way if isinstance(use, LayerUse)] for way in (left, right))
        if any(layer.weight is again.weight for layer in one for again in two):
            raise GradientError(
                "Both branches of a sum use the same layer, which is not supported. Give each "
                "branch layers of its own."
            )
        if not any(layer.stage.is_trained for layer in two):
            left, right = right, left
        inputs = next((use.stage.inputs for use in (*left, *right)), outputs)
        fork, turn, join = (StageUse(stage, None) for stage in places(inputs, outputs))
        return Provenance(self.batch, self.side, (*common, fork, *left, turn, *right, join))

    @property
    def layers(self) -> list[LayerUse]:
        """The stages with weights that made it, from input to output."""
        return [use for use in self.uses if isinstance(use, LayerUse)]

    def __str__(self) -> str:
        return (
            f"the output of stage {len(self.uses)} on a batch" if self.uses else super().__str__()
        )


_marks: MutableMapping[MPCTensor, tuple[Provenance | None, Version]] = WeakIdKeyDictionary()


def _state(tensor: MPCTensor) -> tuple[Any, ...]:
    inside = held_by(tensor)
    share = inside.share
    return share._version, held_by(tensor, "ptype"), int(inside.encoder.scale), share.shape


def content_of(share: torch.Tensor) -> int:
    """Returns what changes when the share does, whatever way; 0 where values are only foreseen."""
    if is_valueless(share) or active() is not None:
        return 0
    return zlib.crc32(share.contiguous().numpy().data)


def mark(tensor: MPCTensor, provenance: Provenance | None) -> MPCTensor:
    """Returns the tensor, of which the provenance is known until anything changes it.

    None stands for a tensor that a caller vouched for, and that is itself no part of a batch.
    """
    _marks[tensor] = provenance, Version.of(tensor)
    return tensor


def is_spent(tensor: MPCTensor) -> bool:
    """Whether a caller vouched for the tensor as a sample, whatever was made of it since."""
    return _marks.get(tensor, ("", None))[0] is None


def provenance_of(tensor: MPCTensor, *, read: bool = True) -> Provenance | None:
    """Returns where the tensor comes from; None if that is unknown or it was changed since.

    Without `read` the checksum is not compared, and changes through ``.data`` are not found.
    """
    provenance, version = _marks.get(tensor, (None, None))
    if version is None or not (version.holds if read else version.is_noted)(tensor):
        return None
    return provenance


def features_of(tensor: MPCTensor, *, read: bool = True) -> Provenance | None:
    """Returns where the tensor comes from if that is the features of a batch."""
    found = provenance_of(tensor, read=read)
    return found if found is not None and found.side == "features" else None


def rejection(name: str, tensor: MPCTensor, wanted: str) -> GradientError:
    """Returns the error that the tensor, given as `name`, is not what a private step may use."""
    return GradientError(
        f"{name} is {_describe(tensor)}, not {wanted}. Pass batches of poisson_batches on "
        "unchanged, because any other operation, also in place, may mix records or scale them. "
        "Scale or augment records before you share them. For records that your script shared "
        "itself, declare what PEA cannot check: crypten_ext.vouch_for(x, y, sample_rate=..., "
        "max_feature_norm=...). To predict only, call model.eval() or use crypten.no_grad()."
    )


def _describe(tensor: MPCTensor) -> str:
    provenance, version = _marks.get(tensor, (None, None))
    if provenance is not None and version is not None:
        return f"{'' if version.holds(tensor) else 'changed since it was '}{provenance}"
    made_by = getattr(tensor.grad_fn, "name", None)
    return f"the result of {made_by!r}" if made_by else "a tensor of unknown origin"
