"""Programs that docstrings show."""

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any


def programs(function: Callable[..., Any]) -> list[str]:
    """Returns the indented blocks of a docstring, before its arguments."""
    text = (inspect.getdoc(function) or "").partition("\nArgs:")[0]
    found = re.findall(r"(?:^(?: {4}.*)?\n)+", text + "\n", flags=re.MULTILINE)
    return [textwrap.dedent(block) for block in found if block.strip()]
