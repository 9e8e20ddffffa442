"""What each tutorial tells a new user to type, from a fresh clone, and what it promises."""

import code
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.notebooks import Cell, alike, differences, typed_before
from tests.helpers.paths import ROOT
from tests.helpers.patience import PATIENCE

SCRIPTS = sorted(path for path in Path(__file__).parent.glob("*.sh") if os.access(path, os.X_OK))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_first_hour_ends_as_its_tutorial_says(script, tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("it is no clone")
    done = subprocess.run(
        ["bash", script],
        env={"PEA_PYTHON": sys.executable, "TMPDIR": str(tmp_path), **os.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


@pytest.mark.parametrize("helper", ["notebooks", "pages", "roles"])
def test_the_scripts_need_nothing_that_users_do_not_install(helper):
    without = "import sys; sys.modules.update(dict.fromkeys(['pytest', 'hypothesis']))"
    code = f"{without}; import tests.helpers.{helper}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


class Prompt(code.InteractiveConsole):
    """Reads lines as Python's prompt does, and runs none of them."""

    def runcode(self, _):
        pass

    def showsyntaxerror(self, *_, **__):
        raise  # what the prompt would show


@pytest.mark.parametrize("name", ["laptop", "aby3", "federated"])
def test_blocks_of_a_tutorial_can_be_pasted_at_the_prompt(name):
    """Before Python 3.13 an indented block there ends with an empty line."""
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        prompt = Prompt()
        *_, unfinished = [prompt.push(line) for line in [*block.splitlines(), ""]]
        assert not unfinished


@pytest.mark.parametrize(
    ("printed", "is_alike"),
    [
        ("right: 0.86, in 70 s", True),
        ("right: 0.70, in 7.1 s", False),
        ("wrong: 0.93, in 7.1 s", False),
        ("right: 0.93", False),
    ],
)
def test_what_is_printed_may_differ_by_noise_and_time(printed, is_alike):
    shown = "right: 0.93, in 7.1 s\n"
    assert alike(shown, printed) == is_alike
    assert len(differences([Cell("", printed, shown), Cell("", printed, None)])) == (not is_alike)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("laptop", "right on held-out"),
        ("crypten", "right on held-out"),
        ("aby3", "right on held-out"),
        ("federated", "% right"),
        ("first_table", "accuracy"),
        ("three_hospitals", "accuracy"),
    ],
)
def test_what_is_typed_before_the_first_result_is_counted_right(name, result):
    page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()
    counted = (ROOT / "docs" / "explanation" / "first_hours.md").read_text()
    (row,) = re.findall(rf"\(../tutorials/{name}\.md\)[^|]* \| (\d+) \| (\d+) \|", counted)
    clone_and_install = 2
    steps, lines = typed_before(result, page)
    assert row == (str(steps + clone_and_install), str(lines + clone_and_install))
