"""What an opened model says of records, in real numbers, and the table that tells it."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError
from extensions.layers.losses import Loss, middle
from extensions.layers.passes import forward
from extensions.privacy.sampling import row_blocks
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import Reals, decode, encode
from extensions.runs.model.files import OpenedModel
from extensions.runs.model.header import Header

_FRAC_BITS = 20
APART: Reals = np.array([[0.5, -0.5], [-0.5, 0.5]])
"""Makes of two logits half of what each is above the other."""
_AT_ONCE = 256
"""Most records whose windows lie in memory at a time."""
NO_IDS: Mapping[str, Sequence[str]] = {}
NOTHING_BESIDE: Mapping[str, Sequence[float]] = {}


def logits_of(model: OpenedModel, features: Reals) -> Reals:
    """Returns the outputs (records, classes) of a model for features (records, features).

    Activations are capped as they were in training. A secure computation of the same is within
    2^-frac_bits for each rounding of it; tests hold it within 1e-3.
    """
    check_width(model.header, features)
    header = model.header
    if (grid := header.grid) is not None:
        ((weight, bias),) = model.parameters
        places = grid.place(features)
        return np.concatenate(
            [weight.T[places[rows]].sum(axis=1) + bias for rows in row_blocks(places.shape)]
        )
    if (encoder := header.encoder) is not None:
        encoder.check(features)
        return encoder.outputs(*model.parameters[0], features)
    if model.whitening is not None:
        features = model.whitening.rows(features, header.max_feature_norm)
    if header.spec.is_built:
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
    """Checks that records have as many features as a model takes."""
    if header.encoder is None and features.shape[1] != header.inputs:
        raise ArgumentError(
            "records",
            f"{features.shape[1]} features a record",
            f"of {header.inputs} features, as the model expects",
            f"The model takes the features of {{features={header.features}}}.",
            code="shape",
        )


def scores_of(loss: Loss, logits: Reals) -> Reals:
    """Returns probabilities (records, classes).

    Those of two classes sum to 1 in each row, and are those of half the difference of the logits:
    with it `extensions.layers.tally.edges_of` counts a record, and its sign is the prediction.
    Of more classes those of "softmax" sum to 1, and those of the other losses tell each class from
    all others. Of one output "squared" and "least-squares" say a target's place in its range, 0..1.
    """
    if logits.shape[1] == 2:
        logits = logits @ APART
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


def targets_of(header: Header, logits: Reals) -> Reals:
    """Returns the numbers that a model of a number says, (records,), in the target's unit."""
    assert header.target_range is not None
    low, high = header.target_range
    found: Reals = low + (high - low) * scores_of(header.spec.loss, logits)[:, 0]
    return found


def write_predictions(
    header: Header,
    logits: Reals,
    path: Path,
    ids: Mapping[str, Sequence[str]] = NO_IDS,
    beside: Mapping[str, Sequence[float]] = NOTHING_BESIDE,
) -> Path:
    """Writes a CSV file, readable by its owner only: a row a record, in their order.

    Its columns are those of `ids`, by which its owner knows each record; ``record``, counted from
    1; ``prediction``, the name of the class of the largest logit; and for each class its
    ``probability`` and its ``logit``. Where a number is learnt, just ids, record and prediction, in
    the target's unit. What is `beside` comes last.
    """
    columns: list[tuple[str, Iterable[object]]] = [*ids.items()]
    columns.append(("record", range(1, len(logits) + 1)))
    if header.target_range is not None:
        columns.append(("prediction", targets_of(header, logits).tolist()))
    else:
        names, scores = header.classes, scores_of(header.spec.loss, logits)
        columns.append(("prediction", [names[best] for best in logits.argmax(axis=1)]))
        for kind, values in (("probability", scores), ("logit", logits)):
            for name, column in zip(names, values.T, strict=True):
                columns.append((f"{kind} {name}", column.tolist()))
    columns += beside.items()
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(name for name, _ in columns)
    lines.writerows(zip(*(each for _, each in columns), strict=True))
    with durable.write(path) as file:
        file.write(text.getvalue().encode())
    return path
