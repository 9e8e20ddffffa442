"""What does not go together is refused before anything is shared or written, by name and kind."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from extensions.cli.main import PeaCommands
from extensions.errors import MissingExtraError
from tests.extensions.cli.contradictions import BASES, SHORT, TABLE
from tests.helpers.commands import call
from tests.helpers.owners_files import make_files, share_model, train_model
from tests.helpers.refused import refused

SHARING = ("socket.connect", "socket.sendto", "subprocess.Popen", "os.fork", "os.posix_spawn")
ROWS = [
    (name, *line.split(maxsplit=2))
    for names, lines in TABLE.items()
    for name in names.split()
    for line in lines.splitlines()
    if line
]
reached: list[str] = []


def hear(event: str, arguments: object) -> None:
    if event in SHARING:
        reached.append(f"{event} {arguments}")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A host's folder with owners' files, in which commands are typed."""
    folder, before = tmp_path_factory.mktemp("host"), os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR"):
            patch.setenv(variable, str(folder))
        os.chdir(folder)
        make_files(Path("given"))
        train_model(Path("given"))
        share_model(Path("given"))
        sys.addaudithook(hear)
        yield folder
    os.chdir(before)


def typed(name: str, changes: str) -> list[str]:
    """The base of a command with changes."""
    for word, options in SHORT.items():
        changes = changes.replace(word, options)
    given: dict[str, str] = {}
    for word in f"{BASES[name]} {changes}".split():
        flag, separator, value = word.partition("=")
        if flag.startswith("!"):
            given.pop(f"--{flag[1:]}", None)
        else:
            given[flag] = separator + value
    return [flag + value for flag, value in given.items()]


def contents(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize(("name", "argument", "code", "changes"), ROWS)
def test_what_contradicts_is_refused(host, name, argument, code, changes):
    before = contents(host)
    reached.clear()
    try:
        with refused(argument.replace("+", ", ").replace("_of_a_", " of a "), code=code):
            call(name, *typed(name, changes))
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert not reached
    assert contents(host) == before


def test_every_command_has_its_contradictions():
    without = {"explain", "export", "pencil"}  # of which no two options contradict; its own tests
    assert {name for name, *_ in ROWS} == {*PeaCommands.points()} - without
