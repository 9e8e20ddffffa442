"""``python -m benchmarks list``: which command makes which of the recorded tables and figures."""

from benchmarks import tables


def main() -> None:
    """Say for every recorded table and figure which command makes it again."""
    from benchmarks.pages import recorded

    made: dict[str, list[str]] = {}
    for result in recorded.read(tables.RESULTS):
        files = ", ".join([f"{result.name}.json", *(figure.path.name for figure in result.figures)])
        made.setdefault(result.command, []).append(f"{result.title}: {files}")
    for command, results in made.items():
        print(command, *(f"  {line}" for line in results), sep="\n")
