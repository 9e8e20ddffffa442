"""`python -m tests.golden --write [--only NAME ...]`: golden values anew, from the code as it is.

A golden value changes only in a commit that says why. Names are of runs on the clear host, or of
what protocols take on the two others; all of these take minutes.
"""

import argparse
import tempfile
from pathlib import Path

from tests.golden import clear, hosts
from tests.golden.cases import CASES
from tests.golden.protocols import SETTINGS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("--only", nargs="+", choices=[*CASES, *SETTINGS], metavar="NAME")
    names = parser.parse_args().only or [*CASES, *SETTINGS]
    with tempfile.TemporaryDirectory() as folder:
        clear.write([name for name in names if name in CASES], Path(folder))
    if asked := [name for name in names if name in SETTINGS]:
        hosts.write(asked)


if __name__ == "__main__":
    main()
