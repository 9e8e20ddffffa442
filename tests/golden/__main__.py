"""`python -m tests.golden --write [--only NAME ...]`: golden values anew, from the code as it is.

A golden value changes only in a commit that says why.
"""

import argparse
import tempfile
from pathlib import Path

from tests.golden import clear
from tests.golden.cases import CASES


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), metavar="NAME")
    names = parser.parse_args().only or sorted(CASES)
    with tempfile.TemporaryDirectory() as folder:
        clear.write(names, Path(folder))


main()
