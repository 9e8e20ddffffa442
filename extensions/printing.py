"""Printing that ends no run: what was computed and paid for is not lost with a line of text.

A character that a console does not have is replaced. What cannot be written, because a disk is full
or a reader has left, is left out.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TextIO, cast

CUT_SHORT = 74
"""Status of a command that did all it should, except that not all of its text could be written: as
sysexits.h has it for input and output."""


class Stream(io.TextIOBase):
    """A text stream whose `write` and `flush` never raise an OSError or UnicodeEncodeError.

    It has no `buffer`, so that nothing is written past it. The stream behind it is asked for each
    time; with None nothing is written. `failure` is its first error.
    """

    def __init__(self, stream: Callable[[], TextIO | None]) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str, /) -> int:
        """Writes the text as far as the stream takes it."""
        size = str.__len__(text)  # bytes are an error, by which others see that this takes text
        if (stream := self._stream()) is not None:
            try:
                try:
                    stream.write(text)
                except UnicodeEncodeError:
                    stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
            except OSError as error:
                self.failure = self.failure or error
        return size

    def flush(self) -> None:
        """Writes what the stream holds back."""
        if (stream := self._stream()) is not None:
            try:
                stream.flush()
            except OSError as error:
                self.failure = self.failure or error

    def writable(self) -> bool:
        """Returns True."""
        return True

    def isatty(self) -> bool:
        """Returns whether the stream is a terminal."""
        stream = self._stream()
        return stream is not None and stream.isatty()

    def fileno(self) -> int:
        """Returns the stream's descriptor."""
        stream = self._stream()
        return super().fileno() if stream is None else stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return getattr(self._stream(), "encoding", None) or "utf-8"


def _current(name: str) -> TextIO | None:
    stream = getattr(sys, name, None)  # at the very end there is neither
    # While rich shows a bar, what stands there prints through it: from here that would be a circle.
    found: TextIO | None = getattr(stream, "rich_proxied_file", stream)
    return found


OUT = cast(TextIO, Stream(partial(_current, "stdout")))
"""Standard output, whichever it is when something is written."""
ERR = cast(TextIO, Stream(partial(_current, "stderr")))
"""Standard error, likewise."""


def say(text: object, stream: TextIO = OUT) -> None:
    """Prints a line at once."""
    print(text, file=stream, flush=True)


@contextmanager
def unfailing() -> Iterator[dict[str, Stream]]:
    """In the block nothing that is printed raises an error; yields both streams by their names.

    Afterwards a stream that failed leads nowhere, or Python would fail to empty it when it ends.
    """
    # A standard stream that is closed leads nowhere; else the next file would be in its place.
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(free)
    out, err = sys.stdout, sys.stderr
    streams = {"standard output": Stream(lambda: out), "standard error": Stream(lambda: err)}
    sys.stdout, sys.stderr = streams.values()
    try:
        yield streams
    finally:
        sys.stdout, sys.stderr = out, err
        for stream in streams.values():
            stream.flush()
            if stream.failure is not None:
                with suppress(OSError), open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())


def table(title: str, rows: Sequence[Mapping[str, Any]], most: int = 10) -> str:
    """Returns a short table of the last rows, as a notebook shows an object.

    A column in which no row has a value is left out.
    """
    shown = rows[-most:]
    names = [k for k in dict.fromkeys(k for row in shown for k in row) if _any(shown, k)]
    lines = [names, *([_cell(row.get(name)) for name in names] for row in shown)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ("  ".join(map(str.rjust, line, widths)).rstrip() for line in lines if names)
    left = [f"... the last {most} of {len(rows)}"] if len(rows) > most else []
    return "\n".join([title, *texts, *left])


def _any(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return any(row.get(name) not in (None, "") for row in rows)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
