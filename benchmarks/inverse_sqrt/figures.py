"""The errors of 1/sqrt(x) as figures: one as papers draw them, one on which small errors show."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.figures import write_png
from benchmarks.inverse_sqrt.points import FAR, HIGH, LOW
from benchmarks.inverse_sqrt.summary import Values, relative

Curves = dict[str, tuple[Values, Values]]
"""For each label, x and the approximation there."""

CUT = 0.003
_CELLS = 400


def draw_linear(curves: Curves, path: Path) -> None:
    """Writes approximate minus exact against x in LOW..HIGH, both axes linear, as an image.

    Errors beyond CUT would hide the rest, and leave the figure.
    """
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for label, (x, y) in curves.items():
        near = x <= HIGH
        axes.plot(x[near], y[near] - x[near] ** -0.5, linewidth=0.8, label=label)
    axes.axhline(0.0, color="black", linewidth=0.5)
    axes.set(xlim=(0, HIGH), ylim=(-CUT, CUT), xlabel="x", ylabel="approximate - 1/sqrt(x)")
    axes.legend(fontsize="x-small")
    write_png(figure, path, dpi=110)


def draw_logarithmic(curves: Curves, path: Path) -> None:
    """Writes, against log x in LOW..FAR, the worst relative error on either side, as an image.

    One panel a curve, with the worst of each of `_CELLS` equal parts of the axis: above the true
    value upwards, below it downwards, both in per cent on logarithmic axes.
    """
    figure = Figure(figsize=(7, 1.05 * len(curves) + 0.6), layout="constrained")
    panels = figure.subplots(len(curves), 1, sharex=True, squeeze=False)[:, 0]
    edges = np.geomspace(LOW, FAR, _CELLS + 1)
    for axes, (label, (x, y)) in zip(panels, curves.items(), strict=True):
        error = 100 * relative(x, y)
        cells = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, _CELLS - 1)
        for sign, colour in ((1, "tab:red"), (-1, "tab:blue")):
            worst = np.zeros(_CELLS)
            np.maximum.at(worst, cells, sign * error)
            axes.fill_between(edges[:-1], sign * worst, step="post", color=colour, linewidth=0)
        axes.axhline(0.0, color="black", linewidth=0.5)
        axes.axvline(HIGH, color="grey", linewidth=0.5, linestyle=":")
        axes.set(xscale="log", xlim=(LOW, FAR), ylim=(-100, 100))
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_yticks([-10, -0.1, 0, 0.1, 10], ["-10", "-0.1", "0", "0.1", "10"], fontsize=6)
        axes.set_title(label, fontsize=7, loc="left", pad=2)
    panels[-1].set_xlabel("x")
    figure.supylabel("worst error, %: red above 1/sqrt(x), blue below", fontsize=8)
    write_png(figure, path, dpi=110)
