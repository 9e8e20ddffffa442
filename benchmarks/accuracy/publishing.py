"""A table of an experiment as JSON and Markdown, and its figure."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks import tables
from benchmarks.accuracy.records import Material
from benchmarks.accuracy.settings import Setting
from benchmarks.figures import write_png

Line = tuple[Sequence[float], Sequence[float], Sequence[float]]
"""Abscissas, means and standard deviations."""


def publish(
    experiment: str,
    material: Material,
    rows: Sequence[dict[str, Any]],
    settings: Mapping[str, Setting | dict[str, Any]],
    *,
    backend: str = "plaintext with the arithmetic of a secure run",
    **others: Any,
) -> str:
    """Writes ``accuracy-EXPERIMENT-DATA`` as .json and .md; returns that name."""
    name = f"accuracy-{experiment}-{material.data}"
    named = {
        label: shown(setting) if isinstance(setting, Setting) else setting
        for label, setting in settings.items()
    }
    others = {
        "data": material.data,
        "epsilon": material.epsilon,
        "seeds": list(material.seeds),
        "backend": backend,
        "load": os.getloadavg()[0],
        "tuned": named,
    } | others
    tables.publish(name, rows, **others)
    (tables.RESULTS / f"{name}.md").write_text(tables.markdown(rows) + "\n")
    return name


def shown(setting: Setting) -> dict[str, Any]:
    """Returns the settings as a result has them, without folders."""
    return asdict(setting) | {"features": setting.title}


def bars(name: str, rows: Sequence[dict[str, Any]], label: str) -> None:
    """Draws each row's accuracy with its standard deviation, and what the paper has for it."""
    figure, axes = _figure()
    places = list(range(len(rows)))
    axes.barh(
        places,
        [row["accuracy, %"] for row in rows],
        xerr=[row["standard deviation"] for row in rows],
        height=0.6,
    )
    paper = [(i, row["paper, %"]) for i, row in enumerate(rows) if "paper, %" in row]
    if paper:
        axes.plot([v for _, v in paper], [i for i, _ in paper], "k|", markersize=18, label="paper")
        axes.legend()
    axes.set_yticks(places, [str(row[label]) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("accuracy, %")
    _write(figure, name)


def lines(name: str, drawn: Mapping[str, Line], abscissa: str, *, logarithmic: bool) -> None:
    """Draws mean accuracies with a band of one standard deviation."""
    figure, axes = _figure()
    for label, (x, means, spreads) in drawn.items():
        axes.plot(x, means, marker=".", label=label)
        low = [m - s for m, s in zip(means, spreads, strict=True)]
        high = [m + s for m, s in zip(means, spreads, strict=True)]
        axes.fill_between(x, low, high, alpha=0.2)
    if logarithmic:
        axes.set_xscale("log")
    axes.set_xlabel(abscissa)
    axes.set_ylabel("accuracy, %")
    axes.legend()
    _write(figure, name)


def against_costs(name: str, rows: Sequence[dict[str, Any]], costs: Sequence[str]) -> None:
    """Draws each way's accuracies at its epsilons against what they cost, one panel a cost."""
    figure, panels = _figure(len(costs))
    for cost, axes in zip(costs, panels, strict=True):
        for way in dict.fromkeys(row["way"] for row in rows):
            own = [row for row in rows if row["way"] == way]
            axes.plot(
                [row[cost] for row in own],
                [row["accuracy, %"] for row in own],
                marker="o",
                label=way,
            )
        axes.set_xscale("log")
        axes.set_xlabel(cost)
    panels[0].set_ylabel("accuracy, %")
    panels[-1].legend(fontsize="small")
    _write(figure, name)


def _figure(panels: int = 1) -> tuple[Any, Any]:
    """A figure and its axes; several are in a row, with one scale upwards."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 * (panels + 1), 3.4), layout="constrained")
    return figure, figure.subplots(1, panels, sharey=True)


def _write(figure: Any, name: str) -> None:
    write_png(figure, tables.RESULTS / f"{name}.png")
