"""Figures that the report draws from rows, as SVG with the text kept as text."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import write_svg
from benchmarks.pages.entries import Chart
from benchmarks.pages.facts import number
from benchmarks.tables import cell

_WIDTH = 9.0
_MARGIN = 0.8
_LINE = 0.27
"""Inches."""


def draw(chart: Chart, rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Writes one panel a column, one line a row, as an SVG file that depends on the rows alone."""
    labels = [", ".join(cell(row[name]) for name in chart.labels) for row in rows]
    figure = Figure(figsize=(_WIDTH, _MARGIN + _LINE * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(chart.values), sharey=True, squeeze=False)[0]
    for axes, (column, spread) in zip(panels, chart.values.items(), strict=True):
        values = [number(row.get(column)) for row in rows]
        _panel(axes, values)
        if spread:
            _spreads(axes, rows, column, spread)
        axes.margins(x=0.25)
        if column in chart.logarithmic:
            _decades(axes, [value for value in values if value])
        axes.set_xlabel(column)
    panels[0].set_yticks(range(len(rows)), labels)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    write_svg(figure, path)


def _panel(axes: Axes, values: Sequence[float | None]) -> None:
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    axes.plot([value for value, _ in known], [place for _, place in known], "o", markersize=5)
    for value, place in known:
        axes.annotate(cell(value), (value, place), (5, 3), textcoords="offset points", fontsize=8)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _decades(axes: Axes, values: Sequence[float]) -> None:
    """Makes the axis logarithmic, from a power of ten to one, with room for the largest's text."""
    axes.set_xscale("log")
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(2 * max(values)))
    axes.set_xlim(10.0**low, 10.0**high)
    axes.minorticks_off()


def _spreads(axes: Axes, rows: Sequence[dict[str, Any]], column: str, spread: str) -> None:
    for place, row in enumerate(rows):
        value, half = number(row.get(column)), number(row.get(spread))
        if value is not None and half is not None:
            axes.errorbar(value, place, xerr=half, color="tab:blue", capsize=2)
