"""Streams that end no run: what is replaced, what is left out, and what is kept of a failure."""

import errno
import io
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from rich.console import Console
from rich.progress import Progress

from extensions import printing

FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def written_in(encoding, *texts, errors="strict"):
    behind = io.BytesIO()
    text = io.TextIOWrapper(behind, encoding=encoding, errors=errors)
    stream = printing.Stream(lambda: text)
    assert [stream.write(each) for each in texts] == [*map(len, texts)]
    stream.flush()
    assert stream.failure is None
    return behind.getvalue()


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", b"a?b?c\n"),
        ("latin-1", b"a\xe9b?c\n"),
        ("koi8-r", b"a?b\xd6c\n"),
        ("cp437", b"a\x82b?c\n"),
        ("utf-8", "aébжc\n".encode()),
    ],
)
def test_characters_that_a_console_does_not_have_are_replaced(encoding, expected):
    assert written_in(encoding, "aébжc\n") == expected


def test_names_of_files_that_are_no_text_are_replaced():
    assert written_in("utf-8", os.fsdecode(b"model-\xff\n")) == b"model-?\n"


def test_a_stream_with_its_own_replacement_keeps_it():
    assert written_in("ascii", "ж", errors="backslashreplace") == b"\\u0436"


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_commands_print_through_it_and_not_past_it(encoding, monkeypatch):
    behind = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(behind, encoding=encoding))
    with printing.unfailing():
        printing.say("ж")
    assert behind.getvalue() == "ж\n".encode(encoding, "replace")


@contextmanager
def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        yield pipe
        with open(os.devnull, "w") as nowhere:  # or it could not be closed
            os.dup2(nowhere.fileno(), pipe.fileno())


@contextmanager
def full_disk():
    with open("/dev/full", "w") as file:
        yield file
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), file.fileno())


@pytest.mark.parametrize(
    ("opened", "number"),
    [(closed_pipe, errno.EPIPE), pytest.param(full_disk, errno.ENOSPC, marks=FULL)],
)
def test_what_cannot_be_written_is_left_out_and_the_first_error_kept(opened, number):
    with opened() as behind:
        stream = printing.Stream(lambda: behind)
        stream.write("one\n")
        stream.flush()
        first = stream.failure
        assert first is not None
        assert first.errno == number
        print("two" * 100_000, file=stream, flush=True)
        assert stream.failure is first


def test_without_a_stream_nothing_is_written(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    print("nobody reads it", file=printing.ERR, flush=True)
    assert not printing.ERR.isatty()
    with pytest.raises(OSError, match="fileno"):
        printing.ERR.fileno()
    with pytest.raises(TypeError):
        printing.ERR.write(b"bytes")


@FULL
@pytest.mark.parametrize("terminal", [False, True])
def test_a_bar_outlasts_its_console(terminal, monkeypatch):
    """On a terminal rich puts an object in the place of the stream that prints by the console."""
    with full_disk() as behind:
        monkeypatch.setattr(sys, "stderr", behind)
        console = Console(file=printing.ERR, force_terminal=terminal)
        with Progress(console=console) as bar:
            task = bar.add_task("steps", total=2)
            for _ in range(2):
                print("beside it", file=sys.stderr)
                bar.update(task, advance=1, refresh=True)
        assert bar.finished
        monkeypatch.undo()


def test_the_streams_of_before_are_there_afterwards():
    before = sys.stdout, sys.stderr
    with printing.unfailing() as streams:
        assert {sys.stdout, sys.stderr} == {*streams.values()}
    assert (sys.stdout, sys.stderr) == before


@FULL
@pytest.mark.parametrize("closed", [(), (1,), (2,), (0, 1, 2)])
def test_a_process_ends_as_it_says_whatever_its_streams_are(closed, tmp_path):
    """Python alone ends with status 120 where it cannot empty its streams.

    Where one is closed, the first file that is opened would take what is printed.
    """
    code = f"""
import sys
from extensions import printing
with printing.unfailing():
    with open({str(tmp_path / "file")!r}, "w") as file:
        assert file.fileno() > 2
        for stream in (sys.stdout, sys.stderr):
            print("text", file=stream)
    sys.exit(7)
"""
    shell = " ".join(["exec", '"$@"', *(f"{number}>&-" for number in closed)])
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            ["sh", "-c", shell, "sh", sys.executable, "-c", code], stdout=full, stderr=full
        )
    assert ended.returncode == 7
    assert not (tmp_path / "file").read_text()
