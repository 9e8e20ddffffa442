"""What each tutorial tells a new user to type, from a fresh clone, and what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.notebooks import Cell, alike, differences
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
