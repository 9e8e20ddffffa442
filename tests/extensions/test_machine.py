"""What a process makes of its machine."""

import subprocess
import sys

import pytest

from tests.helpers.steps_memory import FEW

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is freed is kept by glibc")


def pages(*arguments: str) -> int:
    command = [sys.executable, "-m", "tests.helpers.steps_memory", *arguments]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_steps_take_the_memory_that_those_before_have_freed():
    assert pages("keep") < FEW < pages()
