"""What a table of one command says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ANY: tuple[str, ...] = ()
"""Any text goes, or it is checked with others only."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """The cases of one command that follow from its options' own ranges.

    Attributes:
        base: options with which the command would run, and their values; None: a flag.
        ranges: values that are refused, by option. All options are here.
        together: options that do not go together (None: left out), and the names that may be told.
        aliases: by option, other names under which it is told.
    """

    base: Mapping[str, str | None]
    ranges: Mapping[str, Sequence[str]]
    together: Sequence[tuple[Mapping[str, str | None], tuple[str, ...]]] = ()
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def typed(self, changes: Mapping[str, str | None]) -> list[str]:
        """Returns the arguments with some changed; None leaves an option out, "" is a flag."""
        given = {flag: "" if value is None else value for flag, value in self.base.items()}
        given |= changes  # type: ignore[arg-type]
        words: list[str] = []
        for flag, value in given.items():
            if value is not None:
                words += [flag] if flag.startswith("-") else []
                words += [value] if value else []
        return words
