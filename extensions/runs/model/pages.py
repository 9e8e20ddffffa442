"""Pages and figures of an additive model: a curve a column, with the noise that is in it."""

import base64
import html
import io
from pathlib import Path
from typing import Any

import numpy as np

from extensions import durable
from extensions.errors import ArgumentError, optional
from extensions.runs.model.explaining import Effects, effects_of
from extensions.runs.model.files import OpenedModel
from extensions.runs.model.terms import Term
from extensions.runs.summaries.page import bars, page_of

BAND = 2.5
"""Standard deviations of noise that a band is wide on either side."""
_COLORS = ("#1f5a92", "#c1440e", "#5b7f2b", "#7d5a96", "#8a6d1d", "#3b8686")
_MOST_BARS = 25
_BODY = (
    "<p>An additive model ({spent}). Each column adds to a record's {unit}, and the sum\n"
    "decides. All curves have the same scale and are centred on 0; a record starts at {base}.</p>\n"
    "<p class='note'>The band is {band} standard deviations of the noise that privacy added to "
    "this\ncolumn's curve. Where columns overlap, 80 to 96 % of the bins of the curve without "
    "noise lie\nwithin it. The band leaves out chance: few records say little. Grey bars are noisy "
    "numbers of\nrecords in each bin. A column that moves records by 0 tells no more than noise "
    "would. Columns\nmove records by:</p>\n{rows}\n{parts}\n"
)


def figure_of(effects: Effects, term: Term) -> Any:
    """Returns a matplotlib figure of one term: its curve with the band, and the bins' counts."""
    optional("matplotlib", "matplotlib", "explain")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    order = np.arange(len(term.labels))
    if term.edges is None and len(order) > _MOST_BARS:
        order = np.argsort(-term.counts)[:_MOST_BARS]
    curves = list(zip(effects.outputs, term.values, term.deviations, strict=True))
    for color, (name, values, deviations) in zip(_COLORS, curves, strict=False):
        wide = BAND * deviations
        if term.edges is None:
            look: Any = {"fmt": "o", "markersize": 4, "capsize": 4, "color": color, "label": name}
            above.errorbar(np.arange(len(order)), values[order], wide[order], **look)
        else:
            bins = len(term.edges) - 1
            above.stairs(values[:bins], term.edges, baseline=None, color=color, label=name)
            ends = values[:bins] - wide[:bins], values[:bins] + wide[:bins]
            above.stairs(ends[1], term.edges, baseline=ends[0], fill=True, color=color, alpha=0.2)
    above.axhline(0.0, color="#999", linewidth=0.8)
    most = max(float((abs(x.values) + BAND * x.deviations).max()) for x in effects.terms)
    above.set_ylim(-1.05 * most, 1.05 * most)  # one scale, or a curve of noise looks like another
    above.set_ylabel(effects.unit)
    if len(effects.outputs) > 1:
        above.legend(frameon=False)
    _draw_counts(below, term, order)
    return figure


def _draw_counts(axes: Any, term: Term, order: Any) -> None:
    if term.edges is None:
        axes.bar(np.arange(len(order)), term.counts[order], color="#bbb")
        labels = [_short(term.labels[i]) for i in order]
        axes.set_xticks(np.arange(len(order)), labels, rotation=30, ha="right")
    else:
        bins = len(term.edges) - 1
        axes.stairs(np.maximum(term.counts[:bins], 0.0), term.edges, fill=True, color="#bbb")
        axes.set_xlabel(term.column)
    axes.set_ylabel("records")


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:23]}…"


def write_page(path: Path, model: OpenedModel) -> Path:
    """Writes a page of all terms: HTML that needs no network, or one .png.

    Readable by its owner only.

    Raises:
        ArgumentError: a path that ends otherwise, or another kind of model.
        MissingExtraError: matplotlib is not installed.
    """
    if path.suffix not in (".html", ".png"):
        raise ArgumentError("out", str(path), "a file that ends in .html or .png", code="file")
    effects = effects_of(model)
    page = _html(model, effects).encode() if path.suffix == ".html" else _sheet(effects)
    with durable.write(path) as file:
        file.write(page)
    return path


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _sheet(effects: Effects) -> bytes:
    """Returns the figures of all terms below each other, as one picture."""
    image = optional("PIL.Image", "pillow", "explain")
    pictures = []
    for term in effects.by_importance:
        figure = figure_of(effects, term)
        figure.suptitle(term.column)
        pictures.append(image.open(io.BytesIO(_png(figure))).convert("RGB"))
    sheet = image.new("RGB", (pictures[0].width, sum(one.height for one in pictures)), "white")
    top = 0
    for one in pictures:
        sheet.paste(one, (0, top))
        top += one.height
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _html(model: OpenedModel, effects: Effects) -> str:
    privacy, terms = model.header.privacy, effects.by_importance
    known = privacy.get("epsilon")
    spent = f"epsilon {known:.3g}, delta {privacy['delta']:.2g}" if known else "without privacy"
    names = [html.escape(term.column) for term in terms]
    moved = [(term.column, float(term.importance.max())) for term in terms]
    parts = [
        f"<h2 id='{i}'>{name}</h2><img alt='What {name} adds' src='data:image/png;base64,"
        f"{base64.b64encode(_png(figure_of(effects, term))).decode()}'>{_missing(term)}"
        for i, (name, term) in enumerate(zip(names, terms, strict=True))
    ]
    base = ", ".join(f"{value:.3g}" for value in effects.base)
    body = _BODY.format(
        spent=spent,
        unit=html.escape(effects.unit),
        base=f"{base}{_of_outputs(effects)}",
        band=BAND,
        rows=bars(moved, "{:.3f}".format, links=True),
        parts="".join(parts),
    )
    return page_of("What the model has learnt", body)


def _of_outputs(effects: Effects) -> str:
    names = effects.outputs
    if len(names) == 1:
        return ""
    shown = f" (figures show the first {len(_COLORS)})" if len(names) > len(_COLORS) else ""
    return f" for {html.escape(', '.join(names))}{shown}"


def _missing(term: Term) -> str:
    """Returns a sentence on missing values, if there is a bin of them."""
    if term.missing is None or term.edges is None:
        return ""
    values = ", ".join(f"{value:+.3g}" for value in term.values[:, term.missing])
    wide = BAND * float(term.deviations[:, term.missing].max())
    return f"<p>A missing value adds {values} (± {wide:.2g}).</p>"
