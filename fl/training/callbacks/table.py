"""A table of all rounds, with a row for each."""

import csv
import io
from pathlib import Path

from torch import nn

from extensions import durable
from extensions.errors import ArgumentError
from fl.training.history import History


class CSVWriter:
    """A callback that writes the numbers of all rounds so far (`RoundReport.numbers`) into a file.

    The file is whole at any time. A resumed run writes the rounds before it too.

    Args:
        path: of the file; what it held is lost.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def __call__(self, history: History, model: nn.Module) -> None:
        """Writes the table.

        Raises:
            ArgumentError: the file cannot be written.
        """
        rows = [report.numbers() for report in history]
        columns = dict.fromkeys(name for row in rows for name in row)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        try:
            with durable.write(self.path) as file:
                file.write(text.getvalue().encode())
        except OSError as error:
            rule = "a file that can be written"
            raise ArgumentError("path", str(self.path), rule, code="file") from error
