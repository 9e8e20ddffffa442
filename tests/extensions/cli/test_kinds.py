"""Options that choose one of several objects, and those that are its arguments."""

import sys
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest

from extensions.cli.command import Command
from extensions.options import Kinds
from extensions.options.kinds import Chosen
from extensions.options.leaves import TypingError, shows
from extensions.rules import POSITIVE, check_fields
from tests.helpers.refused import refused


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A grid.

    Attributes:
        bits: of a value.
        width: of a cell.
    """

    bits: int = 24
    width: Annotated[float, POSITIVE] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)


COARSE = Grid(bits=8)


class Red:
    """Something.

    Args:
        share: how much.
        grid: where.
        other: where, too; None: nowhere.
        packing: put many into one.
        noise: of some kind.
    """

    def __init__(
        self,
        *,
        share: float,
        grid: Grid = COARSE,
        other: Grid | None = None,
        packing: bool = True,
        noise: Any = None,
    ) -> None:
        POSITIVE.check("share", share)
        self.made = {"share": share, "grid": grid, "other": other, "packing": packing}


@dataclass(frozen=True, kw_only=True)
class Blue:
    """Something else.

    Attributes:
        share: how much.
        deep: whether it is dark.
    """

    share: float = 2.0
    deep: bool = False


COLOURS = Kinds({"red": f"{__name__}:Red", "blue": f"{__name__}:Blue", "gone": "no_such:It"})
KNOWN = Kinds({name: COLOURS.of[name] for name in ("red", "blue")}, usual="blue")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings.

    Attributes:
        colour: one of two.
        size: of all.
    """

    colour: Annotated[Chosen, KNOWN]
    size: int = field(default=3)


def paint(settings: Settings) -> Chosen:
    """Paint it."""
    return settings.colour


def run(*words: object) -> Any:
    return Command("paint", paint).run([*map(str, words)]).make()


def test_arguments_are_those_of_the_class_that_is_chosen():
    assert run() == Blue()
    assert run("--blue.share", 3, "--blue.deep") == Blue(share=3.0, deep=True)
    red = ("--colour", "red", "--red.share", 1)
    assert run(*red).made == {"share": 1.0, "grid": COARSE, "other": None, "packing": True}
    more = ("--red.no-packing", "--red.grid.width", 2, "--red.other.bits", 4)
    assert run(*red, *more).made == {
        "share": 1.0,
        "grid": Grid(bits=8, width=2.0),
        "other": Grid(bits=4),
        "packing": False,
    }


def test_a_further_argument_yields_to_what_is_given():
    chosen = Command("paint", paint).run(["--colour", "red", "--red.grid.bits", "3"])
    assert chosen.make(share=7.0, grid=Grid(width=5.0)).made["grid"] == Grid(bits=3, width=5.0)


@pytest.mark.parametrize(
    ("words", "argument", "code", "value"),
    [
        (("--colour", "green"), "colour", "choice", "green"),
        (("--colour", "red"), "red.share", "missing", None),
        (("--red.share", 1), "red.share", "conflict", 1.0),
        (("--colour", "red", "--red.share", -1), "red.share", "range", -1.0),
        (
            ("--colour", "red", "--red.share", 1, "--red.grid.width", 0),
            "red.grid.width",
            "range",
            0.0,
        ),
    ],
)
def test_what_does_not_fit_is_named_as_it_is_typed(words, argument, code, value):
    with refused(argument, code=code, value=value):
        run(*words)


def test_arguments_that_are_no_numbers_texts_or_flags_are_no_options():
    with pytest.raises(TypingError) as caught:
        run("--red.noise", 1)
    assert caught.value.code == "unknown-option"


@pytest.mark.parametrize(
    "text",
    [
        'colour = "red"\n[red]\nshare = 1.0\ngrid = {width = 2.0}',
        '[colour]\nkind = "red"\nshare = 1.0\n[colour.grid]\nwidth = 2.0',
        '"red.grid.width" = 2.0\n"red.share" = 1.0\ncolour = "red"',
    ],
)
def test_a_file_of_options_has_tables_of_them(tmp_path, text):
    (tmp_path / "own.toml").write_text(text)
    made = run("--config", tmp_path / "own.toml").made
    assert (made["share"], made["grid"]) == (1.0, Grid(bits=8, width=2.0))
    typed = run("--config", tmp_path / "own.toml", "--red.share", 4).made
    assert (typed["share"], typed["grid"].width) == (4.0, 2.0)


@pytest.mark.parametrize("key", ["[red]\nshade", "[colour]\nkind = 'red'\nshade", "[size]\nshade"])
def test_an_unknown_key_of_a_table_is_named(tmp_path, key):
    (tmp_path / "own.toml").write_text(f"{key} = 1.0")
    with refused("config", code="key"):
        run("--config", tmp_path / "own.toml")


def test_help_of_the_usual_options_imports_nothing_that_may_be_chosen(capsys):
    @shows("colour", example="paint --colour red")
    def shown(colour: Annotated[Chosen, COLOURS]) -> None:
        """Paint it."""

    Command("paint", shown).run(["--help"])
    assert "--colour" in capsys.readouterr().out
    with pytest.raises(ModuleNotFoundError):
        Command("paint", shown).run(["--help-all"])
    assert "no_such" not in sys.modules


def test_help_of_all_options_has_each_argument_with_its_default(capsys):
    Command("paint", paint).run(["--help-all"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in ("--red.share X How much.", "--red.no-packing Do not put many into one."):
        assert part in shown
    assert "--red.grid.bits N Of a value. [default: 8]" in shown
    assert "--colour red" in shown
