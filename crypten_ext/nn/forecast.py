"""What a step of a script's model will take, before anything is computed or sent."""

from dataclasses import dataclass
from typing import Any

import torch

from crypten_ext.nn.provenance import Provenance, mark, provenance_of, rejection
from crypten_ext.nn.tape import BackwardPass, Tape
from crypten_ext.ring.crypten_ring import as_tensor, ring_of
from extensions.layers.linear_layers import NormMethod
from extensions.layers.losses import Loss, residual
from extensions.protocols.host import Batch
from extensions.protocols.optimizer.sample import Sample

from crypten.mpc import MPCTensor


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """What a step takes of one party, as planned.

    Attributes:
        rounds: from the batch to the updated model; what the first step compares is not in it.
        bytes: of openings, as CrypTen's communicator counts them: 16 for each word, sent and
            received, and of rows of their owners what it sends to and receives from all others.
        dealt: bytes of tuples that a party uses up.
        memory: bound of the bytes that a process takes beside the model and records
            (`crypten_ext.ring.forecast.process_memory`).
        trained: number of weights and biases that are trained.
        ways: how squared norms of each layer are found
            (`extensions.layers.linear_layers.NormMethod`).
    """

    rounds: int
    bytes: int
    dealt: int
    memory: int
    trained: int
    ways: tuple[NormMethod, ...]


def gradients_of(
    model: Any, tape: Tape, batch: Sample, x: MPCTensor, y: MPCTensor, loss: Loss
) -> tuple[BackwardPass, torch.Tensor | None]:
    """Returns gradients of a batch that is like this one, and its padding, all without values.

    The model is adopted, and the tape is used for this only. Raises GradientError if the model is
    not in training.
    """
    ring, like = ring_of(x), _like(batch)
    features = as_tensor(ring, torch.empty(tuple(x.size()), dtype=torch.int64))
    logits = model(mark(features, Provenance(like, "features")))
    origin = provenance_of(logits)
    if origin is None or not origin.layers:
        raise rejection("logits", logits, "the output of the model's last layer, in training")
    targets = torch.empty(tuple(y.size()), dtype=torch.int64)
    tape.go_back(ring, origin, residual(ring, loss, logits.share, targets), loss)
    return tape.take(), None if like.shared is None else like.shared.padding


def _like(batch: Sample) -> Sample:
    """Returns a batch of such shapes, without values, that no step has used."""
    if batch.shared is None:
        return batch.like(None)
    x, *others = batch.shared
    return batch.like(Batch(x.like(), *map(torch.empty_like, others)))
