"""The words of errors, notices and help, in one snapshot that is renewed at once.

Tests assert an error's code, argument and value; how it is said stands here alone. After a change
of words, type ``python -m tests.wordings`` and read what git shows of ``snapshot.txt``.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

SNAPSHOT = Path(__file__).with_name("snapshot.txt")
PACKAGES = ("extensions", "crypten_ext", "tfe_ext", "fl")
_WORDS = 3
"""A text of so many words is a sentence, or a part of one."""


def wordings() -> list[str]:
    """Returns the texts of the packages that somebody may read, each with its package, in order."""
    return sorted(
        {
            f"{package}: {text}"
            for package in PACKAGES
            for path in (ROOT / package).rglob("*.py")
            for text in _texts(ast.parse(path.read_text()))
            if len(text.split()) >= _WORDS
        }
    )


def _texts(tree: ast.Module) -> Iterator[str]:
    """Yields the strings of a module but docstrings; what is filled in stands in braces."""
    parts = {
        id(part)
        for node in ast.walk(tree)
        for part in (
            [node.value]
            if isinstance(node, ast.Expr)
            else ast.walk(node)
            if isinstance(node, ast.JoinedStr)
            else []
        )
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield ascii("".join(map(_part, node.values)))[1:-1]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield ascii(node.value)[1:-1]


def _part(node: ast.expr) -> str:
    """A part of an f-string: what it says, or what is filled in."""
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return str(ast.literal_eval(node))
