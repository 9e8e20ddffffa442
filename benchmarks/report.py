"""``python -m benchmarks report``: recorded results in the documents, with their figures."""

from benchmarks import page, tables

README = page.DOCS.parent / "README.md"


def main() -> None:
    """Make the page of results and its charts of the recorded ones, and fill README's table."""
    from benchmarks import charts

    (page.DOCS / "charts").mkdir(exist_ok=True)
    for one in page.read(tables.RESULTS):
        if (chart := one.result.chart_of(one.name)) is not None:
            charts.draw(chart, one.content["rows"], page.DOCS / "charts" / f"{one.name}.svg")
    page.RESULTS.write_text(page.text())
    README.write_text(page.with_tables(README.read_text()))
