"""Figures of recorded tables, as SVG files that depend on the tables alone."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.benchmark import Chart
from benchmarks.tables import cell, chosen

OURS, OTHERS = "#c1440e", "#4c6a92"
_LINES = ("#4c6a92", "#6b8e23", "#8a6d9e", "#7f7f7f", "#b8860b", "#2a9d8f")
_MARKERS = "sD^vPX"
_TAG, _MORE = re.compile(r"<[^!>][^>]*>"), re.compile(r"(?<=\d\.\d\d)\d+")
_LEADING = re.compile(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?")
Rows = Sequence[dict[str, Any]]


def draw(chart: Chart, rows: Rows, path: Path) -> None:
    """Writes a panel for each value of the chart; text stays text, and ours has a colour apart."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shown = chosen(rows, where=chart.where)
    figure = (_lines if chart.x else _dots)(chart, shown, Figure)
    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(_TAG.sub(lambda tag: _MORE.sub("", tag[0]), path.read_text()))


def number(value: Any) -> float | None:
    """Returns the value, or the number that a text begins with, such as a median; None without."""
    found = _LEADING.match(cell(value))
    return float(found[0]) if found else None


def _label(chart: Chart, row: dict[str, Any]) -> str:
    return ", ".join(cell(row[name]) for name in chart.labels if row[name] != "-")


def _dots(chart: Chart, rows: Rows, kind: Any) -> Any:
    labels = [_label(chart, row) for row in rows]
    figure = kind(figsize=(9.5, 0.9 + 0.27 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(chart.values), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, chart.values, strict=True):
        for place, (label, row) in enumerate(zip(labels, rows, strict=True)):
            value, text = number(row[column]), cell(row[column]).partition(" ")[0]
            if not value and column in chart.logarithmic:
                axes.text(0.02, place, text, transform=axes.get_yaxis_transform(), va="center")
            elif value is not None:
                color = OURS if re.search(chart.ours, label) else OTHERS
                axes.plot(value, place, "o", color=color)
                axes.annotate(text, (value, place), (7, 0), textcoords="offset points", va="center")
        _finish(axes, chart, column)
        axes.margins(x=0.3)
    panels[0].set_yticks(range(len(rows)), labels)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    for label, text in zip(labels, panels[0].get_yticklabels(), strict=True):
        text.set_color(OURS if re.search(chart.ours, label) else "black")
    return figure


def _lines(chart: Chart, rows: Rows, kind: Any) -> Any:
    figure = kind(figsize=(2.0 + 4.0 * len(chart.values), 3.6), layout="constrained")
    panels = figure.subplots(1, len(chart.values), squeeze=False)[0]
    labels = list(
        dict.fromkeys(", ".join(cell(row[name]) for name in chart.labels) for row in rows)
    )
    others = [label for label in labels if not re.search(chart.ours, label)]
    for axes, column in zip(panels, chart.values, strict=True):
        for label in labels:
            own = [row for row in rows if _label(chart, row) == label]
            points = [point for row in own for point in _points(chart, column, row)]
            style: dict[str, Any] = {"color": OURS, "marker": "o", "linewidth": 2.5}
            if label in others:
                place = others.index(label) % len(_LINES)
                style = {"color": _LINES[place], "marker": _MARKERS[place], "linewidth": 1.2}
            axes.plot(*zip(*points, strict=True), label=label, markersize=5, **style)
        _finish(axes, chart, chart.x.removeprefix("* ").removesuffix(f", {column}"))
        axes.set_ylabel(column)
        if chart.x in chart.logarithmic:
            axes.set_xscale("log")
            ticks = sorted({x for line in axes.get_lines() for x in line.get_xdata()})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
        axes.set_yscale("log" if column in chart.logarithmic else "linear")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right center",
        title=", ".join(chart.labels),
        frameon=False,
    )
    return figure


def _points(chart: Chart, column: str, row: dict[str, Any]) -> list[tuple[float, float]]:
    """A row's point, or those of all columns whose names `chart.x` stands for."""
    cells = {chart.x: (row.get(chart.x), row.get(column))}
    if "*" in chart.x:
        head, tail = chart.x.split("*")
        names = [name for name in row if name.startswith(head) and name.endswith(tail)]
        cells = {name: (name.removesuffix(tail).removeprefix(head), row[name]) for name in names}
    pairs = [(number(x), number(y)) for x, y in cells.values()]
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _finish(axes: Any, chart: Chart, x_label: str) -> None:
    if x_label in chart.logarithmic:
        axes.set_xscale("log")
    axes.set_xlabel(x_label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
