"""A page that needs no network: HTML with its style, tables, bars and charts inside."""

import html
import math
from collections.abc import Callable, Iterator, Sequence

Point = tuple[float, float]

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:46rem;padding:0 1rem;"
    "background:#fff;color:#1c1c1c}img{width:100%;height:auto}h1{line-height:1.2}"
    "table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.2rem 1rem .2rem 0;"
    "text-align:left;vertical-align:top}th{border-bottom:1px solid #999}"
    "td.long{overflow-wrap:anywhere}"
    "h2{margin-top:2.5rem}p.note{color:#555}svg{width:100%;max-width:36rem;height:auto}"
    "td.number{text-align:right;white-space:nowrap}"
    "td i{display:inline-block;height:.7rem;background:#1f5a92}"
    "pre{background:#f2f2f2;padding:.7rem;white-space:pre-wrap;overflow-wrap:anywhere}"
    "@media(max-width:30rem){body{font-size:15px}td,th{padding-right:.6rem}}"
)
_PAGE = """<!doctype html><html lang='en'><meta charset='utf-8'>
<meta name='viewport' content='width=device-width, initial-scale=1'>
<title>{title}</title><style>{style}</style>
<h1>{title}</h1>
{body}</html>
"""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 250, 48, 14, 26, 44
_LONG = 20  # characters of a word that may be broken
_TEXT = "<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>"
_LINE = "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}'/>"


def page_of(title: str, body: str) -> str:
    """Returns a page; the title is text, the body HTML."""
    return _PAGE.format(title=html.escape(title), style=_STYLE, body=body)


def html_table(head: Sequence[str], rows: Sequence[Sequence[str | float | int | None]]) -> str:
    """Returns a table of texts and numbers; a column that is None everywhere is left out."""
    kept = [i for i in range(len(head)) if any(row[i] is not None for row in rows)]
    names = "".join(f"<th>{html.escape(head[i])}</th>" for i in kept) if any(head) else ""
    lines = "".join(f"<tr>{''.join(_cell(row[i]) for i in kept)}</tr>" for row in rows)
    return f"<table>{f'<tr>{names}</tr>' if names else ''}{lines}</table>"


def _cell(value: str | float | int | None) -> str:
    if isinstance(value, str):
        long = any(len(word) > _LONG for word in value.split())
        return f"<td{' class=long' * long}>{html.escape(value)}</td>"
    if value is None:
        return "<td></td>"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
    return f"<td class='number'>{shown}</td>"


def bars(
    rows: Sequence[tuple[str, float]], shown: Callable[[float], str], *, links: bool = False
) -> str:
    """Returns a table of names, values and bars in their proportion.

    With links, the first name leads to the element with the identifier 0, and so on.
    """
    most = max((value for _, value in rows), default=0.0) or 1.0
    names = [html.escape(name) for name, _ in rows]
    if links:
        names = [f"<a href='#{i}'>{name}</a>" for i, name in enumerate(names)]
    lines = "".join(
        f"<tr><td>{name}</td><td class='number'>{html.escape(shown(value))}</td>"
        f"<td><i style='width:{max(0.05, 9 * value / most):.2f}rem'></i></td></tr>"
        for name, (_, value) in zip(names, rows, strict=True)
    )
    return f"<table>{lines}</table>"


def line_chart(points: Sequence[Point], across: str, up: str) -> str:
    """Returns a figure of one line from 0 up, with what is drawn across and up, as SVG."""
    ends = max(x for x, _ in points), max(y for _, y in points) or 1.0

    def place(x: float, y: float) -> Point:
        wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + wide * x / ends[0], _HEIGHT - _BOTTOM - high * y / ends[1]

    drawn = []
    for value in _ticks(ends[1]):
        x, y = place(0.0, value)
        drawn += [_LINE.format(x, y, _WIDTH - _RIGHT, y, "#ddd")]
        drawn += [_TEXT.format(x - 6, y + 4, "end", f"{value:g}")]
    for value in _ticks(ends[0]):
        x, y = place(value, 0.0)
        drawn += [
            _LINE.format(x, y, x, y + 5, "#555"),
            _TEXT.format(x, y + 19, "middle", f"{value:g}"),
        ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*one) for one in points))
    x, y = place(*points[-1])
    drawn += [
        f"<polyline points='{line}' fill='none' stroke='#1f5a92' stroke-width='2.5'/>",
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='#1f5a92'/>",
        _TEXT.format(x - 8, y - 9, "end", f"{points[-1][1]:.4g}"),
        _TEXT.format(_WIDTH - _RIGHT, _HEIGHT - 6, "end", html.escape(across)),
        _TEXT.format(4, 14, "start", html.escape(up)),
    ]
    name = html.escape(f"{up} by {across}, {points[-1][1]:.4g} at the end", quote=True)
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='{name}' font-size='13' "
        f"fill='#1c1c1c'>{''.join(drawn)}</svg>"
    )


def _ticks(most: float) -> Iterator[float]:
    """Yields round numbers from 0 to the most, three to six of them."""
    raw = most / 4
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * by for by in (1, 2, 2.5, 5, 10) if unit * by >= raw)
    for number in range(int(most / step + 1e-9) + 1):
        yield float(f"{number * step:.6g}")
