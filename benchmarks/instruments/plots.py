"""Figures of the recorded results, as SVG beside them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks import tables
from benchmarks.figures import write_svg

COLUMNS = 4
STYLES = ("-", "--", "-.", ":")
"""Of lines, so that those which coincide are both seen."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves over the same x, any of which may end before it does."""

    title: str
    x_label: str
    y_label: str
    x: Sequence[float]
    curves: Mapping[str, Sequence[float]]
    logarithmic: bool = True


def draw(name: str, panels: Sequence[Panel]) -> Path:
    """Returns the path of ``results/NAME.svg``, with a subplot for each panel.

    The legend is that of the first panel: the curves of all should have the same names.
    """
    rows = math.ceil(len(panels) / COLUMNS)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.6 * rows), layout="constrained")
    for i, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(rows, COLUMNS, i)
        marker = "o" if panel.logarithmic else None
        for (label, values), style in zip(panel.curves.items(), itertools.cycle(STYLES)):
            axes.plot(
                panel.x[: len(values)], values, style, marker=marker, markersize=3, label=label
            )
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.logarithmic:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    path = tables.RESULTS / f"{name}.svg"
    write_svg(figure, path)
    return path
