"""``python -m benchmarks NAME``: one file a benchmark; `benchmarks.benchmark` finds them."""

from collections.abc import Mapping
from typing import ClassVar

from benchmarks.benchmark import found
from extensions.cli.commands import Commands
from extensions.cli.main import run


class Benchmarks(Commands):
    """Measure again what the documents' tables say; `list` says which there are."""

    own: ClassVar[Mapping[str, str]] = {
        **{one.name: one.target for one in found()},
        "network": "benchmarks.network.command:main",
        "report": "benchmarks.report:main",
        "list": "benchmarks.listing:main",
    }


if __name__ == "__main__":
    run(Benchmarks, "python -m benchmarks")
