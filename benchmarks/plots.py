"""Figures of the recorded results, as SVG beside them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from benchmarks import report

COLUMNS = 4


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves over the same x, on logarithmic axes."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]


def draw(name: str, panels: Sequence[Panel]) -> Path:
    """Returns the path of ``results/NAME.svg``, with a subplot for each panel."""
    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.6 * rows), layout="constrained")
    for i, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, COLUMNS, i)
        for label, values in panel.curves.items():
            axes.plot(panel.x, values, marker="o", markersize=3, label=label)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        if i == 1:
            axes.legend(fontsize="small")
    path = report.RESULTS / f"{name}.svg"
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
    return path
