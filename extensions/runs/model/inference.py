"""What an opened model says of records, in real numbers, and the table that tells it."""

import csv
import io
from pathlib import Path

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.network.losses import Loss, middle
from extensions.network.passes import forward
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.runs.model.files import OpenedModel
from extensions.runs.model.header import Header

_FRAC_BITS = 20
_AT_ONCE = 256
"""Most records whose windows lie in memory at a time."""


def logits_of(model: OpenedModel, features: Reals) -> Reals:
    """Returns the outputs (records, classes) of a model for features (records, features).

    Activations are capped as they were in training. A secure computation of the same is within
    2^-frac_bits for each rounding of it; tests hold it within 1e-3.

    Raises:
        ArgumentError: features of another number than the model takes.
    """
    check_width(model.header, features)
    header = model.header
    if model.whitening is not None:
        features = model.whitening.rows(features, header.max_feature_norm)
    if header.spec.kind:
        return _by_stages(model, features)
    caps = [function.bound for function in header.spec.network.activations]
    x = features
    for (weight, bias), cap in zip(model.parameters[:-1], caps, strict=True):
        x = np.clip(x @ weight.T + bias, 0.0, cap)
    weight, bias = model.parameters[-1]
    logits: Reals = x @ weight.T + bias
    return logits


def _by_stages(model: OpenedModel, features: Reals) -> Reals:
    """Returns the outputs of an architecture, by the stages of training in fixed point."""
    ring = ClearRing(_FRAC_BITS, rounding="floor")
    network = model.header.spec.network
    parameters = [
        (encode(weight, _FRAC_BITS), encode(bias, _FRAC_BITS)) for weight, bias in model.parameters
    ]
    rows = encode(features, _FRAC_BITS)
    size = network.rows_at_once(_AT_ONCE)
    parts = [
        forward(ring, network, parameters, rows[start : start + size]).logits
        for start in range(0, len(rows), size)
    ]
    return decode(np.concatenate(parts), _FRAC_BITS)


def check_width(header: Header, features: Reals) -> None:
    """Returns only if records have as many features as a model takes.

    Raises:
        ArgumentError: they have not.
    """
    if features.shape[1] != header.spec.widths[0]:
        raise ArgumentError(
            "records",
            f"{features.shape[1]} features a record",
            f"of {header.spec.widths[0]} features, as the model takes",
            f"It takes those of --features {header.features}.",
        )


def scores_of(loss: Loss, logits: Reals) -> Reals:
    """Returns probabilities (records, classes).

    Those of "softmax" sum to 1 in each row; those of "sigmoid" and "hard-sigmoid" tell each class
    from all others. "squared" and "least-squares" say a target's place in its range, 0..1, or a
    class's share.
    """
    scores: Reals
    match loss:
        case "softmax":
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            scores = powers / powers.sum(axis=1, keepdims=True)
        case "sigmoid":
            scores = 0.5 * (1.0 + np.tanh(0.5 * logits))
        case "hard-sigmoid":
            scores = np.clip(logits / 4 + 0.5, 0.0, 1.0)
        case _:
            scores = np.clip(logits + middle(loss, logits.shape[1]), 0.0, 1.0)
    return scores


def write_predictions(header: Header, logits: Reals, path: Path) -> Path:
    """Writes a CSV file, readable by its owner only: a row a record, in their order.

    Its columns are ``record``, counted from 1; ``prediction``, the name of the class of the largest
    logit; and for each class its ``probability`` and its ``logit``. Where a number is learnt, just
    record and prediction, in the target's unit.
    """
    ends = None if header.schema is None else header.schema.target.range
    if ends is not None:
        places = scores_of(header.spec.loss, logits)[:, 0]
        values = ends[0] + (ends[1] - ends[0]) * places
        numbered = [f"{number},{value}" for number, value in enumerate(values.tolist(), start=1)]
        with durable.write(path) as file:
            file.write("\n".join(["record,prediction", *numbered, ""]).encode())
        return path
    names = header.classes
    scores = scores_of(header.spec.loss, logits)
    kinds = [f"{kind} {name}" for kind in ("probability", "logit") for name in names]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["record", "prediction", *kinds])
    for number, (score, logit) in enumerate(zip(scores, logits, strict=True), start=1):
        best = names[int(np.argmax(logit))]
        lines.writerow([number, best, *map(float, score), *map(float, logit)])
    with durable.write(path) as file:
        file.write(text.getvalue().encode())
    return path
