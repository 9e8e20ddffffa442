"""Claims of the documents on security, each with the tests that hold it.

    python -m tests.helpers.claims    # writes docs/reference/claims.md

A page marks a sentence that a test holds with a check mark, and the test has the same sentence:

    @claim("Every opened word is masked.")
    def test_every_opened_word_is_masked(pool): ...
"""

import ast
import re
from collections.abc import Callable
from typing import TypeVar

from tests.helpers.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "claims.md"
MARK = "[✓](../reference/claims.md)"
_HEAD = """# What tests hold

Sentences of the pages on security that end with a check mark are held by these tests. Run one with
`.venv/bin/python -m pytest`, followed by its place.

| Claim | Page | Tests |
| --- | --- | --- |
"""
Test = TypeVar("Test", bound=Callable[..., object])


def claim(sentence: str) -> Callable[[Test], Test]:
    """Says that a test holds a sentence of a page."""
    assert sentence.endswith(".")
    return lambda test: test


def claims() -> dict[str, list[str]]:
    """Returns the places of the tests that hold each sentence, such as ``tests/a.py::test_b``."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "@claim(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            for call in getattr(node, "decorator_list", []):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "claim":
                    place = f"{path.relative_to(ROOT)}::{node.name}"
                    found.setdefault(ast.literal_eval(call.args[0]), []).append(place)
    return found


def marked() -> dict[str, str]:
    """Returns each page's text, on one line, by its name."""
    pages = sorted((ROOT / "docs" / "explanation").glob("*.md"))
    return {path.name: re.sub(r"\s+", " ", path.read_text()) for path in pages}


def page() -> str:
    """Returns the page of claims."""
    texts, rows = marked(), []
    for sentence, places in claims().items():
        names = [name for name, text in texts.items() if f"{sentence} {MARK}" in text]
        links = ", ".join(f"[{name[:-3]}](../explanation/{name})" for name in names)
        rows.append((links, sentence, " <br> ".join(f"`{place}`" for place in places)))
    lines = [f"| {sentence} | {links} | {tests} |\n" for links, sentence, tests in sorted(rows)]
    return _HEAD + "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
