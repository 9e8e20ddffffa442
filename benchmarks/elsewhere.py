"""What pip installs in place of `benchmarks.__main__`: the repository alone has the benchmarks."""

import sys

if __name__ == "__main__":
    sys.exit(
        "benchmarks: they are in PEA's repository and not in what pip installs. "
        "Clone it, and type in its folder: python -m benchmarks list"
    )
