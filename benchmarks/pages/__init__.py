"""``python -m benchmarks report``: all recorded results on one page, as Markdown and as HTML.

`catalogue` says what each result shows and what reruns it, `recorded` reads the files, `facts`
puts settings and machine into words, `charts` draws the figures that no benchmark draws, and
`rendering` fills the templates. The pages depend on the files alone, so that a test can hold them
to the results.
"""

from pathlib import Path

from benchmarks.pages import recorded, rendering

HTML, MARKDOWN = "report.html", "report.md"


def write(folder: Path) -> list[Path]:
    """Returns what it wrote into the folder of results: their figures, then both pages.

    Raises:
        ArgumentError: a .json file there is no result.
    """
    from benchmarks.pages import charts

    written = []
    for result in recorded.read(folder):
        if result.entry.chart is not None and result.rows:
            path = folder / f"{result.name}.svg"
            charts.draw(result.entry.chart, result.rows, path)
            written.append(path)
    for name, text in contents(folder).items():
        (folder / name).write_text(text)
        written.append(folder / name)
    return written


def contents(folder: Path) -> dict[str, str]:
    """Returns the pages of a folder's results and figures, by file name."""
    results = recorded.read(folder)
    return {MARKDOWN: rendering.as_markdown(results), HTML: rendering.as_html(results)}
