"""A CSV file, read strictly: what is not well-formed is an error with its place in the file.

No library at hand is so strict. Python's reader, pyarrow's and polars' each take some of these for
something: quotation marks within a cell or around rows, NUL bytes, mixed ends of lines, short rows;
the errors of the last two show cells.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from extensions.data.datasets.records import unreadable, unusable
from extensions.data.schema import SEPARATORS, Separator, number_of
from extensions.errors import ArgumentError

_BOM = b"\xef\xbb\xbf"
_BREAK = re.compile(r"\r\n|\r|\n")
_HEADER = re.compile(r'(?:[^"\r\n]|"[^"]*")*+(\r\n|\r|\n|\Z)')
_AS_CSV = "Save the table as CSV in UTF-8, or as Parquet."
_DOUBLED = "Double a mark within a cell, and put the cell between two marks."

_Row = tuple[int, list[str], str]
"""Where a row starts in the text, its cells, and its text."""


def read_csv(path: Path, separator: Separator) -> tuple[list[str], list[tuple[str, ...]]]:
    """Returns the names of the columns, and each column's cells as they are written.

    A cell may stand between quotation marks. Only there may it have separators, line breaks and
    quotation marks, each of which is doubled. A row has as many cells as the header, and no lines
    that may be one record or several. Errors name the line, as an editor counts it, and the
    character, but no cell.
    """
    file = _File(path, separator)
    found = file.rows()
    header = next(found)
    names = header[1]
    if len(names) == 1 and file.likely_separator != separator:
        raise file.error(
            0, f"a header with {json.dumps(separator)} between its columns", file.advice
        )
    every, several = list[str](), list[_Row]()
    for row in found:
        start, cells, text = row
        if len(cells) != len(names):
            allowed = f"a row of {len(names)} cells, as many as the header has, not {len(cells)}"
            advice = file.advice
            if cells == [""]:
                advice = "Delete the line, if it is blank."
            elif len(cells) == len(names) + 1:
                advice = advice or "If R wrote names of rows there, write it with row.names=FALSE."
            raise file.error(start, allowed, advice)
        every.extend(cells)  # in one list: as lists of rows they would take half more memory
        several += [row] if _is_broken(text) else []
    file.check_one(header, [])
    columns = [(*every[place :: len(names)],) for place in range(len(names))]
    if several:
        kinds = [_alike([each for each in column if not _is_broken(each)]) for column in columns]
        for row in several:
            file.check_one(row, kinds)
    return names, columns


def likely_separator(path: Path) -> Separator:
    """Returns the separator that a file's header has most often; a comma if it has none."""
    return _File(path, ",").likely_separator


_Holds = Callable[[str], bool]


def _alike(cells: Sequence[str]) -> _Holds:
    """Returns what says whether a cell is like those of a column: one of them, or a number too."""
    known = frozenset(cells)
    numbers = all(map(_is_number, known))
    return lambda cell: cell in known or (numbers and _is_number(cell))


def _is_broken(text: str) -> bool:
    return "\n" in text or "\r" in text


def _is_number(cell: str) -> bool:
    return not math.isnan(number_of(cell.replace(",", ".")))


@dataclass(frozen=True)
class _File:
    path: Path
    separator: Separator

    @cached_property
    def text(self) -> str:
        data = self.path.read_bytes().removeprefix(_BOM)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            before = data[: error.start].decode()
            raise self._error(before, "text in UTF-8", _AS_CSV) from None
        if not text:
            raise unreadable(str(self.path), "a file that is not empty")
        return text

    @cached_property
    def header(self) -> str:
        """The first row, with the end of its line."""
        found = _HEADER.match(self.text)
        return self.text if found is None else found.group()

    @cached_property
    def likely_separator(self) -> Separator:
        plain = re.sub(r'"[^"]*"', "", self.header)
        likely = max(SEPARATORS, key=plain.count)
        return likely if likely in plain else self.separator

    @property
    def advice(self) -> str:
        """What to do if the file has another separator."""
        likely = self.likely_separator
        if likely == self.separator:
            return ""
        mark = json.dumps(likely)  # as TOML has it
        return (
            f"{mark} seems to separate its columns. If so, write separator = {mark} in the schema "
            f"(`pea schema` drafts it), or save the table with {json.dumps(self.separator)} or as "
            "Parquet."
        )

    def error(self, at: int, allowed: str, advice: str = "") -> ArgumentError:
        """The error of what is at a place in the text."""
        return self._error(self.text[:at], allowed, advice)

    def _error(self, before: str, allowed: str, advice: str) -> ArgumentError:
        *lines, last = _BREAK.split(before)
        place = f"{self.path.name}, line {len(lines) + 1}, column {len(last) + 1}"
        return unusable(place, allowed, advice)

    def rows(self) -> Iterator[_Row]:
        """All rows, the header first: lines are joined as long as a quotation mark is open."""
        if (at := self.text.find("\0")) >= 0:
            raise self.error(at, "text in UTF-8 without NUL bytes", _AS_CSV)
        ends = _BREAK.findall(self.header)
        end = ends[-1] if ends and self.header.endswith(ends[-1]) else "\n"
        lines = self.text.removesuffix(end).split(end)
        start, parts, marks = 0, [], 0
        for number, line in enumerate(lines, start=1):
            parts.append(line)
            marks += line.count('"')
            if marks % 2 == 0 or number == len(lines):
                text = end.join(parts)
                yield start, self._cells(start, text), text
                start += len(text) + len(end)
                parts, marks = [], 0

    def _cells(self, start: int, text: str) -> list[str]:
        if '"' not in text and not _is_broken(text):
            return text.split(self.separator)
        cells, at = [], 0
        while found := self._cell.match(text, at):
            quoted, plain, stop = found.groups()
            cells.append(plain if quoted is None else quoted.replace('""', '"'))
            at = found.end()
            if not stop:
                return cells
        cell = text[at:].partition(self.separator)[0]
        if cell.startswith('"'):
            raise self.error(start + at, "a cell with a quotation mark at both ends", _DOUBLED)
        at += re.search(r'["\r\n]', cell).start()  # type: ignore[union-attr]
        if text[at] == '"':
            raise self.error(start + at, "a cell without a quotation mark within", _DOUBLED)
        raise self.error(start + at, "a line that ends as the first one does")

    @cached_property
    def _cell(self) -> re.Pattern[str]:
        mark = re.escape(self.separator)
        return re.compile(rf'(?:"((?:[^"]|"")*+)"|([^"\r\n{mark}]*+))({mark}|\Z)')

    def check_one(self, row: _Row, kinds: Sequence[_Holds]) -> None:
        """Checks that a row of several lines cannot be several rows.

        Two stray quotation marks can make one well-formed record of all rows between them. Then
        each line, with what stands before or behind the cell, has as many cells as a row, and in
        some column these are like those of other rows. `kinds` says of a cell, by column, whether
        it is like those of one line; there are none for the header.
        """
        start, cells, _ = row
        for place, cell in enumerate(cells):
            first, *lines = (line.split(self.separator) for line in _BREAK.split(cell))
            if not lines:
                continue
            alone = [cells[:place] + first, *lines[:-1], lines[-1] + cells[place + 1 :]]
            if any(len(each) != len(cells) for each in alone):
                continue
            columns = [*zip(*alone, strict=True)]
            if not kinds or any(all(map(kind, columns[i])) for i, kind in enumerate(kinds)):
                allowed = "one record: each of its lines could be one"
                advice = (
                    f"Look for stray quotation marks in its {len(alone)} lines. {_DOUBLED} If it "
                    "is one record, save the table as Parquet."
                )
                raise self.error(start, allowed, advice)
