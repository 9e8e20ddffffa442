"""An additive model as a table of whole points, which can be printed and added up by hand."""

import csv
import io
from pathlib import Path

import numpy as np

from extensions import durable
from extensions.runs.model.explaining import effects_of
from extensions.runs.model.files import OpenedModel

MOST = 20
"""Points of the bin that adds most or takes away most."""


def write(path: Path, model: OpenedModel) -> None:
    """Writes a CSV file: of each column and bin, the points and what they were before rounding.

    The first row is where every record starts. The last one says what a point is worth, how far
    rounding moves a record (root mean square over the records, columns apart) and, for two classes,
    how probable the second one is with a total of t points.
    """
    effects = effects_of(model)
    unit = max(float(np.abs(term.values).max()) for term in effects.terms) / MOST or 1.0
    names = [f"points {name}" for name in effects.outputs]
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["column", "bin", *names, *effects.outputs])
    lines.writerow(["", "start", *np.rint(effects.base / unit).astype(int), *effects.base.round(4)])
    moved = 0.0
    for term in effects.by_importance:
        points = np.rint(term.values / unit).astype(int)
        off = (points * unit - term.values) ** 2 @ np.maximum(term.counts, 0.0)
        moved += float(off.max()) / max(float(np.maximum(term.counts, 0.0).sum()), 1.0)
        for label, own, values in zip(term.labels, points.T, term.values.T, strict=True):
            lines.writerow([term.column, label, *own, *values.round(4)])
    worth = f"a point is {unit:.4g} ({effects.unit}); rounding moves a record by {moved**0.5:.2g}"
    if len(model.header.classes) == 2:
        worth += f"; t points are a probability of 1 / (1 + exp(-{unit:.4g} t))"
    lines.writerow(["", worth, *[""] * (2 * len(names))])
    with durable.write(path) as file:
        file.write(text.getvalue().encode())
