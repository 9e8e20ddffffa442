"""Options that are the fields of dataclasses, and commands that other distributions add."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pytest

from extensions.cli.command import Command
from extensions.options import Option, Options
from extensions.options.leaves import TypingError
from extensions.rules import Whole
from tests.helpers.commands import call
from tests.helpers.refused import refused


@dataclass(frozen=True, kw_only=True)
class Inner:
    """Inside.

    Attributes:
        deep: how deep.
    """

    deep: int = 2


@dataclass(frozen=True, kw_only=True)
class Outer:
    """Outside.

    Attributes:
        level: how far, in a
            sentence of two lines.
        plain: what is said of a flag that is not one.
        warm: on, off, or not said.

    Raises:
        ArgumentError: never.
    """

    level: float = 0.5
    kind: Literal["a", "b"] | None = None
    plain: Annotated[bool, Option(name="no-frills", help="without.", negated=True)] = True
    warm: bool | None = None
    words: Annotated[tuple[str, ...], Option(parse=lambda text: tuple(text.split(",")))] = ()
    hidden: int = 7
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Kept.

    Attributes:
        folder: where.
        every: how often.
    """

    folder: Annotated[Path, Option(name="keep")]
    every: int | None = None


def called(*arguments: str) -> tuple[Outer, Kept | None, int]:
    """What a command is called with, and what `Kept` it has."""

    def function(
        outer: Annotated[Outer, Options("Group", without=("hidden",))],
        kept: Kept | None,
        own: Annotated[int, Option(help="Its own."), Whole(1)] = 1,
    ) -> tuple[Outer, Kept | None, int]:
        """Does it."""
        return outer, kept, own

    return Command("pea it", function).run(arguments)


def test_defaults_are_the_fields():
    assert called() == (Outer(), None, 1)


def test_fields_are_given_by_their_names():
    given = ("--level", "2", "--kind", "b", "--no-frills", "--words", "x,y", "--deep", "3")
    expected = Outer(level=2.0, kind="b", plain=False, words=("x", "y"), inner=Inner(deep=3))
    assert called(*given, "--own", "4") == (expected, None, 4)


@pytest.mark.parametrize(
    ("given", "warm"), [((), None), (("--warm",), True), (("--no-warm",), False)]
)
def test_a_flag_that_may_be_unsaid_can_be_said_either_way(given, warm):
    assert called(*given)[0] == Outer(warm=warm)


def test_an_optional_dataclass_needs_the_field_without_a_default():
    assert called("--keep", "here")[1] == Kept(folder=Path("here"))
    assert called("--keep", "here", "--every", "3")[1] == Kept(folder=Path("here"), every=3)
    with refused("every", code="needs", value=3):
        called("--every", "3")


def test_a_field_that_is_left_out_is_no_option():
    with refused("--hidden", code="unknown-option", kind=TypingError, value=None):
        called("--hidden", "3")


def test_the_rule_of_a_parameter_holds():
    with refused("own", code="range", value=0):
        called("--own", "0")


def test_the_help_is_the_docstring(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    called("--help")
    shown = capsys.readouterr().out
    words = " ".join(re.sub(r"[│╭╮╰╯─]", " ", shown).split())
    assert "Does it." in words
    assert "Group --level X How far, in a sentence of two lines. [default: 0.5]" in words
    assert "--no-frills Without." in words
    assert "--warm --no-warm On, off, or not said." in words
    assert "--deep N How deep. [default: 2]" in words


def test_help_shows_what_most_runs_need_and_help_all_the_rest(capsys):
    for flag, shown in (("--help", False), ("--help-all", True)):
        call("train", flag)
        text = capsys.readouterr().out
        assert "Example: pea train" in text
        assert ("--overflow" in text or "--adam-floor" in text) == shown
        options = {*re.findall(r"^│ (--[a-z-]+)", text, re.MULTILINE)}
        assert shown or len(options) <= 15


def test_a_distribution_adds_a_command_by_an_entry_point_alone(tmp_path):
    """It is listed, with its help, before anything of it is imported."""
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "__init__.py").write_text("print('imported')\n")
    (tmp_path / "third" / "greeting.py").write_text(
        "from dataclasses import dataclass\n"
        "@dataclass\n"
        "class Manner:\n"
        '    """How.\n\n    Attributes:\n        name: of whom.\n    """\n'
        "    name: str = 'you'\n"
        "def greet(manner: Manner) -> None:\n"
        '    """Greet somebody."""\n'
        "    print(f'hello {manner.name}')\n"
    )
    info = tmp_path / "third-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[pea.commands]\ngreet = third.greeting:greet\nlost = third.nowhere:lost\n"
    )

    def pea(*words: str) -> str:
        code = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['pea', *{words!r}]\n"
        )
        code += "from extensions.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout

    listed = pea("--help")
    assert re.search(r"greet +Greet somebody\.", listed)
    assert re.search(r"lost +", listed)
    assert "imported" not in listed
    assert pea("greet", "--name", "Ada") == "imported\nhello Ada\n"
