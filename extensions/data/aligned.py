"""What `pea align` writes: an owner's rows in the common order, and beside them what that is of."""

import codecs
import csv
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from extensions import durable
from extensions.data.schema.cells import Table
from extensions.errors import ArgumentError

_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Alignment:
    """An order of persons that several owners have in common.

    Attributes:
        rows: number of these persons, and of rows.
        order: SHA-256 of the order, 64 hexadecimal digits: equal at all owners.
        members: names of the owners, by rank.
        sizes: of their lists as they announced them, by rank.
        owner: the one of them whose rows lie beside this file.
    """

    rows: int
    order: str
    members: tuple[str, ...]
    sizes: tuple[int, ...]
    owner: str

    @staticmethod
    def beside(records: Path) -> Path:
        """Returns where the alignment of a file of aligned rows lies."""
        return records.with_name("alignment.json")

    def write(self, out: Path, table: Table, rows: Sequence[int], separator: str) -> None:
        """Writes rows of a table, in this order, and beside them what they are.

        Both files can be read by their owner alone.
        """
        with durable.write(out) as file:
            text = codecs.getwriter("utf-8")(file)
            lines = csv.writer(text, delimiter=separator, lineterminator="\n")
            lines.writerow(table)
            lines.writerows([cells[row] for cells in table.values()] for row in rows)
        with durable.write(self.beside(out)) as file:
            file.write(json.dumps({"format": _FORMAT, **asdict(self)}, indent=2).encode() + b"\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Returns what such a file says.

        Raises:
            ArgumentError: there is none, or it says something else.
        """
        try:
            said: dict[str, Any] = json.loads(path.read_bytes())
            if said.pop("format") != _FORMAT:
                raise ValueError("unknown format")
            found = cls(**{**said, "members": (*said["members"],), "sizes": (*said["sizes"],)})
            found._check()
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            allowed, advice = "a file of `pea align`", f"{type(error).__name__}: {error}."
            raise ArgumentError("alignment", str(path), allowed, advice, code="file") from error
        return found

    def _check(self) -> None:
        counts, names = (self.rows, *self.sizes), {*self.members}
        if not all(type(each) is int and each >= self.rows >= 0 for each in counts):
            raise ValueError("impossible numbers")
        if not _DIGEST.fullmatch(self.order) or {*map(type, names)} != {str}:
            raise ValueError("impossible texts")
        if not len(names) == len(self.members) == len(self.sizes) >= 2 or self.owner not in names:
            raise ValueError("impossible owners")
