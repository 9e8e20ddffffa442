"""What opened sums over held-out records say of a model, beside what knows nothing would reach."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from extensions.network.tally import BINS, EDGES, kind_of
from extensions.ring.fixed_point import Reals

KEYS = ("accuracy", "majority", "auc", "recall", "calibration_error", "rmse", "rmse_of_mean")


def quality(sums: Reals, classes: int, facts: Mapping[str, Any], records: int) -> dict[str, Any]:
    """Returns measures by name, those of `KEYS` that there are.

    Args:
        sums: that `extensions.network.tally.tally` made, decoded, with noise or without.
        classes: number of outputs.
        facts: what is public of the records: names of classes, the range of a target.
        records: number of held-out records; public.

    Returns:
        accuracy; majority: that of always saying the most frequent class; auc: the area under the
        ROC curve, where scores of one bin count half; recall: accuracy of each class; and
        calibration_error: by how much predicted probabilities miss the frequencies on average. Of a
        regression rmse, the root of the mean squared error, and rmse_of_mean, that of always saying
        the held-out records' mean, in the target's unit.
    """
    kind = kind_of(classes)
    if kind == "moments":
        return _of_moments(sums, facts, records)
    counts = np.maximum(sums, 0.0)
    if kind == "classes":
        right, wrong = counts.reshape(2, classes)
        return _of_classes(right, wrong, facts)
    bins = counts.reshape(2, BINS)
    half = BINS // 2
    right = np.array([bins[0, :half].sum(), bins[1, half:].sum()])
    found = _of_classes(right, bins.sum(axis=1) - right, facts)
    return found | {"auc": _auc(bins), "calibration_error": _calibration(bins)}


def _of_classes(right: Reals, wrong: Reals, facts: Mapping[str, Any]) -> dict[str, Any]:
    each = right + wrong
    total = float(each.sum())
    recall = {
        name: _ratio(float(r), float(n))
        for name, r, n in zip(_names(len(each), facts), right, each, strict=True)
    }
    return {
        "accuracy": _ratio(float(right.sum()), total),
        "majority": _ratio(float(each.max()), total),
        "recall": recall,
    }


def _names(classes: int, facts: Mapping[str, Any]) -> list[str]:
    target = facts.get("schema target")
    if target is not None:
        return list(target["classes"])
    return [str(facts.get(f"class {place}", place)) for place in range(classes)]


def _auc(bins: Reals) -> float | None:
    """How often a record of class 1 has the higher score of two, equal ones counting half."""
    negative, positive = bins
    below = np.cumsum(negative) - negative
    return _ratio(
        float((positive * (below + negative / 2)).sum()), float(negative.sum() * positive.sum())
    )


def _calibration(bins: Reals) -> float | None:
    """The mean over records of |frequency of class 1 - its probability| in their bin."""
    ends = np.concatenate([[EDGES[0] - 1], EDGES, [EDGES[-1] + 1]])
    probability = 1 / (1 + np.exp(-(ends[:-1] + ends[1:]) / 2))
    expected = probability * bins.sum(axis=0)
    return _ratio(float(np.abs(bins[1] - expected).sum()), float(bins.sum()))


def _of_moments(sums: Reals, facts: Mapping[str, Any], records: int) -> dict[str, Any]:
    errors, centred, spread = (float(each) for each in sums)
    low, high = (facts.get("schema target") or {}).get("range") or (0.0, 1.0)
    variance = spread / records - (centred / records) ** 2
    return {
        "rmse": (high - low) * math.sqrt(max(0.0, errors / records)),
        "rmse_of_mean": (high - low) * math.sqrt(max(0.0, variance)),
    }


def _ratio(part: float, whole: float) -> float | None:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else None
