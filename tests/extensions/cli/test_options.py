"""What no option of any command may be: of a wrong type, out of its range, or given twice."""

import string
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from extensions.cli.command import Command
from extensions.cli.commands import Commands
from extensions.cli.main import PeaCommands
from extensions.errors import MissingExtraError
from extensions.options.leaves import Leaf, TypingError
from extensions.rules import Between, OneOf, Whole
from tests.helpers.commands import command_of, pea, pea_apart
from tests.helpers.refused import refused


def all_commands(group: type[Commands] = PeaCommands, *before: str) -> list[Command]:
    """Every command that can be imported here."""
    found = []
    for name in group.points():
        try:
            found.append(command_of(*before, name))
        except AssertionError:  # a group
            found += [command_of(*before, name, one) for one in ("owner", "data", "train")]
        except MissingExtraError:
            continue
    return found


COMMANDS = all_commands()
OPTIONS = [(each, leaf) for each in COMMANDS for leaf in each.leaves if not leaf.positional]
NUMBERS = [(each, leaf) for each, leaf in OPTIONS if leaf.kind in (int, float)]
FLAGS = [(each, leaf) for each, leaf in OPTIONS if leaf.is_flag]
RULED = [(each, leaf) for each, leaf in OPTIONS if leaf.rule is not None and not leaf.option.parse]
ONCE = [(each, leaf) for each, leaf in OPTIONS if not leaf.repeats]
words = st.text(string.ascii_lowercase, min_size=1).filter(lambda text: text not in ("inf", "nan"))


def names(pair: tuple[Command, Leaf]) -> str:
    return f"{pair[0].name} {pair[1].typed}"


def values_of(leaf: Leaf) -> st.SearchStrategy[Any]:
    """Values of the type that an option has, in its range or not."""
    if isinstance(leaf.rule, OneOf):
        return words
    ends = [end for end in (leaf.rule.least, leaf.rule.most) if end is not None]  # type: ignore
    if isinstance(leaf.rule, Whole) or leaf.kind is int:
        near = st.integers(-3, 3).flatmap(lambda by: st.sampled_from([int(e) + by for e in ends]))
        return st.one_of(near, st.integers())
    assert isinstance(leaf.rule, Between)
    return st.one_of(st.sampled_from(ends), st.floats())


def test_every_command_is_there():
    assert len(OPTIONS) > 400
    assert len(RULED) > 50
    assert len(NUMBERS) > 150


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(NUMBERS), words)
def test_a_text_is_no_number(pair, text):
    command, leaf = pair
    with refused(leaf.name, code="not-a-number", value=text, kind=TypingError):
        command.run([leaf.typed, text])


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FLAGS), words, st.sampled_from(["{}={}", "{} {}"]))
def test_a_flag_takes_no_value(pair, text, form):
    command, leaf = pair
    assume("=" in form or not any(each.positional for each in command.leaves))
    with refused(leaf.name, code="flag-value", kind=TypingError, value=None):
        command.run(form.format(leaf.typed, text).split())


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(RULED), st.data())
def test_a_value_out_of_its_range_is_refused(pair, data):
    command, leaf = pair
    value = data.draw(values_of(leaf))
    assume(not leaf.rule.holds(value))
    with refused(leaf.name, code=leaf.rule.code, value=value):
        command.run([f"{leaf.typed}={value}"])


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(ONCE), words, words)
def test_an_option_is_given_once(pair, one, other):
    command, leaf = pair
    typed = [leaf.typed] * 2 if leaf.is_flag else [leaf.typed, one, leaf.typed, other]
    with refused(leaf.name, code="doubled", kind=TypingError):
        command.run(typed)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(OPTIONS), st.sampled_from([[], [""], ["  "], ["--help-me"]]))
def test_an_option_needs_a_value(pair, value):
    command, leaf = pair
    assume(not leaf.is_flag)
    with refused(leaf.name, code="no-value", kind=TypingError):
        command.run([leaf.typed, *value])


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(COMMANDS), words)
def test_what_is_no_option_is_told(command, text):
    flag = f"--{text}"
    assume(flag not in [leaf.typed for leaf in command.leaves] and flag != "--help")
    with refused(flag, code="unknown-option", kind=TypingError, value=None):
        command.run([flag])
    if any(leaf.positional for leaf in command.leaves):
        return
    with refused("", code="stray", value=text, kind=TypingError):
        command.run([text])


@pytest.mark.parametrize("pair", [each for each in OPTIONS if each[1].word != "config"], ids=names)
def test_a_file_says_it_as_it_is_typed(pair, tmp_path):
    command, leaf = pair
    path = tmp_path / "run.toml"
    wrong = '"x"' if leaf.is_flag or leaf.repeats else "[1, 2]"
    for text, code in ((f"{leaf.word} = {wrong}\n", "data"), (f"[{leaf.word}]\n", "key")):
        path.write_text(text)
        if leaf.word != "again" or code == "key":
            with refused("config", code=code):
                command.run(["--config", str(path)])


SAID = {
    "trian": "'trian' is no command of `pea`. Did you mean `pea train`? `pea --help` lists them.",
    "train --epsilo 2": "--epsilo is no option of `pea train`. Did you mean --epsilon? "
    "`pea train --help-all` lists all options.",
    "train --steps many": "--steps must be a whole number, not 'many'.",
    "train --steps": "--steps needs a value.",
    "train --steps 1 --steps 2": "--steps is given twice. Give it once.",
    "train --verbose yes": "--verbose is a flag and takes no value. Give it alone, or leave it "
    "out.",
    "train x": "'x' belongs to no option of `pea train`.",
    "keys --name a": "`pea keys` needs --out.",
    "budget": "`pea budget` needs RECORDS.",
    "--lr 3 train": "--lr is no option of `pea`. Options follow the command's name.",
}


@pytest.mark.parametrize("typed", SAID)
def test_what_is_wrong_is_one_line_that_says_what_to_type(typed):
    done = pea(*typed.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"pea: {SAID[typed]}\n"


def test_a_process_ends_with_the_status_of_its_error():
    for typed, status in (("train --lr x", 2), ("train --epsilon 2 --delta 3", 1), ("--help", 0)):
        done = pea_apart(*typed.split())
        assert done.returncode == status
        assert len(done.stderr.splitlines()) == (status > 0)


def test_the_nearest_name_is_what_was_meant():
    done = pea("train", "--loss", "sigmid")
    assert done.returncode == 1
    assert done.stderr.endswith("Did you mean --loss sigmoid?\n")
