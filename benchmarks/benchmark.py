"""What a benchmark says of itself, in the one file that measures it.

    @Benchmark(STEPS, "first-step", "A session on ABY3", minutes=1, results=[Result(...)])
    def main(records: int = 200) -> Iterator[Table]: ...

The decorated function is the command; its tables are written beside the recorded ones, or in their
place with ``--record``. The list and the documents read the decorator in the text of the file, so
that nothing is imported that measures. It is therefore made of this module's names and literals.
"""

import ast
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from benchmarks.tables import Table
from extensions.options import Option

ROOTS, STEPS, NOISE = "Inverse square roots", "One step of DPSGD", "Noise"
TRAINING, ACCURACY, ACCOUNTING = "Whole runs", "Accuracy", "Accounting"
FEDERATED = "Federated learning"
PARTS = (ROOTS, STEPS, NOISE, TRAINING, ACCURACY, FEDERATED, ACCOUNTING)
_RECORD = Annotated[bool, Option(help="Replace what is recorded; else write beside it.")]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A figure of a table: a dot for each row, or over `x` a line for each kind of row.

    Attributes:
        of: the name of the table.
        labels: the columns that name a row or a line.
        values: the columns that are drawn, a panel for each.
        x: the column below the lines; with a ``*`` in it, all columns of such names are one line.
        logarithmic: the columns, and `x`, that need a logarithmic axis.
        where: which rows; as for `benchmarks.tables.chosen`.
        ours: a pattern of those labels that are ours, which have a colour of their own.
    """

    of: str
    labels: Sequence[str]
    values: Sequence[str]
    x: str = ""
    logarithmic: Sequence[str] = ()
    where: str = ""
    ours: str = r"\bours\b"


@dataclass(frozen=True)
class Result:
    """Tables of one kind.

    Attributes:
        pattern: of their names, without the profile of an emulated network.
        shows: a sentence on what they say.
        options: by which the command makes these alone.
        columns: that the documents show, with ``|`` between them; all with ``*``.
        where: which rows they show.
        chart: of one of the tables.
    """

    pattern: str
    shows: str
    options: str = ""
    columns: str = ""
    where: str = ""
    chart: Chart | None = None

    def chart_of(self, name: str) -> Chart | None:
        """Returns the chart of the table of that name, if it is drawn."""
        return self.chart if self.chart is not None and self.chart.of == name else None


@dataclass(frozen=True)
class Benchmark:
    """A measurement and what it is good for; decorates the function that makes its tables.

    Attributes:
        part: the chapter it belongs to.
        name: of the command.
        title: at most 44 characters.
        minutes: that it takes on two cores as it stands, about.
        results: its tables.
        needs: what a machine may lack, such as files or another Python.
        target: the decorated function, as ``module:name``.
    """

    part: str
    name: str
    title: str
    minutes: float
    results: Sequence[Result]
    needs: str = ""
    target: str = ""

    def __call__(self, measure: Callable[..., Iterable[Table]]) -> Callable[..., None]:
        """Returns the command that writes what the function yields."""

        @functools.wraps(measure)
        def command(*arguments: Any, record: bool = False, **options: Any) -> None:
            for table in measure(*arguments, **options):
                table.write(record=record)

        own = inspect.signature(measure)
        added = inspect.Parameter("record", inspect.Parameter.KEYWORD_ONLY, default=False)
        parameters = [*own.parameters.values(), added]
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {**measure.__annotations__, "record": _RECORD}
        return command

    def finds(self, name: str) -> Result | None:
        """Returns which of its results a table of that name is."""
        return next((one for one in self.results if re.fullmatch(one.pattern, name)), None)


@functools.cache
def found() -> tuple[Benchmark, ...]:
    """Returns the benchmarks of all files, by chapter and name."""
    root = Path(__file__).parent
    texts = {path: path.read_text() for path in root.rglob("*.py")}
    every = [
        replace(one, target=f"{_module(path, root)}:{name}")
        for path, text in texts.items()
        if "\n@Benchmark(" in text
        for name, one in _decorated(text)
    ]
    return tuple(sorted(every, key=lambda one: (PARTS.index(one.part), one.name)))


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root.parent).with_suffix("").parts)


def _decorated(text: str) -> Iterable[tuple[str, Benchmark]]:
    for node in ast.parse(text).body:
        for decorator in getattr(node, "decorator_list", ()):
            words = ast.unparse(decorator)
            if isinstance(node, ast.FunctionDef) and words.startswith("Benchmark("):
                yield node.name, eval(words, globals())  # our own file's text
