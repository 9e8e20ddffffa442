"""``python -m benchmarks list``: what there is to measure, and how long it takes."""

from itertools import groupby

from benchmarks.benchmark import found


def main() -> None:
    """Say what each benchmark shows, its minutes, and what it needs."""
    for part, several in groupby(found(), key=lambda one: one.part):
        print(part)
        for one in several:
            print(f"  {one.name:20} {one.minutes:4g} min  {one.title:44}{one.needs and ' *'}")
    print("* needs files, a network or another Python: python -m benchmarks NAME --help")
