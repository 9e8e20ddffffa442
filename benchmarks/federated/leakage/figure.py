"""A figure of what an attack rebuilt: for each view its matching losses, and the images."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.figures import write_png
from fl.leakage import NO_LEAK, Reconstruction

LINE = 0.62
"""Height of a view's line, and width of an image, in inches."""
"""Noise in more colours takes much space on the pages."""


def draw(
    path: Path, records: Sequence[Tensor], found: Mapping[str, Sequence[Reconstruction]]
) -> Path:
    """Returns the path of a figure with a line for each view, below the records themselves.

    Args:
        path: where it is written.
        records: those attacked, each (channels, rows, columns) in [0, 1].
        found: what was rebuilt of each, by the name of the view.
    """
    figure = Figure(
        figsize=(6.4 + LINE * len(records), LINE * (len(found) + 2)), layout="constrained"
    )
    grid = figure.add_gridspec(
        len(found) + 1, len(records) + 1, width_ratios=[4.0, *[LINE] * len(records)]
    )
    for column, record in enumerate(records, start=1):
        _show(figure.add_subplot(grid[0, column]), record)
    title = figure.add_subplot(grid[0, 0])
    title.axis("off")
    title.text(1.0, 0.5, "the records that are attacked", ha="right", va="center", fontsize=8)
    losses = figure.add_subplot(grid[1:, 0])
    for line, several in enumerate(found.values()):
        for column, one in enumerate(several):
            _show(figure.add_subplot(grid[line + 1, column + 1]), one.record)
            height = line + (column + 1) / (len(several) + 1) - 0.5
            steps = [loss for loss in one.losses if math.isfinite(loss)]
            losses.plot(steps, [height] * len(steps), color="tab:grey", linewidth=1)
            color = "tab:red" if one.matches else "tab:blue"
            losses.plot(one.loss, height, marker="o", markersize=4, color=color)
    losses.axvline(NO_LEAK, color="black", linestyle="--", linewidth=1)
    losses.set(
        xscale="log",
        xlabel=f"matching loss, from the first step to the least; dashed: {NO_LEAK:g}",
        ylim=(len(found) - 0.5, -0.5),
    )
    losses.set_yticks(range(len(found)), list(found), fontsize=8)
    for line in range(1, len(found)):
        losses.axhline(line - 0.5, color="lightgrey", linewidth=0.5)
    write_png(figure, path)
    return path


def _show(axes: Axes, image: Tensor) -> None:
    pixels = image.permute(1, 2, 0).clamp(0, 1).numpy()
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.axis("off")
