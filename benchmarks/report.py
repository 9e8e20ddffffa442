"""``python -m benchmarks report``: recorded results in the tables of the documents and on pages."""

import json
import re
from pathlib import Path

from benchmarks import pages, tables

DOCUMENTS = tuple(Path(__file__).parent.parent / name for name in ("README.md", "docs/results.md"))
SLOT = re.compile(
    r"<!-- table: ([^\s:]+)(?:: (.+?))?(?: where (.+?))? -->\n.*?<!-- end -->", re.DOTALL
)


def with_tables(text: str) -> str:
    """Returns the text with its table slots filled from the recorded results.

    A slot whose name has a ``*`` holds the rows of all results of such a name, in their order, or
    says that there are none. One that lists columns, ``name: column | column``, has these alone;
    ``where column = cell or cell and column = cell`` leaves those rows that show one of the cells.
    """

    def fill(slot: re.Match[str]) -> str:
        files = sorted(tables.RESULTS.glob(f"{slot[1]}.json"))
        rows = [row for file in files for row in json.loads(file.read_text())["rows"]]
        for condition in slot[3].split(" and ") if slot[3] else ():
            column, _, cells = condition.partition(" = ")
            rows = [row for row in rows if tables.cell(row[column]) in cells.split(" or ")]
        if slot[2] is not None:
            rows = [{name: row[name] for name in slot[2].split(" | ")} for row in rows]
        table = tables.markdown(rows) if rows else "No run is recorded yet."
        opening, _, _ = slot[0].partition("\n")
        return f"{opening}\n{table}\n<!-- end -->"

    return SLOT.sub(fill, text)


def main() -> None:
    """Write the recorded results into the tables of the documents and the pages of all results."""
    for document in DOCUMENTS:
        document.write_text(with_tables(document.read_text()))
    for path in pages.write(tables.RESULTS):
        print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
